"""How fresh something is."""

from __future__ import annotations


def freshness(at: float, now: float, half_life_s: float) -> float:
    """1 for what is of now or of the future, half of it for each half-life that it is older."""
    return float(0.5 ** (max(0.0, now - at) / half_life_s))
