"""What labelled pairs say of scores: of the hits at a limit, how many are wrong at most. Pure.

**The scale.** A score from 0 to 1 means the same for every embedder and for every kind of pair (English, Chinese, one
of each): of the hits at a limit, at most so many are wrong, with a confidence of 90 % (Clopper and Pearson's upper
bound, on pairs that had no part in the weights that scored them).

| limit | 0.80 | 0.85 (`creative`) | 0.90 (`support`) | 0.95 |
|---|---|---|---|---|
| wrong hits, at most | 10 % | 5 % | 3 % | 1 % |

Where an embedder cannot keep one of these ratios for a kind of pair, no such pair scores as high.

**The mix.** How many hits are wrong depends on how many candidates are traps, and that differs between caches. A
calibration says which share it takes for granted (`trap_share`); `limit` takes another one.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from openclaw_cache.semantic.beta import at_most
from openclaw_cache.semantic.labelled import DEFAULT_DOMAIN

ANCHORS: Final = ((0.80, 0.10), (0.85, 0.05), (0.90, 0.03), (0.95, 0.01))
"""Places on the scale, and the wrong ratio that is kept there."""
CONFIDENCE: Final = 0.9

_REACH: Final = 3.0
"""Log odds over which a score comes half as near to the end of what is known of its scale."""

Knots = tuple[tuple[float, float], ...]
"""Log odds, and the place on the scale that they stand at; both rise."""


class Outcomes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Scores of labelled pairs that no guard refused, lowest first. Holds no texts."""

    right: tuple[float, ...]
    wrong: tuple[float, ...]
    num_right: int
    """All pairs of one answer, refused ones too."""
    num_wrong: int
    """All traps."""

    def served(self, limit: float) -> tuple[int, int]:
        """How many wrong and how many right pairs score `limit` or more. Cost: logarithmic."""
        return _num_from(self.wrong, limit), _num_from(self.right, limit)

    def lowest(self, max_wrong_ratio: float, trap_share: float | None = None) -> float | None:
        """The lowest score as a limit that keeps to a ratio; None where these pairs show that of none. Some ms.

        Args:
            max_wrong_ratio: Wrong hits ÷ hits.
            trap_share: Of the candidates, how many are traps; None = as among these pairs.
        """
        ratio = self._ratio_here(max_wrong_ratio, trap_share)
        for limit in sorted({*self.right, *self.wrong}):
            wrong, right = self.served(limit)
            if keeps(ratio, wrong, right):
                return limit
        return None

    def _ratio_here(self, max_wrong_ratio: float, trap_share: float | None) -> float:
        """What a ratio comes to among these pairs: with twice the traps, twice the wrong hits for each right one."""
        if trap_share is None or not self.num_right or not self.num_wrong:
            return max_wrong_ratio
        odds = max_wrong_ratio / (1 - max_wrong_ratio)
        odds *= self.num_wrong / self.num_right * (1 - trap_share) / trap_share
        return odds / (1 + odds)


class Calibration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How pairs are scored under one embedder, and what the scores are worth. A file of it holds no texts."""

    embedder: str
    """For people."""
    fingerprint: str
    """Names the embedder's weights and the way texts are prepared."""
    features: tuple[str, ...]
    """What the weights belong to, in order."""
    weights: dict[str, tuple[float, ...]]
    """By kind of pair: the intercept, then one for each feature."""
    cosines: dict[str, tuple[float, float]]
    """By kind of pair: mean and spread of the cosines that it was made of, by which another embedder's compare."""
    scales: dict[str, Knots]
    """By kind of pair."""
    outcomes: dict[str, dict[str, Outcomes]]
    """By domain, then by kind of pair."""
    trap_share: float
    """Of the candidates that are judged, how many are taken to be traps."""

    def limit(
        self, max_wrong_ratio: float, domain: str = DEFAULT_DOMAIN, trap_share: float | None = None
    ) -> float | None:
        """The lowest limit at which each kind of pair keeps to a wrong ratio, or has no hits at all.

        None where no kind is shown to keep it. Cost: some 10 ms, so the caller keeps it.

        Args:
            max_wrong_ratio: Wrong hits ÷ hits, between 0 and 1.
            domain: One without enough pairs of its own has the limit of all.
            trap_share: Of this cache's candidates, how many are traps; None = what the calibration takes for granted.

        Raises:
            ValueError: a ratio or share that is not between 0 and 1.
        """
        share = self.trap_share if trap_share is None else trap_share
        if not (0 < max_wrong_ratio < 1 and 0 < share < 1):
            raise ValueError(
                f"max_wrong_ratio {max_wrong_ratio}, trap_share {share}: both lie between 0 and 1"
            )
        found = {kind: outcomes.lowest(max_wrong_ratio, share) for kind, outcomes in self._of(domain).items()}
        held = [limit for limit in found.values() if limit is not None]
        if not held:
            return None
        return max(held + [ceiling(self.scales[kind]) for kind, limit in found.items() if limit is None])

    def counts(self, limit: float, domain: str = DEFAULT_DOMAIN) -> tuple[int, int]:
        """How many wrong and how many right pairs a limit served: what is known of a domain before its first hit."""
        served = [outcomes.served(limit) for outcomes in self._of(domain).values()]
        return sum(wrong for wrong, _ in served), sum(right for _, right in served)

    def expected(self, limit: float, domain: str = DEFAULT_DOMAIN) -> tuple[float, float]:
        """The same in the mix that the calibration takes for granted: what a domain's first hits are expected to be."""
        wrong = right = 0.0
        odds = self.trap_share / (1 - self.trap_share)
        for outcomes in self._of(domain).values():
            num_wrong, num_right = outcomes.served(limit)
            mix = odds * outcomes.num_right / outcomes.num_wrong if outcomes.num_wrong else 1.0
            wrong, right = wrong + num_wrong * mix, right + num_right
        return wrong, right

    def _of(self, domain: str) -> dict[str, Outcomes]:
        return self.outcomes.get(domain) or self.outcomes[DEFAULT_DOMAIN]


def keeps(ratio: float, num_wrong: int, num_right: int) -> bool:
    """Whether hits, of which so many were wrong and right, keep to a wrong ratio with `CONFIDENCE`."""
    return num_right > 0 and at_most(ratio, num_wrong + 1, num_right) >= CONFIDENCE


def promised(limit: float) -> float:
    """How many hits are wrong at most at a place on the scale: between anchors by ratio, beyond them as at the last."""
    places = [place for place, _ in ANCHORS]
    logs = [math.log(ratio) for _, ratio in ANCHORS]
    return float(math.exp(np.interp(limit, places, logs)))


def knots_of(outcomes: Outcomes, trap_share: float | None) -> Knots:
    """Where the anchors stand, for outcomes in log odds: those that these pairs show to be kept."""
    knots: list[tuple[float, float]] = []
    for place, ratio in ANCHORS:
        lowest = outcomes.lowest(ratio, trap_share)
        if lowest is None:
            break
        if knots and lowest <= knots[-1][0]:
            knots.pop()
        knots.append((lowest, place))
    return tuple(knots)


def ceiling(knots: Knots) -> float:
    """What no score on a scale reaches: the first anchor that it lacks."""
    highest = knots[-1][1] if knots else 0.0
    return next((place for place, _ in ANCHORS if place > highest), 1.0)


def on_scale(log_odds: float, knots: Knots) -> float:
    """The score of log odds: straight between knots; nearing 0 below them, and the ceiling above. Always rises."""
    if not knots:
        return ceiling(knots) * (0.5 + 0.5 * log_odds / (_REACH + abs(log_odds)))
    (first, low), (last, high) = knots[0], knots[-1]
    if log_odds <= first:
        return low * _REACH / (_REACH + first - log_odds)
    if log_odds >= last:
        return high + (ceiling(knots) - high) * (log_odds - last) / (_REACH + log_odds - last)
    at = bisect_right(knots, log_odds, key=lambda knot: knot[0])
    (start, low), (end, high) = knots[at - 1], knots[at]
    return low + (high - low) * (log_odds - start) / (end - start)


def _num_from(scores: Sequence[float], limit: float) -> int:
    """How many of the scores, lowest first, are `limit` or more."""
    return len(scores) - bisect_left(scores, limit)
