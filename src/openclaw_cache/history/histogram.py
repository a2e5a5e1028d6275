"""Durations counted in cells that grow by a fixed ratio: sums of histograms are histograms, quantiles stay near.

After DDSketch (Masson, Rim, Lee: DDSketch: A Fast and Fully-Mergeable Quantile Sketch with Relative-Error
Guarantees, VLDB 2019), with cells that nobody has to choose.
"""

from __future__ import annotations

import math
from typing import Final, Self

import msgspec

MAX_ERROR_RATIO: Final = 2 ** (1 / 16) - 1
"""How far a quantile may lie from the true value: 4.4 %, for durations from 1 µs to 35 minutes."""

_PER_OCTAVE: Final = 8
_LAST: Final = 31 * _PER_OCTAVE
_LEAST_SHARE: Final = 16


class Histogram(msgspec.Struct, array_like=True):
    """Counts of durations. Cell `i` holds those from 2^(i/8) to 2^((i+1)/8) µs; at most 249 cells."""

    counts: dict[int, int] = {}
    sum_us: int = 0
    """Whole microseconds, so that the order of adding does not matter."""

    @property
    def num(self) -> int:
        """How many durations were counted."""
        return sum(self.counts.values())

    def add(self, seconds: float, num: int = 1) -> None:
        """Count a duration; one below 0 counts as 0. Cost: O(1), 0.6 µs."""
        cell, counts = _cell(seconds), self.counts
        counts[cell] = counts.get(cell, 0) + num
        if seconds > 0:
            self.sum_us += int(seconds * 1e6 + 0.5) * num

    def add_between(self, least_s: float, most_s: float, num: int) -> None:
        """Count durations of which only bounds are known: spread evenly between them, as Prometheus does."""
        least_s = max(least_s, most_s / _LEAST_SHARE) if math.isfinite(most_s) else least_s
        first, last = _cell(least_s), _cell(most_s if math.isfinite(most_s) else least_s)
        done = 0
        for cell in range(first, last + 1):
            share = (_upper_s(cell) - least_s) / (most_s - least_s) if cell < last else 1.0
            upto = round(num * min(1.0, max(0.0, share)))
            if upto > done:
                self.counts[cell] = self.counts.get(cell, 0) + upto - done
                self.sum_us += round(_middle_s(cell) * 1e6) * (upto - done)
                done = upto

    def absorb(self, other: Histogram) -> Self:
        """Add another's counts to these. Cost: O(cells)."""
        for cell, num in other.counts.items():
            self.counts[cell] = self.counts.get(cell, 0) + num
        self.sum_us += other.sum_us
        return self

    def quantile(self, share: float) -> float | None:
        """The duration that `share` of them do not exceed, within `MAX_ERROR_RATIO`; None where there are none."""
        rank = max(1, math.ceil(share * self.num))
        for cell in sorted(self.counts):
            rank -= self.counts[cell]
            if rank <= 0:
                return _middle_s(cell)
        return None


def _cell(seconds: float) -> int:
    if seconds <= 1e-6:
        return 0
    cell = int(math.log2(seconds * 1e6) * _PER_OCTAVE)
    return min(_LAST, cell)


def _upper_s(cell: int) -> float:
    return float(2 ** ((cell + 1) / _PER_OCTAVE)) / 1e6


def _middle_s(cell: int) -> float:
    return float(2 ** ((cell + 0.5) / _PER_OCTAVE)) / 1e6
