"""An index that changes its kind as it grows and shrinks, while it is used."""

from __future__ import annotations

import ctypes
import threading
from typing import Final

import numpy as np

from openclaw_cache.embedding.embedder import Vector
from openclaw_cache.semantic.large import LargeIndex
from openclaw_cache.semantic.matrix import MatrixIndex

LARGE_FROM: Final = 20_000
"""Rows from which a `LargeIndex` is made: a matrix needs 5 ms for a search then."""
_NUM_TURNOVERS: Final = 3
"""After so many times as many adds as it was made from, a `LargeIndex` is made anew."""
_SHRUNK_RATIO: Final = 0.6
"""It is made anew too when it has only so much of the most that it ever had: its memory does not go back else."""
_FEW: Final = 64
"""So many changes are made up for while others wait (2 ms)."""
_BATCH: Final = 1024
"""So many at once, else: numpy holds the interpreter for some µs a row."""


class GrowingIndex:
    """A matrix first, a `LargeIndex` from `large_from` rows.

    A new kind is made by a thread of its own, from copies, while the old one answers and takes changes; these are
    made up for, and then the new one takes its place. Memory holds both for that time (0.1 ms a row).

    Args:
        num_dims: length of its vectors.
        large_from: rows from which it changes its kind; None = never.
    """

    __slots__ = ("_adds_left", "_index", "_large_from", "_lock", "_missed", "_num_dims", "_peak", "_thread")

    def __init__(self, num_dims: int, large_from: int | None) -> None:
        self._num_dims = num_dims
        self._large_from = large_from
        self._index: MatrixIndex | LargeIndex = MatrixIndex(num_dims)
        self._missed: dict[int, Vector | None] | None = None
        """Changes since the copies were begun, by number; None while nothing is made."""
        self._adds_left = 0
        self._peak = 0
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._index)

    @property
    def num_dims(self) -> int:
        """Length of its vectors."""
        return self._num_dims

    @property
    def is_large(self) -> bool:
        """Whether it looks into neighbourhoods only."""
        return isinstance(self._index, LargeIndex)

    @property
    def search_bytes(self) -> int:
        """How much memory one search reads now."""
        return self._index.search_bytes

    def add(self, row_id: int, vector: Vector) -> None:
        """Place a vector; the same number again replaces it."""
        with self._lock:
            self._index.add(row_id, vector)
            if self._missed is not None:
                self._missed[row_id] = vector.copy()
            self._adds_left -= 1
            self._peak = max(self._peak, len(self._index))
            self._follow_size()

    def remove(self, row_id: int) -> bool:
        """Forget a vector. Returns whether it was there."""
        with self._lock:
            was_there = self._index.remove(row_id)
            if self._missed is not None:
                self._missed[row_id] = None
            self._follow_size()
            return was_there

    def search(self, vector: Vector, k: int) -> list[tuple[int, float]]:
        """The `k` nearest, with their cosines, nearest first."""
        return self._index.search(vector, k)

    def settle(self) -> None:
        """Wait until nothing is being made any more."""
        while (thread := self._thread) is not None and thread.is_alive():
            thread.join()

    def _follow_size(self) -> None:
        """Begin to make another kind where the size asks for it."""
        if self._missed is not None or self._large_from is None:
            return
        num_rows = len(self._index)
        if isinstance(self._index, MatrixIndex):
            is_due = num_rows >= self._large_from and self._adds_left <= 0
        else:
            is_due = self._adds_left <= 0 or num_rows < self._peak * _SHRUNK_RATIO
        if is_due:
            self._adds_left = _NUM_TURNOVERS * num_rows
            self._peak = num_rows
            thread = threading.Thread(target=self._remake, name="semantic-index", daemon=True)
            try:
                thread.start()
            except RuntimeError:
                return  # the system has no thread to spare: the old kind goes on
            self._missed = {}  # in time: a change needs the lock that is held here
            self._thread = thread

    def _remake(self) -> None:
        try:
            new = self._copied()
            while (missed := self._take_over(new)) is not None:
                _apply(missed, new)
        finally:
            with self._lock:
                self._missed = None  # what it still has was made to the new kind itself
                self._follow_size()
            _give_back_memory()

    def _take_over(self, new: MatrixIndex | LargeIndex) -> dict[int, Vector | None] | None:
        """Put a new kind in its place, where it misses little; else return what it misses."""
        with self._lock:
            missed, self._missed = self._missed or {}, {}
            if len(missed) > _FEW:
                return missed
            _apply(missed, new)
            self._index = new
            return None

    def _copied(self) -> MatrixIndex | LargeIndex:
        """The rows in an index of the kind that suits their number."""
        ids, rows = self._index.rows()
        if len(ids) >= max(1, (self._large_from or 0) // 2):
            return LargeIndex(ids, rows)
        new = MatrixIndex(self._num_dims)
        for row_id, vector in zip(ids.tolist(), rows, strict=True):
            new.add(row_id, vector)
        return new


def _apply(missed: dict[int, Vector | None], index: MatrixIndex | LargeIndex) -> None:
    """Make the changes that were made to another index meanwhile."""
    added = {row_id: vector for row_id, vector in missed.items() if vector is not None}
    for row_id in missed.keys() - added.keys():
        index.remove(row_id)
    if isinstance(index, MatrixIndex):
        for row_id, vector in added.items():
            index.add(row_id, vector)
        return
    row_ids = list(added)
    for start in range(0, len(row_ids), _BATCH):
        part = row_ids[start : start + _BATCH]
        index.add_many(np.array(part, np.int64), np.stack([added[row_id] for row_id in part]))


def _give_back_memory() -> None:
    """What was freed goes back to the system: glibc keeps most of it else (200 MB for 40,000 rows, measured)."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # other C libraries have none, and need none
    if trim is not None:
        trim(0)
