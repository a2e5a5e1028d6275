"""How much there was over the last minute or day, in fixed memory. Pure: the time is a parameter."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping


class SlidingCount:
    """A sum over the last `span_s` seconds, kept in buckets.

    What is added counts for `span_s` and at most one bucket longer, never shorter: who admits only while the sum is
    below a limit has admitted no more than that in any `span_s` seconds.

    Times are Unix time. One that lies before the latest counts as the latest; one that lies more than a span before
    it comes from a clock that was set back, and then what was counted keeps its age.

    Args:
        span_s: Width of the window.
        num_buckets: Into how many parts it is cut; divides `span_s`, so that no rounding moves their borders.
    """

    def __init__(self, span_s: int, num_buckets: int) -> None:
        self._bucket_s, rest = divmod(span_s, num_buckets)
        if rest:
            raise ValueError(f"{span_s} s cannot be cut into {num_buckets} buckets of whole seconds")
        self._buckets = deque([0] * (num_buckets + 1), maxlen=num_buckets + 1)  # oldest first
        self._newest = 0
        self._sum = 0
        self.num_added = 0
        """Everything that was ever added; it only grows, so it tells whether something was."""

    def add(self, now: float, amount: int) -> None:
        """Count `amount` (0 or more) at `now`."""
        self._advance(now)
        self._buckets[-1] += amount
        self._sum += amount
        self.num_added += amount

    def sum(self, now: float) -> int:
        """What counts at `now`."""
        self._advance(now)
        return self._sum

    def wait_s(self, now: float, limit: int) -> int:
        """Whole seconds until the sum is below `limit` (1 or more) if nothing is added; 0 where it is."""
        self._advance(now)
        left, leaves = self._sum, self._newest
        if left < limit:
            return 0
        for amount in self._buckets:
            left -= amount
            leaves += 1
            if left < limit:
                break
        return math.ceil(leaves * self._bucket_s - now)

    def buckets(self, now: float) -> dict[int, int]:
        """What counts at `now`: number of the bucket since 1970 → amount; for `restore`."""
        self._advance(now)
        oldest = self._newest - len(self._buckets) + 1
        return {oldest + i: amount for i, amount in enumerate(self._buckets) if amount}

    def restore(self, now: float, buckets: Mapping[int, int]) -> None:
        """Add what `buckets` gave at another time; what is older than the span is left out."""
        self._advance(now)
        for slot, amount in buckets.items():
            age = max(self._newest - slot, 0)  # one of the future: the clock has been set back since
            if age < len(self._buckets):
                self._buckets[-1 - age] += amount
                self._sum += amount

    def _advance(self, now: float) -> None:
        slot = int(now // self._bucket_s)
        num_passed = slot - self._newest
        for _ in range(min(num_passed, len(self._buckets))):
            self._sum -= self._buckets[0]
            self._buckets.append(0)
        if num_passed > 0 or -num_passed >= len(self._buckets):
            self._newest = slot
