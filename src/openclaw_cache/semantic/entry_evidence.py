"""What single entries teach: one whose replies fit fewer questions than its domain's do is matched more strictly. Pure.

In the manner of verified semantic caching (Schroeder et al., arXiv 2502.03771): the chance that an entry's reply is
right for a question is a logistic curve over their likeness, and each entry has its own. Theirs are learnt from
nothing, which takes many misses per entry; ours start from the calibrated curve, and an entry differs by a *shift*:

    log-odds(right | score) = slope · (score - midpoint) + shift

The shift has a Laplace prior around 0 (most entries are as calibrated, a few are far off) and is learnt on a grid from
the entry's own outcomes: verified hits, feedback, and fresh answers to questions that were refused for their score
alone (a guard's refusal says nothing of the curve). Its lower confidence bound, below which `LOW` of its probability
lies, is compared with that of an entry of which nothing is known. Where it is worse, the entry asks for a score that
makes up for it: there the pessimist's chance of a right reply is again what the domain accepts at its limit. Below that
a question is a miss, whose answer is the next outcome. So an entry without outcomes is judged by its domain alone, a
good outcome never makes an entry stricter, and a bad one never more lenient.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterable
from typing import Final, NamedTuple, Self

import numpy as np

from openclaw_cache.types import CacheKey

MOST_OUTCOMES: Final = 64
MOST_ENTRIES: Final = 50_000
LOW: Final = 0.1
SPREAD: Final = 1.5
"""Mean distance of an entry from the calibrated curve, in log-odds."""
NOISE: Final = 0.02
"""How often an outcome itself is wrong: two answers of a model are not always compared rightly."""

_SHIFTS: Final = np.arange(-16.0, 8.25, 0.25)
_PRIOR: Final = -np.abs(_SHIFTS) / SPREAD


class Curve(NamedTuple):
    """How likely a reply is right at a score, by calibration: a logistic curve."""

    midpoint: float
    slope: float

    @classmethod
    def through(cls, first: tuple[float, float], second: tuple[float, float]) -> Self:
        """The curve through two points (score, wrong ratio).

        Raises:
            ValueError: they lie on no rising curve, or a ratio is not between 0 and 1.
        """
        (score, wrong), (other, less_wrong) = sorted((first, second))
        if not (0 < less_wrong < wrong < 1 and score < other):
            raise ValueError(
                f"{first} and {second}: the higher score has the lower wrong ratio, within 0 and 1"
            )
        slope = (log_odds(less_wrong) - log_odds(wrong)) / (score - other)
        return cls(score + log_odds(wrong) / slope, slope)

    def log_odds(self, score: float) -> float:
        """Of the reply being right."""
        return self.slope * (score - self.midpoint)


class EntryEvidence:
    """The last outcomes of one entry. At most `MOST_OUTCOMES`; the oldest goes first.

    Args:
        curve: The calibrated one.
        outcomes: What was seen before, oldest first.
    """

    __slots__ = ("_curve", "outcomes", "stricter_by")

    def __init__(self, curve: Curve, outcomes: Iterable[tuple[float, bool]] = ()) -> None:
        self._curve = curve
        self.outcomes = list(outcomes)[-MOST_OUTCOMES:]
        self.stricter_by = self._excess()
        """How much more score than its domain's limit the entry asks for; 0 where it is no worse than an unknown."""

    def add(self, score: float, *, is_right: bool) -> None:
        """Learn from one outcome. Some 100 µs at most."""
        self.outcomes = [*self.outcomes[1 - MOST_OUTCOMES :], (score, is_right)]
        self.stricter_by = self._excess()

    def must_explore(self, score: float, limit: float) -> bool:
        """Whether a question is to be a miss for the entry's sake, where its domain asks for `limit`. Below 1 µs."""
        return limit <= score < limit + self.stricter_by

    def _excess(self) -> float:
        return max(0.0, _LOW_UNKNOWN - self._low()) / self._curve.slope

    def _low(self) -> float:
        if not self.outcomes:
            return _LOW_UNKNOWN
        scores, are_right = np.array(self.outcomes, np.float64).T
        expected = self._curve.slope * (scores - self._curve.midpoint)
        p_right = 1 / (1 + np.exp(-np.clip(expected[:, None] + _SHIFTS, -30, 30)))
        p_seen = np.where(are_right[:, None] > 0, p_right, 1 - p_right)
        likelihood = np.log(NOISE + (1 - 2 * NOISE) * p_seen).sum(axis=0)
        return _low_of(_PRIOR + likelihood)


class EntryBook:
    """The evidence of the entries that have any. Those that learnt least recently go when there are too many.

    Args:
        curve: The calibrated one. Another calibration needs another book.
        most: Entries kept.
    """

    def __init__(self, curve: Curve, most: int = MOST_ENTRIES) -> None:
        self.curve = curve
        self._most = most
        self._entries: OrderedDict[CacheKey, EntryEvidence] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, key: CacheKey, score: float, *, is_right: bool) -> None:
        """Learn from one outcome of an entry."""
        evidence = self._entries.setdefault(key, EntryEvidence(self.curve))
        self._entries.move_to_end(key)
        evidence.add(score, is_right=is_right)
        if len(self._entries) > self._most:
            self._entries.popitem(last=False)

    def stricter_by(self, key: CacheKey) -> float:
        """How much more score than its domain's limit an entry asks for; 0 where nothing bad is known. Below 1 µs."""
        evidence = self._entries.get(key)
        return 0.0 if evidence is None else evidence.stricter_by

    def forget(self, key: CacheKey) -> None:
        """The entry is gone."""
        self._entries.pop(key, None)

    def outcomes(self) -> dict[CacheKey, list[tuple[float, bool]]]:
        """All that was seen, to be kept beyond a restart. O(entries)."""
        return {key: evidence.outcomes for key, evidence in self._entries.items()}

    def restore(self, outcomes: dict[CacheKey, list[tuple[float, bool]]]) -> None:
        """Take up what was kept. Some 50 µs an entry."""
        for key, seen in list(outcomes.items())[-self._most :]:
            self._entries[key] = EntryEvidence(self.curve, seen)


def log_odds(ratio: float) -> float:
    """ln(ratio / (1 - ratio)): negative below a half."""
    return math.log(ratio) - math.log1p(-ratio)


def _low_of(log_weights: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    """The `LOW` quantile of the shift, between grid points by interpolation."""
    weights = np.exp(log_weights - log_weights.max())
    below = np.cumsum(weights) - weights / 2
    return float(np.interp(LOW * weights.sum(), below, _SHIFTS))


_LOW_UNKNOWN: Final = _low_of(_PRIOR)
