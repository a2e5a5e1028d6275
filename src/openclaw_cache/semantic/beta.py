"""The Beta distribution: what is known of a ratio after some of one kind and some of the other were seen. Pure."""

from __future__ import annotations

import math
from typing import Final

_TINY: Final = 1e-300
_EXACT: Final = 1e-14
_MOST_TERMS: Final = 10_000
_HALVINGS: Final = 64


def at_most(x: float, a: float, b: float) -> float:
    """P(ratio ≤ x) for a ratio distributed as Beta(a, b): the regularised incomplete beta function.

    Some 10 µs for counts in the hundreds; the number of terms grows as the root of the counts.

    Raises:
        ValueError: `a` or `b` is not positive.
    """
    if not (a > 0 and b > 0):
        raise ValueError(f"Beta({a}, {b}): both counts are above 0")
    if x <= 0:
        return 0.0
    if x >= 1:
        return 1.0
    scale = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    if x * (a + b + 2) < a + 1:
        return min(1.0, math.exp(scale) * _fraction(x, a, b) / a)
    return max(0.0, 1.0 - math.exp(scale) * _fraction(1 - x, b, a) / b)


def quantile(p: float, a: float, b: float) -> float:
    """The ratio that a ratio distributed as Beta(a, b) is below with probability `p`. A millisecond.

    Raises:
        ValueError: `a` or `b` is not positive.
    """
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if at_most(middle, a, b) < p:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _fraction(x: float, a: float, b: float) -> float:
    """The continued fraction of DLMF 8.17.22, from its head by Lentz's method. Converges fast below the mean."""
    c, d = 1.0, 1.0 / _not_zero(1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, _MOST_TERMS):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1.0 / _not_zero(1 + term * d)
            c = _not_zero(1 + term / c)
            value *= c * d
        if abs(c * d - 1) < _EXACT:
            break
    return value


def _not_zero(number: float) -> float:
    return number if abs(number) > _TINY else _TINY
