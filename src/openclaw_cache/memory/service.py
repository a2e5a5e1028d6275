"""All agents' memories of this node: opens them, embeds for them, and keeps both within bounds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final, TypeVar

import structlog

from openclaw_cache.errors import EmbeddingError, MemoryStoreError, VersionConflictError
from openclaw_cache.memory.agent import EMBEDDED_BY, AgentMemory, Rules, Surroundings, Work
from openclaw_cache.memory.evicting import EvictReport, evict, matcher
from openclaw_cache.memory.indexing import Indexing
from openclaw_cache.memory.threads import to_its_end

if TYPE_CHECKING:
    from openclaw_cache.memory.lazy_embedder import LazyEmbedder
    from openclaw_cache.memory.open_stores import AgentRow, OpenStore, OpenStores
    from openclaw_cache.memory.retrieval.rerank import Reranker
    from openclaw_cache.memory.store import MemoryStore
    from openclaw_cache.observe.metrics import Metrics
    from openclaw_cache.types import Json

T = TypeVar("T")

NUM_THREADS: Final = 8
_BETWEEN_AGENTS_S: Final = 0.005
"""Pause between two agents when all are looked through at the start: nobody waits for that."""
_MOST_TOLD: Final = 1000
"""Failures that are remembered so as to be logged once."""
_log = structlog.get_logger()


class MemoryService:
    """The memories of all agents. `start` and `aclose`; between them `agent` gives one of them.

    Args:
        stores: The files.
        embedder: Not loaded yet.
        reranker: Puts what was found into order, where there is one. Closed with the service.
        rules: What holds for all agents.
        metrics: Counts.
        on_degraded: Told of failures that became a smaller answer.
    """

    def __init__(
        self,
        stores: OpenStores,
        embedder: LazyEmbedder,
        reranker: Reranker | None,
        rules: Rules,
        metrics: Metrics,
        on_degraded: Callable[[str], None],
    ) -> None:
        self.embedder = embedder
        self.metrics = metrics
        self.indexing = Indexing(embedder, self._existing, lambda: on_degraded("memory_embedding"))
        self._stores = stores
        self._reranker = reranker
        self._on_degraded = on_degraded
        self._pool = ThreadPoolExecutor(NUM_THREADS, thread_name_prefix="memory")
        self._around = Surroundings(
            pool=self._pool,
            embedder=embedder,
            reranker=reranker,
            rules=rules,
            metrics=metrics,
            on_degraded=on_degraded,
            touched=self.indexing.touched,
            failed=self._failed,
            behind=self._behind,
        )
        self._told: set[tuple[str, str, str]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        embedder.on_loaded = self._sweep_soon

    def start(self) -> None:
        """Look in the background for passages that were left without a vector."""
        self._sweep_soon()

    async def aclose(self) -> None:
        """End what runs and close all files."""
        await self.indexing.aclose()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.embedder.aclose()
        if self._reranker is not None:
            await self._reranker.aclose()
        await asyncio.get_running_loop().run_in_executor(None, self._close)

    @asynccontextmanager
    async def agent(self, namespace: str, agent: str, *, create: bool = True) -> AsyncIterator[AgentMemory]:
        """One agent's memory, open as long as it is used.

        Args:
            namespace: Whose agent.
            agent: Its id.
            create: Whether a store is made for an agent that has none; else it is as one that is empty.

        Raises:
            MemoryStoreError: its store cannot be opened.
        """
        opened = await self._acquire(namespace, agent, create=create)
        if opened is None:
            opened = await self._blocking(lambda: self._stores.blank(namespace, agent))
        try:
            yield self._memory_of(opened)
        finally:
            self._release(opened)

    async def agents(self, namespace: str) -> list[AgentRow]:
        """All agents of a namespace, by name. Raises MemoryStoreError."""
        return await self._blocking(lambda: self._stores.agents(namespace))

    async def every_agent(self) -> list[AgentRow]:
        """All agents of all namespaces: for operators. Raises MemoryStoreError."""
        return await self._blocking(lambda: self._stores.agents(None))

    async def remove(self, namespace: str, agent: str) -> bool:
        """Remove an agent's store with all that is in it; returns whether there was one. Raises MemoryStoreError."""
        try:
            opened = await self._acquire(namespace, agent, create=False)
        except MemoryStoreError:
            opened = None  # a file that cannot be read can still be removed
        if opened is None:
            return await self._blocking(lambda: self._stores.remove(namespace, agent))
        memory = self._memory_of(opened)
        try:
            return await memory.remove(lambda: self._stores.remove(namespace, agent))
        finally:
            self._release(opened)

    async def evict(
        self, pattern: str, namespace: str | None, agent: str | None, *, dry_run: bool
    ) -> EvictReport:
        """Forget every memory whose text, in any version, matches a GLOB, with all that shows it.

        Args:
            pattern: Case-sensitive, for the whole text.
            namespace: Only in this one.
            agent: Only of agents of this name.
            dry_run: Only say what would go.

        Cost: reads every memory, in short steps that let others in. Raises MemoryStoreError where the agents cannot
        be listed; one that fails itself is reported.
        """
        report, matches = EvictReport(), matcher(pattern)
        for row in await self._blocking(lambda: self._stores.agents(namespace)):
            if agent not in (None, row.agent):
                continue
            try:
                async with self._existing(row.namespace, row.agent) as memory:
                    if memory is not None:
                        await evict(memory, matches, report, dry_run=dry_run)
            except MemoryStoreError:
                report.failed.append((row.namespace, row.agent))
        if not dry_run:
            self.metrics.evictions.labels("memory", "pattern").inc(report.num_matched)
        return report

    def status(self) -> Json:
        """For `/admin/status`."""
        embedder = self.embedder
        return {
            "num_open": self._stores.num_open,
            "memory_bytes": self._stores.memory_bytes,
            "embedder": {
                "state": embedder.state,
                "reason": embedder.reason or None,
                "fingerprint": embedder.fingerprint,
            },
            "indexing": {
                "num_agents_waiting": self.indexing.num_agents,
                "num_embedded": self.indexing.num_embedded,
                "is_paused": self.indexing.is_paused,
            },
        }

    @property
    def memory_bytes(self) -> int:
        """An estimate of what the open stores and their vectors take."""
        return self._stores.memory_bytes

    async def _acquire(self, namespace: str, agent: str, *, create: bool) -> OpenStore | None:
        opening = asyncio.get_running_loop().run_in_executor(
            self._pool, lambda: self._stores.acquire(namespace, agent, create=create)
        )
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(self._release_unused)
            raise
        except MemoryStoreError as e:
            self._tell(namespace, agent, e)
            raise

    def _release_unused(self, opening: asyncio.Future[OpenStore | None]) -> None:
        if not opening.cancelled() and opening.exception() is None and (opened := opening.result()):
            self._release(opened)

    def _release(self, opened: OpenStore) -> None:
        """Give a store back, in a thread: that may close others."""
        with suppress(RuntimeError):  # the service has ended, and closed them all
            self._pool.submit(self._stores.release, opened)

    def _memory_of(self, opened: OpenStore) -> AgentMemory:
        """The one object of an open store. On the event loop only."""
        if not isinstance(opened.companion, AgentMemory):
            opened.companion = AgentMemory(opened, self._around)
        return opened.companion

    @asynccontextmanager
    async def _existing(self, namespace: str, agent: str) -> AsyncIterator[AgentMemory | None]:
        opened = await self._acquire(namespace, agent, create=False)
        if opened is None:
            yield None
            return
        try:
            yield self._memory_of(opened)
        finally:
            self._release(opened)

    def _behind(self, namespace: str, agent: str, work: Work) -> asyncio.Task[None]:
        async def run() -> None:
            async with self._existing(namespace, agent) as memory:
                if memory is not None:
                    await work(memory)

        return self._spawn(run())

    def _spawn(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        if not isinstance(error, (MemoryStoreError, EmbeddingError)):  # those are told where they arise
            _log.error("memory: background work failed", error=type(error).__name__, exc_info=error)

    def _sweep_soon(self) -> None:
        if self.embedder.state != "off":
            self._spawn(self._sweep())

    async def _sweep(self) -> None:
        """Queue every agent with passages that wait, for the embedder in use or else the one that was used last."""
        for row in await self.every_agent():
            fingerprint = self.embedder.fingerprint

            def waits(store: MemoryStore, wanted: str | None = fingerprint) -> bool:
                return bool(store.without_vector(wanted or store.label(EMBEDDED_BY) or "", 1))

            try:
                async with self._existing(row.namespace, row.agent) as memory:
                    if memory is not None and await memory.run(waits):
                        memory.touched()
            except MemoryStoreError:
                continue  # told already: the others are well
            await asyncio.sleep(_BETWEEN_AGENTS_S)

    async def _blocking(self, work: Callable[[], T]) -> T:
        return await to_its_end(asyncio.get_running_loop().run_in_executor(self._pool, work))

    def _failed(self, opened: OpenStore, error: MemoryStoreError) -> None:
        self._tell(opened.namespace, opened.agent, error)

    def _tell(self, namespace: str, agent: str, error: MemoryStoreError) -> None:
        """Count a failure, and log it where this agent did not fail so before."""
        if isinstance(error, VersionConflictError) or error.code == "removed":
            return
        self._on_degraded("memory_store")
        if (key := (namespace, agent, error.code)) not in self._told:
            if len(self._told) >= _MOST_TOLD:
                self._told.clear()
            self._told.add(key)
            _log.error("memory: an agent's store failed", namespace=namespace, agent=agent, reason=str(error))

    def _close(self) -> None:
        self._pool.shutdown(wait=True)
        self._stores.close()
