"""A walk over the requests of a log: each is compared with those before it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from openclaw_cache.doctor.cache_rules import CacheRules
from openclaw_cache.doctor.finding import Break, Findings, Scope
from openclaw_cache.doctor.mending import LEVELS, mended_bytes
from openclaw_cache.doctor.pauses import Pauses
from openclaw_cache.doctor.switches import Switches
from openclaw_cache.doctor.token_scale import TokenScale
from openclaw_cache.observe.prices import PICODOLLARS, Prices
from openclaw_cache.prefix.comparison import Comparison, meet
from openclaw_cache.prefix.lineage import Found, Lineages, Match
from openclaw_cache.prefix.outline import Outline, outline
from openclaw_cache.request_logs.logged_request import LoggedRequest

_MOST_MENDED: Final = 2000
"""Breaks for which the canonicaliser is tried: it costs some milliseconds each."""
_MOST_MODELS: Final = 256
_MOST_SESSIONS: Final = 4096
_MOST_BYTES: Final = 256 * 2**20
"""Of the prompts that are remembered; their requests take about as much again."""


@dataclass(frozen=True, slots=True)
class _Prompt:
    """One request, read."""

    request: LoggedRequest
    outline: Outline
    bytes_per_token: float

    def tokens(self, num_bytes: int) -> int:
        """So many of its bytes as tokens."""
        return round(num_bytes / self.bytes_per_token)


@dataclass(slots=True)
class Kept:
    """Of pairs of prompts, one after the other."""

    num_pairs: int = 0
    kept_tokens: int = 0
    reachable_tokens: int = 0
    num_breaks: int = 0
    lost_tokens: int = 0
    """By breaks alone."""
    mended_tokens: dict[str, int] = field(default_factory=lambda: dict.fromkeys(LEVELS, 0))

    def count(self, one: _Prompt, kept_bytes: int, reachable_bytes: int) -> None:
        """Take in a pair."""
        self.num_pairs += 1
        self.kept_tokens += one.tokens(kept_bytes)
        self.reachable_tokens += one.tokens(reachable_bytes)

    def ratio(self, level: str | None = None) -> float:
        """Kept of what was within reach, as sent or under a level of the canonicaliser; 1 where nothing was."""
        kept = self.kept_tokens + (self.mended_tokens[level] if level else 0)
        return min(1.0, kept / self.reachable_tokens) if self.reachable_tokens else 1.0


@dataclass(slots=True)
class Measured:
    """What replies say that the provider's own cache had."""

    num_told: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    kept_tokens: int = 0
    """What it could have had: shared with an earlier prompt."""

    def count(self, request: LoggedRequest, kept_tokens: int) -> None:
        """Take in a request whose reply may tell."""
        usage = request.usage
        if usage is not None and usage.prompt_tokens:
            self.num_told += 1
            self.prompt_tokens += usage.prompt_tokens
            self.cached_tokens += usage.cached_tokens
            self.kept_tokens += min(kept_tokens, usage.prompt_tokens)


class Diagnosis:
    """Add each request in order; then read what was found. Memory is bounded: what is remembered of prompts, too."""

    def __init__(self, prices: Prices) -> None:
        self._prices = prices
        self._lineages: Lineages[LoggedRequest] = Lineages(_MOST_BYTES, _MOST_SESSIONS)
        self._last: dict[str, Outline] = {}
        """By model."""
        self._scale = TokenScale()
        self._switches = Switches()
        self.findings = Findings()
        self.in_sessions = Kept()
        self.with_tree = Kept()
        self.between_sessions = Kept()
        self.one_slot_kept_tokens = 0
        """Against the prompt before, whichever session it was of."""
        self.rules = CacheRules()
        self.pauses = Pauses()
        self.measured = Measured()
        self.num_requests = 0
        self.num_partial = 0
        """Requests whose log leaves out system prompt and tools."""
        self.models: set[str] = set()
        self.sessions: set[int] = set()
        self.lineages: dict[int, int] = {}
        """How many lines of prompts a session has, by the session."""
        self._num_mended = 0

    def add(self, request: LoggedRequest) -> None:
        """Compare one request with those before it."""
        prompt = outline(request.body)
        one = _Prompt(request, prompt, self._scale.of(request, prompt))
        self.num_requests += 1
        self.num_partial += not request.is_whole
        if len(self.models) < _MOST_MODELS:
            self.models.add(request.model)
        self.rules.count_marks(request)
        if (before := self._last.get(request.model)) is not None:
            self.one_slot_kept_tokens += one.tokens(meet(before, prompt).kept_bytes)
        found = self._lineages.add(request.model, request.session, prompt, request)
        if request.model in self._last or len(self._last) < _MOST_MODELS:
            self._last[request.model] = found.prompt
        self._count_lineage(one, found)
        switch = self._switches.add(request, found.prompt, is_first=found.previous is None)
        if switch is not None:
            told = switch.comparison
            self.in_sessions.count(one, told.kept_bytes, told.reachable_bytes)
            self.with_tree.count(one, told.kept_bytes, told.reachable_bytes)
            self._note("session", one, switch, told.lost_bytes)
        elif found.previous is not None and found.best is not None:
            self._in_session(one, found, found.previous, found.best)
        elif found.best is not None:
            told = found.best.comparison
            self.between_sessions.count(one, told.kept_bytes, told.reachable_bytes)
            if found.prefix_break() is not None:
                self._note("between sessions", one, found.best, found.lost_bytes)

    def _count_lineage(self, one: _Prompt, found: Found[LoggedRequest]) -> None:
        """A prompt begins a lineage where less than half of it was there before in its session."""
        session = hash((one.request.model, one.request.session))
        self.sessions.add(session)
        best = None if found.best is None or found.is_of_another_session else found.best.comparison
        goes_on = best is not None and (
            best.is_continued or not best.difference or 2 * best.kept_bytes >= one.outline.num_bytes
        )
        if not goes_on:
            self.lineages[session] = self.lineages.get(session, 0) + 1

    def _in_session(
        self,
        one: _Prompt,
        found: Found[LoggedRequest],
        previous: Match[LoggedRequest],
        best: Match[LoggedRequest],
    ) -> None:
        told = previous.comparison
        self.in_sessions.count(one, told.kept_bytes, told.reachable_bytes)
        kept = max(found.kept_bytes, told.kept_bytes)
        self.with_tree.count(one, kept, max(kept, best.comparison.reachable_bytes))
        kept_tokens = one.tokens(kept)
        self.rules.count(one.request, kept_tokens)
        self.pauses.count(best.tag.at, one.request.at, kept_tokens)
        self.measured.count(one.request, kept_tokens)
        if told.cause:
            self._note("session", one, previous, found.lost_bytes)

    def _note(self, scope: Scope, one: _Prompt, match: Match[LoggedRequest], tree_lost_bytes: int) -> None:
        told = match.comparison
        lost = one.tokens(told.lost_bytes)
        mended = self._mended(match.tag, one, told) if match.tag.model == one.request.model else {}
        kept = self.in_sessions if scope == "session" else self.between_sessions
        kept.num_breaks += 1
        kept.lost_tokens += lost
        for level, tokens in mended.items():
            kept.mended_tokens[level] += tokens
        self.findings.add(
            scope,
            Break(
                earlier=match.tag,
                later=one.request,
                comparison=told,
                kept_tokens=one.tokens(told.kept_bytes),
                reachable_tokens=one.tokens(told.reachable_bytes),
                lost_tokens=lost,
                tree_lost_tokens=min(lost, one.tokens(tree_lost_bytes)),
                lost_usd=self._usd(one, lost),
                mended_tokens=mended,
            ),
        )

    def _mended(self, earlier: LoggedRequest, one: _Prompt, told: Comparison) -> dict[str, int]:
        if self._num_mended >= _MOST_MENDED or not one.request.is_whole:
            return {}
        self._num_mended += 1
        return {
            level: one.tokens(mended_bytes(earlier, one.request, told.kept_bytes, level)) for level in LEVELS
        }

    def _usd(self, one: _Prompt, lost_tokens: int) -> float | None:
        """What lost tokens cost more than cached ones would have."""
        price = self._prices.of(one.request.model)
        if price is None:
            return None
        rates = price.for_prompt(one.tokens(one.outline.num_bytes))
        return lost_tokens * (rates.input - rates.cached_input) / PICODOLLARS

    def as_json(self, *, limit: int | None, with_text: bool) -> dict[str, Any]:
        """Everything that was found."""
        kept, between = self.in_sessions, self.between_sessions
        inner, outer = self.findings.of("session"), self.findings.of("between sessions")
        return {
            "num_requests": self.num_requests,
            "num_partial": self.num_partial,
            "num_sessions": len(self.sessions),
            "num_lineages": sum(self.lineages.values()),
            "num_sessions_with_several_lineages": sum(num > 1 for num in self.lineages.values()),
            "models": sorted(self.models),
            "num_estimated": self._scale.num_estimated,
            "num_compared": kept.num_pairs,
            "num_breaks": kept.num_breaks,
            "kept_tokens": kept.kept_tokens,
            "reachable_tokens": kept.reachable_tokens,
            "lost_tokens": kept.lost_tokens,
            "kept_ratio": round(kept.ratio(), 5),
            "kept_ratio_canonical": {level: round(kept.ratio(level), 5) for level in LEVELS},
            "kept_ratio_with_tree": round(self.with_tree.ratio(), 5),
            "one_slot_kept_tokens": self.one_slot_kept_tokens,
            "num_findings": len(inner),
            "findings": [one.as_json(with_text=with_text) for one in inner[:limit]],
            "num_between_sessions": len(outer),
            "between_sessions": [one.as_json(with_text=with_text) for one in outer[:limit]],
            "num_between_sessions_breaks": between.num_breaks,
            "between_sessions_lost_tokens": between.lost_tokens,
            "between_sessions_reachable_tokens": between.reachable_tokens,
            "cache_rules": self.rules.as_json(),
            "num_anthropic": self.rules.num_anthropic,
            "num_without_cache_control": self.rules.num_unmarked,
            "pauses": self.pauses.as_json(),
            "measured": {
                "num_told": self.measured.num_told,
                "prompt_tokens": self.measured.prompt_tokens,
                "cached_tokens": self.measured.cached_tokens,
                "kept_tokens": self.measured.kept_tokens,
            },
        }
