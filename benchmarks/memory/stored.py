"""A store with memories and their vectors in it, as the service keeps them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from benchmarks.memory.world import Written

from openclaw_cache.memory.record import Filter, Memory
from openclaw_cache.memory.sqlite.store import SqliteStore
from openclaw_cache.memory.store import MemoryStore
from openclaw_cache.semantic.growing import LARGE_FROM, GrowingIndex

_BATCH = 1_000


@dataclass(frozen=True, slots=True)
class Indexed:
    """What `search` asks for vectors."""

    fingerprint: str
    index: GrowingIndex


@dataclass(frozen=True, slots=True)
class Stored:
    """A filled store, and what filling it took."""

    store: MemoryStore
    vectors: Indexed
    put_s: float
    size_bytes: int


def stored(folder: Path, embedder: str, memories: Sequence[Written], rows: npt.NDArray[np.float32]) -> Stored:
    """Fill a store in a folder; `rows` are the memories' vectors."""
    store = SqliteStore.open(folder / "agent.db", key=None)
    started = time.perf_counter()
    for start in range(0, len(memories), _BATCH):
        store.put([_memory(written) for written in memories[start : start + _BATCH]])
    put_s = time.perf_counter() - started
    by_owner = {written.id: row for written, row in zip(memories, rows, strict=True)}
    index = GrowingIndex(rows.shape[1], LARGE_FROM)
    numbers = store.recent(len(memories) + 1, Filter())
    for start in range(0, len(numbers), _BATCH):
        part = [
            (passage.number, by_owner[passage.owner])
            for passage in store.admitted(numbers[start : start + _BATCH], Filter())
        ]
        store.put_vectors(embedder, part)
        for number, vector in part:
            index.add(number, vector)
    index.settle()
    return Stored(store, Indexed(embedder, index), put_s, store.stats(None).size_bytes)


def _memory(written: Written) -> Memory:
    return Memory(
        id=written.id,
        text=written.text,
        kind="fact",
        tags=(),
        source="import",
        at=written.at,
        created_at=written.at,
        updated_at=written.at,
    )
