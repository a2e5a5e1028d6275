"""Checks some of the replies that are given by meaning: the model answers too, and both are compared."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field

import orjson
import structlog

from openclaw_cache.dialects.dialect import Dialect
from openclaw_cache.embedding.batching import BatchingEmbedder
from openclaw_cache.errors import EmbeddingError, RequestError
from openclaw_cache.gateway.call import Following
from openclaw_cache.gateway.semantic.look import Look
from openclaw_cache.observe.metrics import Metrics
from openclaw_cache.semantic.agreement import Agreement, Scale, agreement
from openclaw_cache.semantic.cache import Candidate
from openclaw_cache.semantic.learning import SIMILARITY, Learning
from openclaw_cache.semantic.sampling import Sampler
from openclaw_cache.types import Entry, Json

_log = structlog.get_logger()


@dataclass(slots=True)
class Verifier:
    """Compares answers in the background, and learns from it. Never in the way of a request.

    Args:
        embedder: Compares two texts by meaning.
        learning: Where outcomes go.
        sampler: Which hits are checked.
        refused_sampler: Which refused candidates are compared: that costs two embeddings, and no call.
        scale: What cosines of this embedder say of two answers; None = nothing.
        chance: A random number from 0 to 1.
        clock: Monotonic seconds.
    """

    embedder: BatchingEmbedder
    learning: Learning
    sampler: Sampler
    refused_sampler: Sampler
    metrics: Metrics
    scale: Scale | None = None
    chance: Callable[[], float] = random.random
    clock: Callable[[], float] = time.monotonic
    _turn: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def takes(self, look: Look, *, is_free: bool) -> bool:
        """Count a hit. Returns whether it is one of those to be checked; then `verify` must follow."""
        if look.found is None or look.entry is None:
            return False
        num_before = self.learning.hit(look.found.pair.domain, look.found.score)
        return self.sampler.begin(num_before, self.chance(), self.clock(), is_paid=not is_free)

    def verify(self, following: Following, look: Look) -> None:
        """Have the model answer a hit's question, one question at a time, and learn from it. Returns at once."""
        self._start(self._verify(following, look), self.sampler)

    def compare(self, look: Look, dialect: Dialect, reply: bytes) -> None:
        """Learn from the model's reply to a question whose best candidate was refused. Returns at once."""
        found = look.found
        if found is None or look.entry is not None or look.stored is None:
            return
        self.learning.refused(found.pair.domain)
        num_hits = self.learning.num_hits(found.pair.domain)
        if self.refused_sampler.begin(num_hits, self.chance(), self.clock(), is_paid=False):
            self._start(self._compare(look, found, look.stored, dialect, reply), self.refused_sampler)

    async def aclose(self) -> None:
        """Give up what is under way."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _start(self, work: Coroutine[None, None, None], sampler: Sampler) -> None:
        task = asyncio.get_running_loop().create_task(work, name="semantic-verification")
        self._tasks.add(task)

        def ended(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            sampler.end()

        task.add_done_callback(ended)

    async def _verify(self, following: Following, look: Look) -> None:
        reader = following.reader
        try:
            async with self._turn:
                source = await reader.flight.head()
                await reader.rest()
        except RequestError:
            return
        finally:
            reader.leave()
        found, reply = look.found, reader.flight.reply
        if look.entry is None or found is None or not source.is_ok or reply is None:
            return
        outcome = await self._agreement(following.dialect, look.entry, reply)
        self.learning.verified(found.pair.domain, found.row.key, found.score, outcome)
        self._note(look, "hit", outcome)

    async def _compare(
        self, look: Look, found: Candidate, stored: Entry, dialect: Dialect, reply: bytes
    ) -> None:
        outcome = await self._agreement(dialect, stored, reply)
        by_score = found.refusal == SIMILARITY and all(
            v.passes for v in found.verdicts if v.check != SIMILARITY
        )
        self.learning.compared(found.pair.domain, found.row.key, found.score, outcome, by_score=by_score)
        self._note(look, "refused", outcome)

    def _note(self, look: Look, what: str, outcome: Agreement) -> None:
        self.metrics.semantic_verified.labels(what, outcome.value).inc()
        if look.decision is not None:
            look.decision.learned = f"{outcome.value}, by the model"
        _log.info("semantic candidate verified", what=what, outcome=outcome.value)

    async def _agreement(self, dialect: Dialect, stored: Entry, reply: bytes) -> Agreement:
        ours, theirs = answer_of(dialect, stored.reply), answer_of(dialect, reply)
        if ours is None or theirs is None:
            return Agreement.UNSURE
        scope = stored.namespace.encode()
        try:
            one = await self.embedder.embed_one(ours, scope)
            other = await self.embedder.embed_one(theirs, scope)
        except EmbeddingError:
            return Agreement.UNSURE
        cosine = None if one is None or other is None else float(one @ other)
        return await asyncio.to_thread(agreement, ours, theirs, cosine, self.scale)


def answer_of(dialect: Dialect, reply: bytes | None) -> str | None:
    """The text of a plain answer; None where the reply is none."""
    if reply is None:
        return None
    try:
        value: Json = orjson.loads(reply)
    except orjson.JSONDecodeError:
        return None
    return dialect.answer_text(value) if isinstance(value, dict) else None
