"""One agent's memory as the event loop sees it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar

from openclaw_cache.errors import MemoryStoreError
from openclaw_cache.memory import capturing, finding, writing
from openclaw_cache.memory.forgetting import LatelyForgotten
from openclaw_cache.memory.threads import to_its_end

if TYPE_CHECKING:
    from openclaw_cache.embedding.embedder import Vector
    from openclaw_cache.memory.capturing import Captured
    from openclaw_cache.memory.finding import Recalled
    from openclaw_cache.memory.lazy_embedder import LazyEmbedder
    from openclaw_cache.memory.open_stores import OpenStore
    from openclaw_cache.memory.record import Memory, Message, Turn
    from openclaw_cache.memory.retrieval.rerank import Reranker
    from openclaw_cache.memory.store import MemoryStore
    from openclaw_cache.memory.vectors import AgentVectors
    from openclaw_cache.memory.writing import Forgotten
    from openclaw_cache.observe.metrics import Metrics

T = TypeVar("T")
Work = Callable[["AgentMemory"], Awaitable[None]]

EMBEDDED_BY: Final = "embedder"
"""The label of a store that has the fingerprint of the embedder its newest vectors are of."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What holds for all agents.

    `wait_s` is the longest that a search waits for its vector, and for vectors that are not in memory yet.
    `half_life_s` is how fast age counts; None = not at all.
    """

    wait_s: float = 1.0
    half_life_s: float | None = 30 * 86_400.0


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all agents of a service share."""

    pool: Executor
    embedder: LazyEmbedder
    reranker: Reranker | None
    rules: Rules
    metrics: Metrics
    on_degraded: Callable[[str], None]
    touched: Callable[[str, str], None]
    """Told the namespace and agent that may have passages without a vector."""
    failed: Callable[[OpenStore, MemoryStoreError], None]
    """Told of each failure of a store."""
    behind: Callable[[str, str, Work], asyncio.Task[None]]
    """Carries out work with an agent, which is held open for it, behind the requests."""
    wall: Callable[[], float] = time.time
    lately: LatelyForgotten = field(default_factory=LatelyForgotten)


class AgentMemory:
    """What an agent remembers. The same object for all requests of the agent, for as long as its store is open.

    Everything that touches the store goes through `run`: in a thread, one at a time, in the order of the calls.

    Args:
        opened: Its store. Whoever uses this object holds it.
        around: What all agents share.
    """

    def __init__(self, opened: OpenStore, around: Surroundings) -> None:
        self.namespace = opened.namespace
        self.id = opened.agent
        self.around = around
        self.is_removed = False
        self.embedded_by: str | None = None
        """The store's label `EMBEDDED_BY`, once it has been read or written."""
        self._opened = opened
        self._lock = asyncio.Lock()
        self._vectors: AgentVectors | None = None
        self._loading: asyncio.Task[None] | None = None
        self._loading_since = 0.0

    async def run(self, work: Callable[[MemoryStore], T]) -> T:
        """Carry out work on the store; several calls of the store in one piece of work are one unit for all others.

        A caller that is cancelled ends when its work has ended.

        Raises:
            MemoryStoreError: the store failed, or the agent was removed meanwhile.
        """
        async with self._lock:
            if self.is_removed:
                raise MemoryStoreError("the agent was removed meanwhile", code="removed")
            loop = asyncio.get_running_loop()
            try:
                return await to_its_end(loop.run_in_executor(self.around.pool, work, self._opened.store))
            except MemoryStoreError as e:
                self.around.failed(self._opened, e)
                raise

    async def remove(self, remove: Callable[[], bool]) -> bool:
        """Have the store removed, once no work runs on it; work that waits for its turn fails.

        Raises:
            MemoryStoreError.
        """
        async with self._lock:
            if self.is_removed:
                return False
            loop = asyncio.get_running_loop()
            self.is_removed = True
            try:
                return await to_its_end(loop.run_in_executor(self.around.pool, remove))
            except MemoryStoreError as e:
                self.is_removed = False
                self.around.failed(self._opened, e)
                raise

    async def recall(
        self,
        query: str,
        *,
        max_items: int,
        max_tokens: int,
        exclude: Collection[str] = (),
        is_known: Callable[[Memory], bool] | None = None,
    ) -> Recalled:
        """What bears on a prompt: see `finding.recall`."""
        return await finding.recall(
            self, query, max_items=max_items, max_tokens=max_tokens, exclude=exclude, is_known=is_known
        )

    async def capture(
        self, session: str | None, messages: Sequence[Message], now: float, turn: str | None = None
    ) -> Captured:
        """Store what is worth remembering of what was said: see `capturing.capture`."""
        captured = await self.run(lambda store: capturing.capture(store, session, messages, now, turn))
        if captured.memories:
            self.touched()
        return captured

    async def forget(self, ids: Sequence[str]) -> Forgotten:
        """Remove memories with all that shows them: see `forgetting.forget`."""

        def forget(store: MemoryStore) -> Forgotten:
            done = writing.forget(store, ids, self.now())
            self.around.lately.note(self.namespace, self.id, self.now(), done.texts)
            return done

        done = await self.run(forget)
        self.drop_numbers(done.numbers)
        if done.num_redacted:
            self.drop_vectors()  # of messages that say less now: their passages have new numbers
            self.touched()
        return done

    def cleaned(self, turn: Turn) -> Turn:
        """A turn that is about to be kept, without what was forgotten since it began."""
        return self.around.lately.cleaned(self.namespace, self.id, turn)

    def now(self) -> float:
        """Unix time."""
        return self.around.wall()

    @property
    def scope(self) -> bytes:
        """Within which vectors of questions are shared: this agent only."""
        return f"{len(self.namespace)}:{self.namespace}{self.id}".encode("utf-8", "surrogatepass")

    def touched(self) -> None:
        """Say that passages were stored: they get their vectors in the background, and the embedder is loaded."""
        self.around.touched(self.namespace, self.id)

    @property
    def vectors(self) -> AgentVectors | None:
        """The vectors, once they are all in memory and of the embedder that is in use; else None."""
        found = self._vectors
        is_fit = (
            found is not None and found.is_loaded and found.fingerprint == self.around.embedder.fingerprint
        )
        return found if is_fit else None

    async def load_vectors(self) -> AgentVectors | None:
        """The vectors, loaded where they are not; None where the embedder is not ready.

        Waits until the loading has taken `Rules.wait_s`: who comes later does not wait for it any more.

        Raises:
            TimeoutError: they are not there yet; the loading goes on.
            MemoryStoreError.
        """
        if (found := self.vectors) is not None or self.around.embedder.fingerprint is None:
            return found
        if self._loading is None or self._loading.done():
            self._loading = self.around.behind(self.namespace, self.id, AgentMemory._load)
            self._loading_since = asyncio.get_running_loop().time()
        async with asyncio.timeout_at(self._loading_since + self.around.rules.wait_s):
            await asyncio.shield(self._loading)
        if self.vectors is None:  # dropped meanwhile
            raise TimeoutError
        return self.vectors

    async def _load(self) -> None:
        from openclaw_cache.memory.vectors import AgentVectors  # noqa: PLC0415 - it needs numpy

        embedder = self.around.embedder
        if embedder.fingerprint is None:
            return
        vectors = self._vectors = AgentVectors(embedder.fingerprint, embedder.num_dims)
        while await self.run(vectors.load_some):
            self._count(vectors)
        self._count(vectors)

    def take_vectors(self, fingerprint: str, vectors: Sequence[tuple[int, Vector | None]]) -> None:
        """Let the index have vectors that the store has just got."""
        if self._vectors is not None and self._vectors.fingerprint == fingerprint:
            self._vectors.add(vectors)
            self._count(self._vectors)

    async def keep_vector(self, memory_id: str, fingerprint: str, vector: Vector) -> None:
        """Store the vector of a memory that is one passage: it need not be made again. Raises MemoryStoreError."""

        def keep(store: MemoryStore) -> list[int]:
            numbers = store.numbers_of([memory_id])
            if len(numbers) == 1:
                store.put_vectors(fingerprint, [(numbers[0], vector)])
            return numbers

        numbers = await self.run(keep)
        if len(numbers) == 1:
            self.take_vectors(fingerprint, [(numbers[0], vector)])

    def drop_numbers(self, numbers: Sequence[int]) -> None:
        """Let the index forget passages that the store has not any more."""
        if self._vectors is not None:
            self._vectors.remove(numbers)
            self._count(self._vectors)

    def drop_vectors(self) -> None:
        """Forget the whole index: the next search loads it anew."""
        self._vectors = None
        self._opened.extra_bytes = 0

    def _count(self, vectors: AgentVectors) -> None:
        if vectors is self._vectors:
            self._opened.extra_bytes = vectors.memory_bytes
