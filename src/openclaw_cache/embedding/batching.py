"""Many callers, each with one text, before an embedder that reads several at a time."""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, NamedTuple

from openclaw_cache.embedding.unit import unit
from openclaw_cache.errors import EmbeddingError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openclaw_cache.embedding.embedder import Embedder, Vector


class _Key(NamedTuple):
    scope: bytes
    digest: bytes


class _Wanted:
    """A text that somebody waits for."""

    __slots__ = ("future", "key", "num_waiters", "text")

    def __init__(self, key: _Key, text: str) -> None:
        self.key = key
        self.text = text
        self.num_waiters = 0
        self.future: asyncio.Future[Vector | None] = asyncio.get_running_loop().create_future()


class BatchingEmbedder:
    """Remembers vectors, asks once for a text that several want, and asks together what came while it was busy.

    All three only within one `scope`: a vector that is there sooner because another tenant asked for the same text
    would tell that it did.

    Args:
        inner: What computes; started and closed by the caller.
        timeout_s: Longest wait of one caller, its text's turn included.
        max_batch: Most texts asked together; fewer where `inner` gains nothing from so many.
        max_waiting: Texts that may wait at a time; more fail at once.
        max_remembered: Vectors kept, those used longest ago leave first. 1.6 kB each with 384 dimensions.
    """

    def __init__(
        self,
        inner: Embedder,
        *,
        timeout_s: float = 2.0,
        max_batch: int = 32,
        max_waiting: int = 256,
        max_remembered: int = 10_000,
    ) -> None:
        self._inner = inner
        self._timeout_s = timeout_s
        self._max_batch = min(max_batch, inner.max_batch)
        self._max_waiting = max_waiting
        self._max_remembered = max_remembered
        self._remembered: OrderedDict[_Key, Vector | None] = OrderedDict()
        self._in_air: dict[_Key, _Wanted] = {}
        self._queue: deque[_Wanted] = deque()
        self._runner: asyncio.Task[None] | None = None

    async def embed_one(self, text: str, scope: bytes) -> Vector | None:
        """The text's vector (read-only), None where it has no one meaning to compare. O(1) when it is remembered.

        A caller may be cancelled without harm to others that wait for the same text or batch.

        Raises:
            EmbeddingError: `inner` failed, gave a vector without a direction, is busy, or was too slow.
        """
        key = _Key(scope, hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest())
        if key in self._remembered:
            self._remembered.move_to_end(key)
            return self._remembered[key]
        wanted = self._in_air.get(key)
        if wanted is None:
            wanted = self._enqueue(_Wanted(key, text))
        wanted.num_waiters += 1
        try:
            async with asyncio.timeout(self._timeout_s):
                return await asyncio.shield(wanted.future)
        except TimeoutError:
            raise EmbeddingError(f"no vector within {self._timeout_s:g} s") from None
        finally:
            wanted.num_waiters -= 1

    async def aclose(self) -> None:
        """Fail all that wait, and forget all vectors. Leaves `inner` alone."""
        if self._runner is not None:
            self._runner.cancel()
            await asyncio.gather(self._runner, return_exceptions=True)
        self._remembered.clear()

    def _enqueue(self, wanted: _Wanted) -> _Wanted:
        if len(self._queue) >= self._max_waiting:
            raise EmbeddingError(f"the embedder is busy: {len(self._queue)} texts wait for it")
        self._in_air[wanted.key] = wanted
        self._queue.append(wanted)
        if self._runner is None or self._runner.done():
            self._runner = asyncio.create_task(self._run(), name="embedding-batches")
        return wanted

    async def _run(self) -> None:
        """Ask for batch after batch until nobody waits."""
        batch: list[_Wanted] = []
        try:
            while batch := self._next_batch():
                await self._ask(batch)
        finally:  # cancelled, or a fault of ours: nobody may wait for ever
            for wanted in (*batch, *self._queue):
                self._fail(wanted, EmbeddingError("the embedder was ended"))
            self._queue.clear()

    def _next_batch(self) -> list[_Wanted]:
        """The next texts to ask for; those that nobody waits for any more are dropped."""
        batch: list[_Wanted] = []
        while self._queue and len(batch) < self._max_batch:
            wanted = self._queue.popleft()
            if wanted.num_waiters:
                batch.append(wanted)
            else:
                del self._in_air[wanted.key]
        return batch

    async def _ask(self, batch: Sequence[_Wanted]) -> None:
        try:
            vectors = await self._inner.embed([wanted.text for wanted in batch])
        except EmbeddingError as exc:
            for wanted in batch:
                self._fail(wanted, exc)
            return
        for wanted, vector in zip(batch, vectors, strict=True):
            try:
                self._give(wanted, None if vector is None else unit(vector))
            except EmbeddingError as exc:
                self._fail(wanted, exc)

    def _give(self, wanted: _Wanted, vector: Vector | None) -> None:
        self._in_air.pop(wanted.key, None)
        self._remembered[wanted.key] = vector
        while len(self._remembered) > self._max_remembered:
            self._remembered.popitem(last=False)
        if not wanted.future.done():
            wanted.future.set_result(vector)

    def _fail(self, wanted: _Wanted, error: EmbeddingError) -> None:
        self._in_air.pop(wanted.key, None)
        if not wanted.future.done():
            wanted.future.set_exception(
                EmbeddingError(str(error))
            )  # its own: a traceback grows with each raise
            wanted.future.exception()  # seen, also where nobody waits any more
