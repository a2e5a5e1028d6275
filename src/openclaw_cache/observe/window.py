"""Hits and look-ups over a sliding window, in fixed memory."""

from __future__ import annotations

NUM_BUCKETS = 60


class Window:
    """Counts over the last `span_s` seconds, kept in `NUM_BUCKETS` buckets (so exact to one bucket).

    Args:
        span_s: Width of the window in seconds.
    """

    def __init__(self, span_s: float) -> None:
        self._bucket_s = span_s / NUM_BUCKETS
        self._slots = [0] * NUM_BUCKETS
        self._hits = [0] * NUM_BUCKETS
        self._lookups = [0] * NUM_BUCKETS

    def add(self, now: float, *, hit: bool) -> None:
        """Count one look-up at time `now` (seconds of any clock that never goes back)."""
        self.add_many(now, num_hits=int(hit), num_lookups=1)

    def add_many(self, now: float, *, num_hits: int, num_lookups: int) -> None:
        """Count several look-ups at time `now`."""
        slot = int(now / self._bucket_s)
        i = slot % NUM_BUCKETS
        if self._slots[i] != slot:
            self._slots[i], self._hits[i], self._lookups[i] = slot, 0, 0
        self._lookups[i] += num_lookups
        self._hits[i] += num_hits

    def counts(self, now: float) -> tuple[int, int]:
        """(hits, look-ups) of the window that ends at `now`."""
        first = int(now / self._bucket_s) - NUM_BUCKETS + 1
        live = [i for i in range(NUM_BUCKETS) if self._slots[i] >= first]
        return sum(self._hits[i] for i in live), sum(self._lookups[i] for i in live)

    def ratio(self, now: float) -> float:
        """Hits ÷ look-ups in 0–1; 0 where nothing was looked up."""
        hits, lookups = self.counts(now)
        return hits / lookups if lookups else 0.0
