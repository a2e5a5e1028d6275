"""What a rule of scores and limits serves, and how much of it is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from openclaw_cache.semantic.beta import quantile

Scores = npt.NDArray[np.float64]
Labels = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Served:
    """Of some labelled pairs, those served."""

    num_right: int
    num_wrong: int
    of_right: int
    """All pairs of one answer."""
    of_wrong: int
    """All traps."""
    limit: float | None
    """None: nothing may be served."""

    @property
    def hit_ratio(self) -> float:
        """Of the pairs of one answer, those served."""
        return self.num_right / self.of_right if self.of_right else 0.0

    @property
    def wrong_ratio(self) -> float:
        """Of the pairs served, the traps."""
        served = self.num_right + self.num_wrong
        return self.num_wrong / served if served else 0.0

    @property
    def trap_ratio(self) -> float:
        """Of the traps, those served."""
        return self.num_wrong / self.of_wrong if self.of_wrong else 0.0

    def hit_interval(self) -> tuple[float, float]:
        """95 % bounds of the hit ratio."""
        return bounds(self.num_right, self.of_right)

    def wrong_interval(self) -> tuple[float, float]:
        """95 % bounds of the wrong ratio."""
        return bounds(self.num_wrong, self.num_right + self.num_wrong)


def bounds(some: int, of_all: int) -> tuple[float, float]:
    """Clopper and Pearson's 95 % interval of a ratio that was counted."""
    if not of_all:
        return 0.0, 1.0
    low = quantile(0.025, some, of_all - some + 1) if some else 0.0
    high = quantile(0.975, some + 1, of_all - some) if some < of_all else 1.0
    return low, high


def served(scores: Scores, same: Labels, limit: float | None) -> Served:
    """What a limit serves: scores of it and above; minus infinity is never served."""
    hit = np.isfinite(scores) & (scores >= limit) if limit is not None else np.zeros(len(scores), bool)
    return Served(
        int((hit & same).sum()), int((hit & ~same).sum()), int(same.sum()), int((~same).sum()), limit
    )


def curve(scores: Scores, same: Labels) -> list[Served]:
    """What every limit serves that serves anything else than the one before, tightest first."""
    limits = np.unique(scores[np.isfinite(scores)])[::-1]
    return [served(scores, same, float(limit)) for limit in limits]


def best(points: Sequence[Served], max_wrong_ratio: float) -> Served | None:
    """The point of most right hits that keeps to a wrong ratio."""
    kept = [point for point in points if point.wrong_ratio <= max_wrong_ratio and point.num_right]
    return max(kept, key=lambda point: point.num_right, default=None)
