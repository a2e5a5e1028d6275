"""Stored questions, apart from each other where anything but the question differs: filtered before searched."""

from __future__ import annotations

import heapq
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from sys import getsizeof
from typing import TYPE_CHECKING, Final

import numpy as np

from openclaw_cache.semantic.growing import LARGE_FROM, GrowingIndex
from openclaw_cache.semantic.large import is_available

if TYPE_CHECKING:
    from openclaw_cache.embedding.embedder import Vector
    from openclaw_cache.types import CacheKey, Namespace

# CPython 3.11-3.13 on 64 bits.
_ROW_BYTES: Final = 1400
"""A row and its places in the tables here, without its text and vector."""
_PARTITION_BYTES: Final = 1100
"""A partition without rows."""
_NUMBER_BYTES: Final = 4 * 4 / 3
"""Of a vector, with what its array has to spare after removals."""
_SLOW_BYTES: Final = 20 << 20
"""What a search reads in some 4 ms: 13,653 rows of 384 numbers in a matrix, or 580,000 in a `LargeIndex`."""
_LENGTH_ERROR: Final = 1e-3


@dataclass(frozen=True, slots=True)
class Row:
    """A stored question. Its reply is the result cache's entry of this key."""

    key: CacheKey
    partition: bytes
    """Names all else that must be equal, and whose vectors these are: only rows of one partition are compared."""
    question: str
    domain: str
    namespace: Namespace
    model: str
    created_at: float
    expires_at: float


class _Share:
    """What one namespace has: its rows by number, the next to go first; True where one was hit since it was spared."""

    __slots__ = ("num_bytes", "queue")

    def __init__(self) -> None:
        self.queue: OrderedDict[int, bool] = OrderedDict()
        self.num_bytes = 0


class Partitions:
    """The rows of all partitions, within bounds.

    When there are too many, the namespace that takes the most bytes gives up a row: its oldest that was not hit since
    it was last passed over (second chance). So nobody can push out what others have while these have less.

    Any method may be called from any thread: `nearest` from one of its own where `is_slow` says so, while the event
    loop adds and removes.

    Args:
        max_rows: bound on the rows.
        max_bytes: bound on what they take in memory, vectors included. While a large partition's index is made anew,
            its vectors are there twice.
        large_from: rows of a partition from which its index is no longer a plain matrix; None = never.
    """

    def __init__(
        self,
        max_rows: int,
        max_bytes: int,
        *,
        large_from: int | None = LARGE_FROM if is_available() else None,
    ) -> None:
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self._large_from = large_from
        self._rows: dict[int, Row] = {}
        self._ids: dict[CacheKey, int] = {}
        self._indexes: dict[bytes, GrowingIndex] = {}
        self._shares: dict[Namespace, _Share] = {}
        # Heaps with entries that no longer hold; these are passed over, and thrown out where they are the most.
        self._by_share: list[tuple[int, Namespace]] = []
        self._by_expiry: list[tuple[float, int]] = []
        self._num_bytes = 0
        self._next_id = 0  # never given twice: a number that a search found can mean no other row
        self._lock = threading.RLock()
        self.num_evictions = 0

    @property
    def num_rows(self) -> int:
        """How many questions are known."""
        return len(self._rows)

    @property
    def num_partitions(self) -> int:
        """How many groups of them are never compared with each other."""
        return len(self._indexes)

    @property
    def memory_bytes(self) -> int:
        """What they take, as it counts against the bound: an upper estimate."""
        return self._num_bytes

    def add(self, row: Row, vector: Vector) -> bool:
        """Place a row in the stead of the one with the same key. Returns False where there is no room for it.

        Cost: 10 µs. Raises ValueError: the vector is not of length 1, or not of its partition's shape.
        """
        _check(vector)
        with self._lock:
            index = self._indexes.get(row.partition)
            if index is not None and index.num_dims != len(vector):
                raise ValueError(f"a vector of {len(vector)} numbers in a partition of {index.num_dims}")
            self.remove(row.key)
            row_id, self._next_id = self._next_id, self._next_id + 1
            self._place(row_id, row, vector)
            while len(self._rows) > self._max_rows or self._num_bytes > self._max_bytes:
                self._evict()
            return row_id in self._rows

    def nearest(self, partition: bytes, vector: Vector, k: int, now: float) -> list[tuple[Row, float]]:
        """The `k` nearest rows of a partition that have not expired, with their cosines, nearest first.

        Expired ones that it meets are removed. Cost: a search of the partition's index, see `is_slow`.
        Raises ValueError: the vector is not of length 1.
        """
        _check(vector)
        while (index := self._indexes.get(partition)) is not None:
            if index.num_dims != len(vector):
                return []
            found, has_expired = [], False
            for row_id, cosine in index.search(vector, k):
                row = self._rows.get(row_id)
                if row is None:
                    continue  # removed since the search began
                if row.expires_at <= now:
                    has_expired = True
                    self._remove(row_id)
                else:
                    found.append((row, cosine))
            if not has_expired:
                return found
        return []

    def is_slow(self, partition: bytes) -> bool:
        """Whether a search of it takes more than some 5 ms: not to be waited for on the event loop."""
        index = self._indexes.get(partition)
        return index is not None and index.search_bytes > _SLOW_BYTES

    def by_key(self, key: CacheKey) -> Row | None:
        """The row of a key, expired or not."""
        row_id = self._ids.get(key)
        return None if row_id is None else self._rows.get(row_id)

    def touch(self, key: CacheKey) -> None:
        """The row of a key was of use: it is spared once when room is made."""
        with self._lock:
            row_id = self._ids.get(key)
            if row_id is not None:
                self._shares[self._rows[row_id].namespace].queue[row_id] = True

    def remove(self, key: CacheKey) -> bool:
        """Drop the row of a key with its vector. Returns whether there was one."""
        with self._lock:
            row_id = self._ids.get(key)
            return row_id is not None and self._remove(row_id)

    def remove_where(self, predicate: Callable[[Row], bool]) -> int:
        """Drop every row that the predicate is true of; returns how many. Cost: O(rows), 0.2 µs and one call each."""
        with self._lock:
            return sum(self._remove(row_id) for row_id, row in list(self._rows.items()) if predicate(row))

    def drop_expired(self, now: float, limit: int | None = None) -> int:
        """Drop rows that have expired, at most `limit`; returns how many. Cost: 10 µs each."""
        num_dropped = 0
        with self._lock:
            while self._by_expiry and self._by_expiry[0][0] <= now and num_dropped != limit:
                num_dropped += self._remove(heapq.heappop(self._by_expiry)[1])
        return num_dropped

    def clear(self) -> None:
        """Drop all."""
        with self._lock:
            for table in (self._rows, self._ids, self._indexes, self._shares):
                table.clear()
            self._by_share.clear()
            self._by_expiry.clear()
            self._num_bytes = 0

    def settle(self) -> None:
        """Wait until no index is being made anew. Blocks."""
        for index in list(self._indexes.values()):
            index.settle()

    def _place(self, row_id: int, row: Row, vector: Vector) -> None:
        index = self._indexes.get(row.partition)
        if index is None:
            index = self._indexes[row.partition] = GrowingIndex(len(vector), self._large_from)
            self._num_bytes += _PARTITION_BYTES
        index.add(row_id, vector)
        self._rows[row_id] = row
        self._ids[row.key] = row_id
        share = self._shares.setdefault(row.namespace, _Share())
        share.queue[row_id] = False
        num_bytes = _row_bytes(row, index.num_dims)
        share.num_bytes += num_bytes
        self._num_bytes += num_bytes
        if len(self._by_share) > 2 * len(self._shares) + 64:
            self._by_share = [(-each.num_bytes, name) for name, each in self._shares.items()]
            heapq.heapify(self._by_share)
        heapq.heappush(self._by_share, (-share.num_bytes, row.namespace))
        if len(self._by_expiry) > 2 * len(self._rows) + 64:
            self._by_expiry = [(each.expires_at, number) for number, each in self._rows.items()]
            heapq.heapify(self._by_expiry)
        else:
            heapq.heappush(self._by_expiry, (row.expires_at, row_id))

    def _remove(self, row_id: int) -> bool:
        with self._lock:
            row = self._rows.pop(row_id, None)
            if row is None:
                return False
            del self._ids[row.key]
            index = self._indexes[row.partition]
            index.remove(row_id)
            share = self._shares[row.namespace]
            del share.queue[row_id]
            num_bytes = _row_bytes(row, index.num_dims)
            share.num_bytes -= num_bytes
            self._num_bytes -= num_bytes
            if not share.queue:
                del self._shares[row.namespace]
            if not len(index):
                del self._indexes[row.partition]
                self._num_bytes -= _PARTITION_BYTES
            return True

    def _evict(self) -> None:
        """Drop one row of the namespace that has the most."""
        while True:
            num_bytes, namespace = heapq.heappop(self._by_share)
            share = self._shares.get(namespace)
            if share is None:
                continue
            heapq.heappush(self._by_share, (-share.num_bytes, namespace))
            if -num_bytes == share.num_bytes:
                break
        while True:
            row_id, was_hit = share.queue.popitem(last=False)
            share.queue[row_id] = False
            if not was_hit:
                self.num_evictions += 1
                self._remove(row_id)
                return


def _row_bytes(row: Row, num_dims: int) -> int:
    return _ROW_BYTES + getsizeof(row.question) + int(num_dims * _NUMBER_BYTES)


def _check(vector: Vector) -> None:
    if (
        vector.ndim != 1 or not abs(float(np.dot(vector, vector)) - 1) < _LENGTH_ERROR
    ):  # NaN is no length either
        raise ValueError("a vector must be one line of numbers of length 1")
