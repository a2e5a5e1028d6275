"""S3-FIFO eviction, weighed in bytes.

Source: Yang, Zhang, Qiu, Yue, Rashmi, "FIFO queues are all you need for cache eviction", SOSP 2023. Chosen
    over others in docs/decisions/0003-memory-tier-eviction.md.

New keys enter a small queue. Those seen twice more before they reach its end move to the main queue; the
others leave, and only their names are remembered for a while (the ghosts): a key that comes back in that time
goes straight to the main queue. A scan therefore passes through the small queue and leaves the main one
alone.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator

K = TypeVar("K")
V = TypeVar("V")

_SMALL_RATIO: Final = 0.1
_GHOST_RATIO: Final = 0.9
_PROMOTE_FROM: Final = 2
_MAX_FREQ: Final = 3


class _Slot(msgspec.Struct, Generic[V], gc=False):
    """A cached value, its size and how often it was asked for (0-3) since it was placed or spared."""

    value: V
    size: int
    freq: int = 0


class S3Fifo(Generic[K, V]):
    """A bounded map that forgets by S3-FIFO. A hit only raises a number: no lock, no reordering.

    Args:
        capacity: bound on the sum of sizes (and of ghosts).
        ghost_cost: what remembering one name counts against `capacity`.
    """

    __slots__ = (
        "_capacity",
        "_ghost_cost",
        "_ghost_size",
        "_ghosts",
        "_main",
        "_main_size",
        "_small",
        "_small_size",
        "num_evictions",
    )

    def __init__(self, capacity: int, *, ghost_cost: int = 0) -> None:
        self._capacity = capacity
        self._ghost_cost = ghost_cost
        # OrderedDict, because a plain dict takes longer and longer to find its first key as first keys are
        # deleted.
        self._small: OrderedDict[K, _Slot[V]] = OrderedDict()
        self._main: OrderedDict[K, _Slot[V]] = OrderedDict()
        self._ghosts: OrderedDict[K, int] = OrderedDict()
        self._small_size = self._main_size = self._ghost_size = 0
        self.num_evictions = 0

    def __len__(self) -> int:
        return len(self._small) + len(self._main)

    @property
    def size(self) -> int:
        """Sum of sizes, remembered names included."""
        return self._small_size + self._main_size + len(self._ghosts) * self._ghost_cost

    def get(self, key: K) -> V | None:
        """Return the value and count the hit."""
        slot = self._main.get(key) or self._small.get(key)
        if slot is None:
            return None
        if slot.freq < _MAX_FREQ:
            slot.freq += 1
        return slot.value

    def put(self, key: K, value: V, size: int) -> None:
        """Place a value of at most `capacity`, replacing the key's old one; may evict others.

        Cost: amortised O(1); one call may walk many slots where all were hit since.
        """
        if self._replace(key, value, size):
            self._make_room(0)
            return
        was_ghost = self._forget(key)
        self._make_room(size)
        # Until the cache has filled for the first time there is nothing to protect the main queue from.
        is_filling = not self.num_evictions and self._small_size >= self._capacity * _SMALL_RATIO
        if was_ghost or is_filling:
            self._insert_main(key, _Slot(value, size))
        else:
            self._small[key] = _Slot(value, size)
            self._small_size += size

    def remove(self, key: K) -> bool:
        """Drop a key; it is not remembered. Returns whether it was there."""
        if slot := self._small.pop(key, None):
            self._small_size -= slot.size
        elif slot := self._main.pop(key, None):
            self._main_size -= slot.size
        return slot is not None

    def items(self) -> Iterator[tuple[K, V, int]]:
        """Every key with its value and size. Not while keys are put or removed."""
        for queue in (self._small, self._main):
            for key, slot in queue.items():
                yield key, slot.value, slot.size

    def _replace(self, key: K, value: V, size: int) -> bool:
        """Give a present key another value in its place. Returns whether it was there."""
        if slot := self._main.get(key):
            self._main_size += size - slot.size
        elif slot := self._small.get(key):
            self._small_size += size - slot.size
        else:
            return False
        slot.value, slot.size = value, size
        return True

    def _make_room(self, size: int) -> None:
        while self.size + size > self._capacity:
            # The names take their room from the main queue: out of the small one, new keys would leave at once.
            if self._small and self.size - self._small_size <= self._capacity * (1 - _SMALL_RATIO):
                self._pass_small()
            elif self._main:
                self._pass_main()
            elif self._ghosts:
                self._forget(next(iter(self._ghosts)))
            else:
                return

    def _pass_small(self) -> None:
        """Take the oldest of the small queue: to the main queue, or out, leaving a ghost."""
        key, slot = self._small.popitem(last=False)
        self._small_size -= slot.size
        if slot.freq >= _PROMOTE_FROM:
            slot.freq = 0
            self._insert_main(key, slot)
            return
        self.num_evictions += 1
        self._ghosts[key] = slot.size
        self._ghost_size += slot.size
        while self._ghost_size > self._capacity * _GHOST_RATIO:
            self._forget(next(iter(self._ghosts)))

    def _pass_main(self) -> None:
        """Take the oldest of the main queue: out, or once more to its end where it was asked for since."""
        key, slot = self._main.popitem(last=False)
        if slot.freq:
            slot.freq -= 1
            self._main[key] = slot
            return
        self._main_size -= slot.size
        self.num_evictions += 1

    def _insert_main(self, key: K, slot: _Slot[V]) -> None:
        self._main[key] = slot
        self._main_size += slot.size

    def _forget(self, key: K) -> bool:
        size = self._ghosts.pop(key, None)
        if size is None:
            return False
        self._ghost_size -= size
        return True
