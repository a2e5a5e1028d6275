"""A memory service over real files, with an embedder of the test's own."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from openclaw_cache.memory.agent import AgentMemory, Rules
from openclaw_cache.memory.lazy_embedder import LazyEmbedder
from openclaw_cache.memory.open_stores import OpenStores, StoreFiles
from openclaw_cache.memory.service import MemoryService
from openclaw_cache.memory.writing import NewMemory, add
from openclaw_cache.observe.metrics import Metrics
from support.scripted_embedder import ScriptedEmbedder

SECRET = bytes(range(32))


@contextlib.asynccontextmanager
async def memory_service(
    folder: Path,
    questions: ScriptedEmbedder | None = None,
    passages: ScriptedEmbedder | None = None,
    *,
    max_open: int = 64,
    wait_s: float = 5.0,
) -> AsyncIterator[MemoryService]:
    """A service that has started. Without embedders it does without vectors."""
    stores = OpenStores(StoreFiles(folder, SECRET, None), max_open=max_open, max_bytes=10**9)
    metrics = Metrics()
    service = MemoryService(
        stores,
        LazyEmbedder(questions, passages or questions, timeout_s=wait_s),
        None,
        Rules(wait_s=wait_s),
        metrics,
        lambda what: metrics.degraded.labels(what).inc(),
    )
    service.start()
    try:
        yield service
    finally:
        await service.aclose()


async def store(service: MemoryService, agent: str, *texts: str) -> None:
    """Store memories in an agent's store."""
    async with service.agent("default", agent) as memory:
        news = [NewMemory(text=text) for text in texts]
        await memory.run(lambda store: add(store, news, memory.now()))
        memory.touched()


async def num_waiting(service: MemoryService, agent: str, fingerprint: str = "scripted:1") -> int:
    """Passages of an agent that wait for a vector."""
    async with service.agent("default", agent) as memory:
        return (await memory.run(lambda store: store.stats(fingerprint))).num_without_vector


async def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(20):
        while not holds():
            await asyncio.sleep(0.01)


async def indexed(service: MemoryService, agent: str, fingerprint: str = "scripted:1") -> None:
    """Wait until every passage of an agent has its vector."""
    async with asyncio.timeout(20):
        while await num_waiting(service, agent, fingerprint):
            await asyncio.sleep(0.01)


def degraded(service: MemoryService, what: str) -> float:
    """How often a part failed."""
    return float(service.metrics.degraded.labels(what)._value.get())


__all__ = ["AgentMemory", "degraded", "indexed", "memory_service", "num_waiting", "store", "until"]
