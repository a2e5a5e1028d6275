"""One look for a reply to a question that means the same: may it be looked for, is there one, may it answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal

from blake3 import blake3

from openclaw_cache.dialects.question import Question
from openclaw_cache.dialects.request import Request
from openclaw_cache.errors import CorruptEntryError, EmbeddingError, StoreError
from openclaw_cache.gateway.semantic.decisions import Decision, Decisions
from openclaw_cache.gateway.semantic.judge import Judge
from openclaw_cache.gateway.semantic.look import Asking, Look
from openclaw_cache.gateway.semantic.verification import Verifier
from openclaw_cache.gateway.wish import Wish
from openclaw_cache.observe.metrics import Metrics
from openclaw_cache.result.cache import ResultCache
from openclaw_cache.result.key import canonical, decode
from openclaw_cache.semantic.cache import Asked, Candidate, SemanticCache
from openclaw_cache.semantic.dependence import depends_on
from openclaw_cache.semantic.suggestions import Suggestions
from openclaw_cache.types import Entry

Scope = Literal["single_turn", "same_context", "last_turn"]

_KIND: Final = b"openclaw-cache question kind v1"
"""A request's own key has 32 bytes in the place of this and 32 more: none is taken for the other."""
MOST_CHARS: Final = 4096
"""No embedder reads a longer question; looking through it would hold up all others (90 ms for 20,000 characters)."""


@dataclass(slots=True)
class SemanticStep:
    """Looks for replies by meaning. A failure of any part is a counted miss.

    Args:
        cache: Knows the questions.
        results: Owns the replies.
        verifier: Has some hits checked behind the client's back.
        scope: What requests take part.
        by_default: Whether those do that say nothing of it.
        ignore: Fields that do not tell requests apart (`result.key.canonical`).
        wait_s: The longest that a request waits for its question's vector.
        store_timeout_s: The most that the store may take to give an entry.
        on_degraded: Told of each failure.
        judge: Has the last word, where there is one.
    """

    cache: SemanticCache
    results: ResultCache
    verifier: Verifier
    scope: Scope
    by_default: bool
    ignore: frozenset[str]
    wait_s: float
    store_timeout_s: float
    metrics: Metrics
    on_degraded: Callable[[str], None]
    judge: Judge | None = None
    decisions: Decisions = field(default_factory=Decisions)
    suggestions: Suggestions = field(default_factory=Suggestions)
    wall: Callable[[], float] = time.time
    _tasks: set[asyncio.Task[Asked | None]] = field(default_factory=set)

    def reason_not_to(self, request: Request, question: Question | None, *, is_strict: bool = False) -> str:
        """Why a question may not be answered by another's reply, one word; empty where it may."""
        if question is None:
            return "shape"
        if request.has_tools:
            return "tools"
        if question.has_earlier_turns and self.scope == "single_turn":
            return "turns"
        if len(question.text) > MOST_CHARS:
            return "too_long"
        return depends_on(question.text, strict=is_strict)

    def rest_of(self, question: Question) -> bytes:
        """What must be equal beside the question, to make a key of. O(size of the request)."""
        rest = question.rest
        if self.scope == "last_turn" and question.without_history is not None:
            rest = question.without_history
        return _KIND + blake3(canonical(rest, self.ignore)).digest()

    async def look(self, asking: Asking) -> Look:
        """Look for a reply, or get the question ready to be remembered. Raises RequestError for a wrong header."""
        call, request = asking.call, asking.request
        wish = Wish.parse(call.headers, by_default=self.by_default)
        if wish.mode == "off":
            return Look()
        began = time.perf_counter()
        body = asking.value if asking.value is not None else decode(call.raw).value
        question = call.dialect.question(body)
        is_strict = wish.mode == "strict"
        reason = self.reason_not_to(request, question, is_strict=is_strict)
        if reason or question is None:
            return Look(self._decided(asking, reason, wish.domain or ""))
        kind = asking.make_key(self.rest_of(question))
        task = asyncio.get_running_loop().create_task(
            self.cache.understand(
                question.text, kind, asking.namespace, domain=wish.domain, is_strict=is_strict
            )
        )
        self._tasks.add(task)
        task.add_done_callback(self._understood)
        look = Look(understanding=task, embedder=self.cache.fingerprint)
        if asking.reads:
            await self._look(look, task, asking)
            self.metrics.semantic_lookup_seconds.observe(time.perf_counter() - began)
        return look

    async def _look(self, look: Look, task: asyncio.Task[Asked | None], asking: Asking) -> None:
        done, _ = await asyncio.wait({task}, timeout=self.wait_s)
        if not done:
            self.on_degraded("embedding_slow")
            return
        if task.exception() is not None:
            return  # counted by `_understood`
        asked = task.result()
        if asked is None:
            look.decision = self._decided(asking, "too_long")
            return
        look.asked = asked
        now = self.wall()
        candidates = await self.cache.candidates(asked, now)
        outcome = "none"
        for candidate in candidates:
            entry = await self._entry(candidate, asking, now) if candidate.passes else None
            if entry is None:
                outcome = outcome if outcome != "none" else candidate.refusal or "gone"
                look.found = look.found or candidate
                continue
            is_agreed = self.judge is None or await self.judge.agrees(candidate.pair, asking.namespace)
            outcome, look.found = "hit" if is_agreed else "judge", candidate
            if is_agreed:
                look.entry = entry
                self.cache.partitions.touch(candidate.row.key)
            break
        if look.found is not None and look.entry is None:
            look.stored = self.results.peek(look.found.row.key, now)
        look.decision = self._decided(asking, outcome, asked.domain, look.found)
        if look.entry is None and asking.writes and outcome != "gone":
            cosine = None if look.found is None else look.found.pair.cosine
            self.suggestions.note(asked, outcome, cosine, now, asking.namespace)
        self.metrics.semantic_window.add(time.monotonic(), hit=look.entry is not None)

    async def _entry(self, candidate: Candidate, asking: Asking, now: float) -> Entry | None:
        """The reply that the result cache has of a candidate. One that it has no more is forgotten here."""
        key = candidate.row.key
        entry = self.results.peek(key, now)
        if entry is None and key == asking.key:  # just looked for, and what was there is counted
            return None
        if entry is None:
            try:
                async with asyncio.timeout(self.store_timeout_s):
                    entry = await self.results.find(asking.namespace, key)
            except CorruptEntryError:
                pass  # as if it were not there
            except (TimeoutError, StoreError):
                self.on_degraded("store_unavailable")
                return None
        likeness = None if entry is None else entry.likeness
        # An index is never believed: what must be equal is looked at again on the entry itself.
        if (
            entry is None
            or likeness is None
            or entry.namespace != asking.namespace
            or self.cache.partition(likeness.kind, likeness.domain) != candidate.row.partition
            or likeness.question != candidate.row.question
        ):
            self.cache.gone(key)
            return None
        if not asking.control.accepts(now - entry.created_at, entry.expires_at - now):
            return None
        return None if asking.request.wants_usage and not entry.has_usage else entry

    def _understood(self, task: asyncio.Task[Asked | None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.on_degraded("embedding" if isinstance(error, EmbeddingError) else "semantic")

    def _decided(
        self, asking: Asking, outcome: str, domain: str = "", candidate: Candidate | None = None
    ) -> Decision:
        self.metrics.semantic_lookups.labels(outcome).inc()
        decision = Decision(
            request_id=asking.call.request_id,
            at=self.wall(),
            model=asking.request.model,
            namespace=asking.namespace,
            domain=domain,
            outcome=outcome,
        )
        if candidate is not None:
            decision.cosine = round(candidate.pair.cosine, 4)
            decision.score = round(candidate.score, 4)
            decision.limit = candidate.limit
            decision.age_s = round(candidate.pair.age_s, 3)
            decision.verdicts = candidate.verdicts
            decision.key = candidate.row.key
        self.decisions.add(decision)
        return decision
