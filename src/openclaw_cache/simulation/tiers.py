"""Tiers: how many blocks each has room for, and what is found in which.

As the engine works. `write: through` copies a block to every tier below when it is complete, and each tier evicts by
itself, so the tiers are *inclusive*: two of them have no more than the larger one. `write: back` copies a block down
when it is evicted, so they are nearly *exclusive* and have their sum together; a block that came up again keeps its
copy below until that is evicted there, which makes the sum a bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

Write = Literal["through", "back"]
NAMES: Final = ("device", "host", "disk")
"""Fastest first."""


@dataclass(frozen=True, slots=True)
class Tier:
    """A place for blocks."""

    name: str
    num_bytes: int
    bytes_per_token: float

    def num_blocks(self, block_tokens: int) -> int:
        """Blocks that it has room for."""
        return int(self.num_bytes / (self.bytes_per_token * block_tokens))


@dataclass(frozen=True, slots=True)
class Found:
    """What a tier adds."""

    tier: Tier
    num_blocks: int
    """Its room."""
    reach_blocks: int
    """Different blocks that it and those above it have together."""
    hit_ratio: float
    """Of all prompt tokens, what is found in it and not above it."""
    total_ratio: float
    """What is found in it or above it."""


def found(
    tiers: Sequence[Tier], write: Write, block_tokens: int, hit_ratio: Callable[[int], float]
) -> list[Found]:
    """What each tier adds, from the fastest on.

    Args:
        tiers: fastest first.
        write: how blocks go down.
        block_tokens: tokens of a block.
        hit_ratio: of a cache of so many blocks.
    """
    result, above = [], 0.0
    for tier, reach in zip(tiers, reaches(tiers, write, block_tokens), strict=True):
        total = max(above, hit_ratio(reach))
        result.append(Found(tier, tier.num_blocks(block_tokens), reach, total - above, total))
        above = total
    return result


def reaches(tiers: Sequence[Tier], write: Write, block_tokens: int) -> list[int]:
    """How many different blocks each tier and those above it have together."""
    reach, all_reaches = 0, []
    for tier in tiers:
        num_blocks = tier.num_blocks(block_tokens)
        reach = max(reach, num_blocks) if write == "through" else reach + num_blocks
        all_reaches.append(reach)
    return all_reaches
