"""The process-memory tier: entries within a budget of bytes, counted as the interpreter spends them."""

from __future__ import annotations

from sys import getsizeof
from typing import TYPE_CHECKING, Final

from openclaw_cache.result.s3fifo import S3Fifo

if TYPE_CHECKING:
    from openclaw_cache.types import CacheKey, Entry

# CPython 3.11-3.13 on 64 bits. Per entry: the key (65), its place in an OrderedDict (73-170, by how full its
# table is), the policy's slot with its size (40 + 28), two floats (48) and two counts (56). Per ghost: key,
# place and size.
_PLACE_BYTES: Final = 360
_GHOST_BYTES: Final = 240
_LIKENESS_BYTES: Final = 72 + 33 + 65 + 49 + 33
"""The struct, and beside its question four objects: partition, vector's head, embedder's and domain's names."""
_LARGEST_RATIO: Final = 1 / 8


class MemoryTier:
    """Entries of this process, evicted by S3-FIFO.

    An entry larger than an eighth of the budget is refused: it would push out too much for one reply.

    Args:
        capacity_bytes: bound on what keys, entries and bookkeeping take together.
    """

    __slots__ = ("_entries", "capacity_bytes")

    def __init__(self, capacity_bytes: int) -> None:
        self.capacity_bytes = capacity_bytes
        self._entries: S3Fifo[CacheKey, Entry] = S3Fifo(capacity_bytes, ghost_cost=_GHOST_BYTES)

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def used_bytes(self) -> int:
        """What the tier takes now, never more than `capacity_bytes`."""
        return self._entries.size

    @property
    def num_evictions(self) -> int:
        """How many entries left for want of space since the start."""
        return self._entries.num_evictions

    def get(self, key: CacheKey, now: float) -> Entry | None:
        """Return the entry unless it has expired (then it is removed). Cost: 0.2 µs."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        if entry.expires_at <= now:
            self._entries.remove(key)
            return None
        return entry

    def put(self, key: CacheKey, entry: Entry) -> bool:
        """Place an entry, evicting others as needed. Returns False where it is too large to be kept."""
        size_bytes = entry_bytes(entry)
        if size_bytes > self.capacity_bytes * _LARGEST_RATIO:
            self._entries.remove(key)
            return False
        self._entries.put(key, entry, size_bytes)
        return True

    def remove(self, key: CacheKey) -> bool:
        """Drop an entry. Returns whether it was there."""
        return self._entries.remove(key)

    def items(self) -> list[tuple[CacheKey, Entry, int]]:
        """Every key with its entry and size in bytes, at this moment. Cost: O(entries)."""
        return list(self._entries.items())


def entry_bytes(entry: Entry) -> int:
    """What an entry takes in memory, its place in the tier included. Cost: 1 µs."""
    likeness = entry.likeness
    return (
        _PLACE_BYTES
        + getsizeof(entry)
        + getsizeof(entry.reply)
        + getsizeof(entry.model)
        + getsizeof(entry.upstream)
        + getsizeof(entry.namespace)
        + getsizeof(entry.prompt)
        + getsizeof(entry.packed_prompt)
        + getsizeof(entry.requested_model)
        + (0 if likeness is None else _LIKENESS_BYTES + getsizeof(likeness.question) + len(likeness.vector))
    )
