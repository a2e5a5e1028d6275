"""Least frequently used first."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from openclaw_cache.kv.block import Tier
    from openclaw_cache.kv.node import Node
    from openclaw_cache.kv.rhythm import Rhythm


class LFU:
    """Fewest hits first; of equals the least recently used, then the deeper, then the older.

    Hits are never forgotten while a node lives: what was popular once stays. It is here to be compared with.
    """

    def victims(
        self,
        leaves: list[Node],
        reopened: Callable[[Node], Node | None],
        now: float,
        rhythm: Rhythm,
        tier: Tier,
    ) -> Iterator[Node]:
        """Yield the leaves by hits. Cost: O(leaves), O(log leaves) per node."""
        heap = [_entry(node) for node in leaves]
        heapq.heapify(heap)
        while heap:
            node = heapq.heappop(heap)[-1]
            yield node
            if parent := reopened(node):
                heapq.heappush(heap, _entry(parent))

    def taken(self, node: Node, tier: Tier, now: float, rhythm: Rhythm) -> None:
        """Nothing is kept of it."""


def _entry(node: Node) -> tuple[int, float, int, int, Node]:
    return (node.num_hits, node.last_used_at, -node.end, node.id, node)
