"""Gives stored passages their vectors, behind the requests.

What waits is in the stores, so it outlives any end of the process; what is queued here are only the agents that may
have some. They take turns, a batch each, the newest passages first.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Final

import structlog

from openclaw_cache.errors import EmbeddingError, MemoryStoreError
from openclaw_cache.memory.agent import EMBEDDED_BY, AgentMemory

if TYPE_CHECKING:
    from openclaw_cache.embedding.embedder import Vector
    from openclaw_cache.memory.lazy_embedder import LazyEmbedder
    from openclaw_cache.memory.record import Passage
    from openclaw_cache.memory.store import MemoryStore

BATCH: Final = 32
"""Passages of one agent before the next has its turn: about 0.6 s of the default embedder."""
_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 60.0
_PROBE: Final = "Hello"
"""A text that any embedder can read: tells a text that it cannot from an embedder that is down."""
_log = structlog.get_logger()

Open = Callable[[str, str], AbstractAsyncContextManager[AgentMemory | None]]


class Indexing:
    """The queue, and the task that works through it.

    Args:
        embedder: Computes; loaded as soon as something waits.
        open_agent: Opens an agent that exists; None where it does not any more.
        on_degraded: Told once for each time that the embedder begins to fail.
    """

    def __init__(self, embedder: LazyEmbedder, open_agent: Open, on_degraded: Callable[[], None]) -> None:
        self.is_paused = False
        self.num_embedded = 0
        self._embedder = embedder
        self._open = open_agent
        self._on_degraded = on_degraded
        self._queue: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def num_agents(self) -> int:
        """Agents whose passages wait, or may."""
        return len(self._queue)

    def touched(self, namespace: str, agent: str) -> None:
        """An agent may have passages that wait. Loads the embedder. O(1)."""
        if self._embedder.state == "off":
            return
        self._embedder.wake()
        self._queue[namespace, agent] = None
        self._woken.set()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="memory-indexing")

    async def aclose(self) -> None:
        """Stop; what waits goes on waiting in the stores."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while True:
            await self._embedder.wait_ready()
            if not self._queue:
                self._woken.clear()
                await self._woken.wait()
            key, _ = self._queue.popitem(last=False)
            try:
                has_more = await self._turn(*key)
            except EmbeddingError as e:
                if not self.is_paused:
                    self._on_degraded()
                    _log.warning("memories wait for their vectors", reason=str(e))
                self.is_paused = True
                self._queue[key] = None
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
                continue
            except MemoryStoreError:
                continue  # told already; the agent comes again with its next change
            self.is_paused, pause_s = False, _FIRST_PAUSE_S
            if has_more:
                self._queue[key] = None

    async def _turn(self, namespace: str, agent: str) -> bool:
        """Embed a batch of one agent; returns whether there may be more."""
        fingerprint = self._embedder.fingerprint
        if fingerprint is None:
            return True
        async with self._open(namespace, agent) as memory:
            if memory is None:
                return False
            waiting = await memory.run(lambda store: store.without_vector(fingerprint, BATCH))
            if not waiting:
                return False
            vectors = await self._vectors(waiting)
            await memory.run(lambda store: _put(store, memory, fingerprint, vectors))
            memory.take_vectors(fingerprint, vectors)
            self.num_embedded += len(vectors)
            return len(waiting) == BATCH

    async def _vectors(self, passages: Sequence[Passage]) -> list[tuple[int, Vector | None]]:
        """A vector for each; None for a text that the embedder cannot read although it reads others."""
        found: list[tuple[int, Vector | None]] = []
        size = self._embedder.max_batch
        for start in range(0, len(passages), size):
            part = passages[start : start + size]
            try:
                vectors = await self._embedder.passages([passage.text for passage in part])
            except EmbeddingError:
                vectors = [await self._one(passage.text) for passage in part]
            found += zip((passage.number for passage in part), vectors, strict=True)
        return found

    async def _one(self, text: str) -> Vector | None:
        try:
            (vector,) = await self._embedder.passages([text])
        except EmbeddingError:
            await self._embedder.passages([_PROBE])  # raises where it is not the text's fault
            return None
        return vector


def _put(
    store: MemoryStore,
    memory: AgentMemory,
    fingerprint: str,
    vectors: Sequence[tuple[int, Vector | None]],
) -> None:
    store.put_vectors(fingerprint, vectors)
    if memory.embedded_by != fingerprint:
        store.set_label(EMBEDDED_BY, fingerprint)
        memory.embedded_by = fingerprint
