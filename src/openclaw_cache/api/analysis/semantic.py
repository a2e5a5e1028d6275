"""What the semantic cache did in a stretch of time, and which questions are worth a place in the FAQ."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from openclaw_cache.api.semantic import SemanticPart
from openclaw_cache.errors import EmbeddingError
from openclaw_cache.types import Json
from openclaw_cache.units import TimeRange

if TYPE_CHECKING:
    from openclaw_cache.embedding.embedder import Vector
    from openclaw_cache.gateway.semantic.decisions import Decision
    from openclaw_cache.gateway.semantic.step import SemanticStep

_DEFAULT_DOMAIN: Final = "default"
_NO_COSINE: Final = 2.0
_NUM_SIZED: Final = 200
_ESTIMATES: Final = ("limit", "max_wrong_ratio", "wrong_ratio", "recall", "off_because")


class SemanticAnalysis:
    """Looks back at what was decided by meaning.

    Args:
        semantic: The semantic cache, loaded or not.
        wall: Unix seconds.
    """

    def __init__(self, semantic: SemanticPart, wall: Callable[[], float] = time.time) -> None:
        self._part = semantic
        self._wall = wall
        self._likeness: float | None = None

    async def shown(self, span: TimeRange) -> Json:
        """Look-ups, verdicts, domains, suggestions. Takes up to a second, beside the loop."""
        step = self._part.step
        if step is None:
            return {"state": self._part.state, "reason": self._part.reason or None}
        known = list(step.decisions)
        decided = [decision for decision in known if span.start_at <= decision.at <= span.end_at]
        looked_up = [decision for decision in decided if _was_looked_up(decision)]
        bypassed = Counter(decision.outcome for decision in decided if not _was_looked_up(decision))
        return {
            "state": self._part.state,
            "known_since_at": min((decision.at for decision in known), default=None),
            **_counts(looked_up),
            "verdicts": dict(Counter(decision.outcome for decision in looked_up).most_common()),
            "bypassed": dict(bypassed.most_common()),
            "domains": _domains(looked_up, step.cache.learning.status()),
            "suggestions": await self._suggested(step, span, decided),
        }

    async def _suggested(self, step: SemanticStep, span: TimeRange, decided: Sequence[Decision]) -> Json:
        # Only here: it needs numpy, which the semantic cache's extra brings.
        from openclaw_cache.semantic.suggestions import clusters  # noqa: PLC0415

        misses = step.suggestions.between(*span)
        found = await asyncio.to_thread(clusters, misses, await self._likeness_of(step)) if misses else []
        num_tokens = _tokens_of_a_reply(step, decided, self._wall())
        return [
            {
                "num_asked": suggestion.num_asked,
                "questions": list(suggestion.questions),
                "namespace": suggestion.namespace,
                "domain": suggestion.domain,
                "best_cosine": suggestion.best_cosine,
                "refusal": suggestion.refusal,
                "saved_tokens_estimate": None
                if num_tokens is None
                else round(suggestion.num_asked * num_tokens),
            }
            for suggestion in found
        ]

    async def _likeness_of(self, step: SemanticStep) -> float:
        """From what cosine on questions belong together; where the embedder cannot say, equal ones only."""
        from openclaw_cache.semantic.suggestions import UNRELATED, likeness  # noqa: PLC0415 - as above

        if self._likeness is None:
            found: list[Vector] = []
            try:
                for text in UNRELATED:
                    vector = await step.cache.embedder.embed_one(text, b"")
                    if vector is None:
                        return _NO_COSINE
                    found.append(vector)
            except EmbeddingError:
                return _NO_COSINE
            self._likeness = likeness(found)
        return self._likeness


def _was_looked_up(decision: Decision) -> bool:
    """Whether stored questions were searched, rather than a reason found not to."""
    return decision.cosine is not None or decision.outcome == "none"


def _counts(decisions: Sequence[Decision]) -> dict[str, Json]:
    num_hits = sum(decision.outcome == "hit" for decision in decisions)
    return {
        "num_lookups": len(decisions),
        "num_hits": num_hits,
        "hit_ratio": round(num_hits / len(decisions), 4) if decisions else None,
        "num_near_misses": sum(d.cosine is not None and d.outcome != "hit" for d in decisions),
    }


def _domains(decisions: Sequence[Decision], estimates: Iterable[Json]) -> list[Json]:
    """Each domain that is judged on its own: what happened, and what is known of it."""
    by_name = {estimate["domain"]: estimate for estimate in estimates}
    apart: dict[str, list[Decision]] = {name: [] for name in by_name}
    for decision in decisions:
        name = decision.domain if decision.domain in by_name else _DEFAULT_DOMAIN
        apart.setdefault(name, []).append(decision)
    return [
        {"domain": name, **_counts(its)} | {field: by_name.get(name, {}).get(field) for field in _ESTIMATES}
        for name, its in apart.items()
    ]


def _tokens_of_a_reply(step: SemanticStep, decided: Sequence[Decision], now: float) -> float | None:
    """What a reply costs, prompt included, by the stored ones that were found of late; None where none tells."""
    keys = list(dict.fromkeys(decision.key for decision in reversed(decided) if decision.key is not None))
    entries = [step.results.peek(key, now) for key in keys[:_NUM_SIZED]]
    sizes = [(e.prompt_tokens or 0) + (e.completion_tokens or 0) for e in entries if e is not None]
    known = [size for size in sizes if size]  # an operator's own answer cost nothing
    return sum(known) / len(known) if known else None
