"""Hits over capacity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Curve:
    """How many prompt tokens a cache finds, by its size. Capacities are in blocks of the whole trace."""

    hit_tokens: NDArray[np.float64]
    """By capacity in blocks of the sample, from 0 on."""
    rate: float
    """Of the sample; 1: the curve is exact."""
    num_tokens: int
    """Prompt tokens of all requests."""
    num_requests: int
    num_blocks: int
    """Distinct blocks, an estimate where there was a sample."""

    def hit_ratio(self, num_blocks: float) -> float:
        """Tokens found of all prompt tokens, with room for so many blocks."""
        if not self.num_tokens or num_blocks < 1:
            return 0.0
        place = min(num_blocks * self.rate, len(self.hit_tokens) - 1)
        low = int(place)
        hits = float(self.hit_tokens[low])
        if self.rate < 1 and low + 1 < len(self.hit_tokens):
            hits += (place - low) * (float(self.hit_tokens[low + 1]) - hits)
        return min(1.0, hits / self.num_tokens)

    def num_hit_tokens(self, num_blocks: int) -> int:
        """Tokens found with room for so many blocks, where the curve is exact."""
        return round(float(self.hit_tokens[min(num_blocks, len(self.hit_tokens) - 1)]))

    @property
    def best_ratio(self) -> float:
        """With room for everything."""
        return min(1.0, float(self.hit_tokens[-1]) / self.num_tokens) if self.num_tokens else 0.0

    def needed(self, hit_ratio: float) -> int:
        """The smallest capacity that finds as much; all blocks where none does. Cost: O(log)."""
        place = int(np.searchsorted(self.hit_tokens, hit_ratio * self.num_tokens * (1 - 1e-12)))
        return min(max(self.num_blocks, 1), max(1, round(place / self.rate)))
