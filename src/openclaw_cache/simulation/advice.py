"""Where a curve bends, and what more room would bring."""

from __future__ import annotations

from typing import Final

from openclaw_cache.simulation.curve import Curve

_NUM_TRIED: Final = 2000
_NEARLY_ALL: Final = 0.99


def knee(curve: Curve) -> int:
    """The capacity in blocks from which on room brings less than it did on average up to there.

    Of the capacities up to the one that finds 99 % of what can be found, the one whose hits lie highest above the
    straight line between both ends (Satopää, Albrecht, Irwin, Raghavan, "Finding a Kneedle in a haystack", 2011).
    """
    best, end = curve.best_ratio, curve.needed(_NEARLY_ALL * curve.best_ratio)
    tried = sorted({max(1, round(end * i / _NUM_TRIED)) for i in range(1, _NUM_TRIED + 1)})
    top = best * _NEARLY_ALL or 1.0
    return max(tried, key=lambda num: (curve.hit_ratio(num) / top - num / end, -num))


def pays_up_to(curve: Curve, dollars_per_block: float, dollars_per_hit_ratio: float) -> int | None:
    """The capacity in blocks at which hits are worth most over what the room costs; None where no room pays.

    Args:
        curve: hits over capacity.
        dollars_per_block: what a block's room costs in some time.
        dollars_per_hit_ratio: what finding every prompt token would be worth in that time.
    """
    end = max(1, curve.needed(curve.best_ratio))
    tried = sorted({max(1, round(end ** (i / _NUM_TRIED))) for i in range(_NUM_TRIED + 1)})

    def net(num_blocks: int) -> float:
        return curve.hit_ratio(num_blocks) * dollars_per_hit_ratio - num_blocks * dollars_per_block

    best = max(tried, key=lambda num: (net(num), -num))
    return best if net(best) > 0 else None


def steps(least: float, most: float) -> list[int]:
    """Round sizes in bytes (1, 2, 5, 10, 20 …), from the last one up to `least` to the first one from `most` on."""
    found: list[int] = []
    power = 1
    while not found or found[-1] < most:
        for digit in (1, 2, 5):
            size = digit * power
            if size <= least:
                found = [size]
            elif not found or found[-1] < most:
                found.append(size)
        power *= 10
    return found
