"""The leaves of each tier, and the choice of what leaves a tier.

A leaf of a tier holds blocks in it and has no descendant that does. Only leaves may give blocks up, from their
end backwards, so that what a tier holds of a path stays a prefix of it as far as possible.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from openclaw_cache.kv.block import NOWHERE, Tier

if TYPE_CHECKING:
    from openclaw_cache.kv.eviction import Eviction
    from openclaw_cache.kv.node import Node
    from openclaw_cache.kv.rhythm import Rhythm


@dataclass(frozen=True, slots=True)
class Victim:
    """Blocks that a tier can give up: those of `node` with index [first, last) in it, and its tail."""

    node: Node
    first: int
    last: int
    has_tail: bool = False


class Frontier:
    """Knows the leaves of every tier, as long as `update` is called after each change of a node."""

    __slots__ = ("_leaves",)

    def __init__(self) -> None:
        # Dicts, because their order is the same in every run; that of a set of objects is not.
        self._leaves: tuple[dict[Node, None], ...] = tuple({} for _ in Tier)

    def leaves(self, tier: Tier) -> list[Node]:
        """The leaves of a tier, pinned ones included. Cost: O(leaves)."""
        return list(self._leaves[tier])

    def update(self, node: Node) -> None:
        """Take note of what `node` and its ancestors hold now. Cost: O(1), O(depth) where a tier is new or gone."""
        current: Node | None = node
        while current is not None:
            changed = self._recount(current)
            parent = current.parent
            if not changed or parent is None:
                return
            for tier in Tier:
                if changed >> tier & 1:
                    parent.num_holding[tier] += 1 if current.holds >> tier & 1 else -1
            current = parent

    def remove(self, node: Node) -> None:
        """Forget a node with all below it. It must still hang at its parent. Cost: O(nodes below)."""
        for gone in node.subtree():
            for tier in Tier:
                self._leaves[tier].pop(gone, None)
        parent, held = node.parent, node.holds
        node.holds = 0
        if parent is not None:
            for tier in Tier:
                parent.num_holding[tier] -= held >> tier & 1
            self.update(parent)

    def choose(
        self, tier: Tier, num_blocks: int, policy: Eviction, now: float, rhythm: Rhythm
    ) -> list[Victim]:
        """Choose `num_blocks` blocks, or all there are, that `tier` may give up at `now`; nothing is removed.

        A node whose blocks are all taken opens its parent. A tail counts as one block and goes before the
        blocks of its node. Pinned nodes and their ancestors are never chosen.
        Cost: O(leaves) and what the policy adds, O(log leaves) per victim.
        """
        num_closed: dict[Node, int] = {}

        def reopened(node: Node) -> Node | None:
            """The nearest ancestor that this was the last to keep closed, if it may be taken from."""
            while (parent := node.parent) is not None and not parent.num_pins:
                num_closed[parent] = num_closed.get(parent, 0) + 1
                if num_closed[parent] < parent.num_holding[tier]:
                    return None
                if parent.num_held(tier):
                    return parent
                node = parent
            return None

        victims: list[Victim] = []
        if num_blocks <= 0:
            return victims
        free = [node for node in self._leaves[tier] if not node.num_pins]
        for node in policy.victims(free, reopened, now, rhythm, tier):
            victim, num = _take(node, tier, num_blocks)
            victims.append(victim)
            num_blocks -= num
            if num_blocks <= 0:
                break
        return victims

    def _recount(self, node: Node) -> int:
        """Set `node.holds` and its place among the leaves; return the bits of `holds` that changed."""
        own = (node.slots != NOWHERE).any(axis=1).tolist()
        own[Tier.DEVICE] |= node.tail != NOWHERE
        holds = 0
        for tier in Tier:
            holds |= (own[tier] or node.num_holding[tier] > 0) << tier
            if own[tier] and not node.num_holding[tier]:
                self._leaves[tier][node] = None
            else:
                self._leaves[tier].pop(node, None)
        changed, node.holds = holds ^ node.holds, holds
        return changed


def _take(node: Node, tier: Tier, num_blocks: int) -> tuple[Victim, int]:
    """At most `num_blocks` of a node from its end backwards, and how many they are."""
    has_tail = tier is Tier.DEVICE and node.tail != NOWHERE
    held = np.flatnonzero(node.slots[tier] != NOWHERE)
    num = min(len(held), num_blocks - has_tail)
    if not num:
        return Victim(node, node.num_blocks, node.num_blocks, has_tail), int(has_tail)
    return Victim(node, int(held[-num]), node.num_blocks, has_tail), num + has_tail
