"""What the radix tree lets go in one call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from openclaw_cache.kv.block import NOWHERE, Tier
from openclaw_cache.kv.placement import forget

if TYPE_CHECKING:
    from openclaw_cache.kv.node import Int32s, Node


@dataclass(frozen=True, slots=True)
class Dropped:
    """Slots that the tree has let go: for the caller to free.

    Attributes:
        slots_by_tier: int32 arrays, one for every tier; tails are among the device's.
        num_blocks: how many blocks are now in no tier and have left the tree.
    """

    slots_by_tier: dict[Tier, Int32s]
    num_blocks: int


class Removal:
    """Collects the slots of one removal."""

    __slots__ = ("_parts", "num_blocks")

    def __init__(self) -> None:
        self._parts: dict[Tier, list[Int32s]] = {tier: [np.empty(0, np.int32)] for tier in Tier}
        self.num_blocks = 0

    def take(self, node: Node, tier: Tier, first: int, last: int) -> None:
        """Take the slots in one tier of the node's blocks with index [first, last)."""
        self._parts[tier].append(forget(node, tier, first, last))

    def take_rest(self, node: Node, first: int) -> None:
        """Take the node's blocks from index `first` on in all tiers, and its tail. They have vanished."""
        for tier in Tier:
            self.take(node, tier, first, node.num_blocks)
        if node.tail != NOWHERE:
            self._parts[Tier.DEVICE].append(np.array([node.tail], np.int32))
            node.tail = NOWHERE
        self.num_blocks += node.num_blocks - first

    def result(self) -> Dropped:
        """All that was taken."""
        return Dropped({tier: np.concatenate(parts) for tier, parts in self._parts.items()}, self.num_blocks)
