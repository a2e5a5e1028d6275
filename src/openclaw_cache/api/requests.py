"""What became of the last requests: `GET /admin/requests`, `/admin/explain/ID`, `/admin/prefixes`. Without any text."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec

from openclaw_cache.api import break_labels
from openclaw_cache.api.parameters import parameters
from openclaw_cache.errors import RequestError
from openclaw_cache.gateway.prefix_watch import NUM_BREAKS
from openclaw_cache.observe.recent import FILTERS
from openclaw_cache.types import Json

if TYPE_CHECKING:
    from openclaw_cache.api.semantic import SemanticAdmin
    from openclaw_cache.gateway.prefix_watch import PrefixWatch, SeenBreak
    from openclaw_cache.observe.recent import Recent
    from openclaw_cache.observe.record import PrefixBreak, RequestRecord

_LIMIT: Final = 50
_MOST: Final = 100_000

_NO_DECISION: Final = dict.fromkeys(
    ("id", "domain", "outcome", "cosine", "score", "limit", "age_s", "learned")
)  # as `Decision.shown` has them, where nothing was looked for by meaning


class RecentRequests:
    """Shows the last requests, newest first."""

    def __init__(self, recent: Recent) -> None:
        self._recent = recent

    async def shown(self, query: bytes) -> Json:
        """Those that a query asks for (`limit`, and `recent.FILTERS`; an empty value is none). Raises RequestError."""
        asked = parameters(query, ("limit", *FILTERS))
        limit = _limit(asked, _LIMIT, _MOST)
        wanted = {name: value for name, value in asked.items() if name in FILTERS and value}
        return {"requests": [row(record) for record in self._recent.last(limit, **wanted)]}


class Explaining:
    """Shows one request's path, and what the semantic cache decided for it.

    Args:
        recent: The last requests.
        semantic: Knows decisions, by their own id and by their request's.
    """

    def __init__(self, recent: Recent, semantic: SemanticAdmin) -> None:
        self._recent = recent
        self._semantic = semantic

    async def shown(self, name: str) -> Json:
        """What is known by a request's id, or a decision's. Raises RequestError: 404 where nothing is."""
        record = self._recent.find(name)
        if record is None:
            decision = self._decision(name)
            record = self._recent.find(decision["request_id"])
            if record is None or record.semantic_id != decision["id"]:
                return decision
        else:
            decision = self._semantic.known(record.semantic_id) or _NO_DECISION | {
                "request_id": record.request_id,
                "at": record.at,
                "model": record.model,
                "namespace": record.namespace,
                "checks": [],
            }
        broken = record.prefix_break
        return decision | {
            "request": row(record),
            "steps": [
                {"name": step.name, "result": step.result, "took_s": round(step.took_s, 6)}
                for step in record.steps
            ],
            "prefix_break": None if broken is None else _place(broken),
            "canonical": [msgspec.structs.asdict(effect) for effect in record.canonical],
            "canonical_saved_tokens": record.canonical_saved_tokens,
        }

    def _decision(self, name: str) -> Json:
        """The semantic cache's decision of this name. Raises RequestError: 404 where nothing has the name."""
        try:
            return self._semantic.explain(name)
        except RequestError as e:
            if e.status != 409:
                raise
            message = "no request is known by that id: only the last ones are known, until a restart"
            raise RequestError(404, message, param="id", code="not_found") from None


class Prefixes:
    """Shows where prompts broke their prefixes.

    Args:
        watch: Compares them; None = it is off.
    """

    def __init__(self, watch: PrefixWatch | None) -> None:
        self._watch = watch

    async def shown(self, query: bytes) -> Json:
        """The last breaks, newest first, at most `limit` of a query, and sums since the start. Raises RequestError."""
        limit = _limit(parameters(query, ("limit",)), 100, NUM_BREAKS)
        watch = self._watch
        if watch is None:
            message = "prefixes are not watched: set observe.prefixes: true, and start anew"
            raise RequestError(400, message, code="prefixes_off")
        return {
            "since_at": watch.since_at,
            **msgspec.structs.asdict(watch.sums),
            "breaks": [_break(seen) for seen in islice(watch.breaks(), limit)],
            "causes": {
                cause: {"num": num, "lost_tokens": watch.lost_tokens[cause]}
                for cause, num in watch.causes.most_common()
            },
        }


def row(record: RequestRecord) -> dict[str, Json]:
    """A request, for an operator's eyes."""
    savings, broken = record.savings, record.prefix_break
    shown: dict[str, Json] = {
        "request_id": record.request_id,
        "at": record.at,
        "api": record.api,
        "outcome": record.outcome,
        "detail": record.detail,
        "miss": record.miss,
        "status": record.status,
        "error": record.error,
        "model": record.model,
        "upstream": record.upstream,
        "namespace": record.namespace,
        "agent": record.agent,
        "session": record.session,
        "stream": record.stream,
        "prompt_id": record.prompt_id,
        "prompt_tokens": record.prompt_tokens,
        "completion_tokens": record.completion_tokens,
        "tokens_from": dict(record.tokens_from),
        "ttft_s": None if record.ttft_s is None else round(record.ttft_s, 6),
        "duration_s": round(record.duration_s, 6),
        "saved_s": round(record.saved_s, 6),
        "saved_usd": savings.saved_usd,
        "spent_usd": savings.spent_usd,
    }
    if broken is not None:
        shown["prefix_break"] = _place(broken)
    return shown


def _break(seen: SeenBreak) -> Json:
    return {
        "at": seen.at,
        "request_id": seen.request_id,
        "agent": seen.agent,
        "session": seen.session,
        "namespace": seen.namespace,
        **_place(seen.found),
    }


def _place(found: PrefixBreak) -> dict[str, Json]:
    """Where a prompt left another, with its label as data too."""
    return {**msgspec.structs.asdict(found), "said": break_labels.shown(found.label)}


def _limit(asked: dict[str, str], default: int, most: int) -> int:
    """How many are asked for. Raises RequestError."""
    text = asked.get("limit", str(default))
    if not text.isascii() or not text.isdigit() or len(text) > 9 or not 1 <= int(text) <= most:
        raise RequestError(400, f"limit: {text[:40]!r} is no number from 1 to {most}", param="limit")
    return int(text)
