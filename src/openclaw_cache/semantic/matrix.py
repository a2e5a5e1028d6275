"""An index that compares with every row: exact, and the best there is for some thousand of them."""

from __future__ import annotations

import mmap
import threading
from typing import Final

import numpy as np
import numpy.typing as npt

from openclaw_cache.embedding.embedder import Vector

BLOCK_ROWS: Final = 4096
"""Rows of one array: growth never copies more than these, and never holds the event loop up for longer (3 ms)."""
_SPARE: Final = 8
"""One row in so many is spare after growth. Memory goes back where a quarter is unused."""

_MAPPED_BYTES: Final = 4 << 20
"""Larger arrays are pages of their own, which go back to the system when they are freed; glibc would keep them."""


class MatrixIndex:
    """Vectors in arrays of up to `BLOCK_ROWS` rows, the last row taking the place of one that is removed.

    The products are computed without the lock, so a long search holds nobody up. What they find is weighed again
    under it: rows may have moved in between.

    Cost: add and remove a few µs, search 1.8 ms for 10,000 rows of 384 numbers, 5 ms for 20,000.

    Args:
        num_dims: length of its vectors.
    """

    __slots__ = ("_blocks", "_ids", "_lock", "_num_dims", "_slots")

    def __init__(self, num_dims: int) -> None:
        self._num_dims = num_dims
        self._blocks: list[npt.NDArray[np.float32]] = []
        self._ids: list[int] = []
        self._slots: dict[int, int] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def capacity_bytes(self) -> int:
        """What its arrays take."""
        return sum(block.nbytes for block in self._blocks)

    @property
    def search_bytes(self) -> int:
        """All rows: each search reads them."""
        return len(self._ids) * self._num_dims * 4

    def add(self, row_id: int, vector: Vector) -> None:
        """Place a vector; the same number again replaces it. Amortised O(1)."""
        with self._lock:
            slot = self._slots.get(row_id)
            if slot is None:
                slot = len(self._ids)
                self._grow(slot)
                self._row(slot)[:] = vector
                self._slots[row_id] = slot
                self._ids.append(row_id)
            else:
                self._row(slot)[:] = vector

    def remove(self, row_id: int) -> bool:
        """Forget a vector. Returns whether it was there. Amortised O(1)."""
        with self._lock:
            slot = self._slots.pop(row_id, None)
            if slot is None:
                return False
            last_id = self._ids.pop()
            if last_id != row_id:
                self._row(slot)[:] = self._row(len(self._ids))
                self._ids[slot] = last_id
                self._slots[last_id] = slot
            self._shrink(len(self._ids))
            return True

    def search(self, vector: Vector, k: int) -> list[tuple[int, float]]:
        """The `k` nearest, or all where there are fewer, with their cosines, nearest first."""
        with self._lock:
            blocks, num_rows = list(self._blocks), len(self._ids)
        cosines = np.empty(num_rows, np.float32)
        for number, block in enumerate(blocks):
            part = cosines[number * BLOCK_ROWS : (number + 1) * BLOCK_ROWS]
            np.dot(block[: len(part)], vector, out=part)
        if k < num_rows:
            slots = (
                np.argpartition(cosines, num_rows - k)[num_rows - k :] if k > 0 else cosines[:0].astype(int)
            )
        else:
            slots = np.arange(num_rows)
        with self._lock:
            found = [
                (self._ids[slot], float(self._row(slot) @ vector))
                for slot in slots.tolist()
                if slot < len(self._ids)
            ]
        found.sort(key=lambda pair: -pair[1])
        return found

    def rows(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        """A copy of all numbers and vectors, of one moment. Holds adds up meanwhile: 8 ms for 20,000 rows."""
        with self._lock:
            num_rows = len(self._ids)
            vectors = np.empty((num_rows, self._num_dims), np.float32)
            for number, block in enumerate(self._blocks):
                part = vectors[number * BLOCK_ROWS : (number + 1) * BLOCK_ROWS]
                part[:] = block[: len(part)]
            return np.array(self._ids, np.int64), vectors

    def _row(self, slot: int) -> Vector:
        row: Vector = self._blocks[slot // BLOCK_ROWS][slot % BLOCK_ROWS]
        return row

    def _grow(self, num_rows: int) -> None:
        """Make room for one more than `num_rows`."""
        number, used = divmod(num_rows, BLOCK_ROWS)
        if number == len(self._blocks):
            self._blocks.append(np.empty((1, self._num_dims), np.float32))
        elif used == len(self._blocks[number]):
            self._resize(number, used, used + 1 + used // _SPARE)

    def _shrink(self, num_rows: int) -> None:
        """Give back what `num_rows` do not need."""
        number, used = divmod(num_rows, BLOCK_ROWS)
        if number < len(self._blocks) and not used:
            self._blocks.pop()
        elif number < len(self._blocks) and used < len(self._blocks[number]) * 3 // 4:
            self._resize(number, used, used + used // _SPARE)

    def _resize(self, number: int, used: int, num_rows: int) -> None:
        block = _array(min(num_rows, BLOCK_ROWS), self._num_dims)
        block[:used] = self._blocks[number][:used]
        self._blocks[number] = block


def _array(num_rows: int, num_dims: int) -> npt.NDArray[np.float32]:
    num_bytes = num_rows * num_dims * 4
    if num_bytes < _MAPPED_BYTES:
        return np.empty((num_rows, num_dims), np.float32)
    pages = mmap.mmap(-1, num_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return np.frombuffer(pages, np.float32).reshape(num_rows, num_dims)
