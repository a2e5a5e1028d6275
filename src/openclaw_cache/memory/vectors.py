"""The vectors of one agent's passages in memory, for as long as its store is open."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from openclaw_cache.semantic.growing import LARGE_FROM, GrowingIndex
from openclaw_cache.semantic.large import is_available

if TYPE_CHECKING:
    import numpy.typing as npt

    from openclaw_cache.embedding.embedder import Vector
    from openclaw_cache.memory.store import MemoryStore

_BYTES_PER_NUMBER: Final = 4.5
"""Of a vector: float32 in a small index; float16, and what comes to it, in one of 100,000 rows (measured)."""


class AgentVectors:
    """The index of one agent and one embedder. Filled in steps, each in a thread; changes may come between them.

    Args:
        fingerprint: The embedder's.
        num_dims: Length of its vectors.
    """

    def __init__(self, fingerprint: str, num_dims: int) -> None:
        self.fingerprint = fingerprint
        self.index = GrowingIndex(num_dims, LARGE_FROM if is_available() else None)
        self.is_loaded = False
        self._pages: Iterator[tuple[list[int], npt.NDArray[np.float16]]] | None = None

    @property
    def memory_bytes(self) -> int:
        """An estimate of what it takes."""
        return int(len(self.index) * self.index.num_dims * _BYTES_PER_NUMBER)

    def load_some(self, store: MemoryStore) -> bool:
        """Take the next vectors from the store; returns whether there may be more. Blocks for some ms."""
        if self._pages is None:
            self._pages = store.vectors(self.fingerprint)
        page = next(self._pages, None)
        if page is None:
            self._pages, self.is_loaded = None, True
            return False
        numbers, vectors = page
        for number, vector in zip(numbers, vectors.astype(np.float32), strict=True):
            self.index.add(number, vector)
        return True

    def add(self, vectors: Sequence[tuple[int, Vector | None]]) -> None:
        """Take new ones; None is no vector."""
        for number, vector in vectors:
            if vector is not None:
                self.index.add(number, vector)

    def remove(self, numbers: Sequence[int]) -> None:
        """Forget passages; unknown numbers are none."""
        for number in numbers:
            self.index.remove(number)
