"""Least recently used first."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from openclaw_cache.kv.block import Tier
    from openclaw_cache.kv.node import Node
    from openclaw_cache.kv.rhythm import Rhythm


class LRU:
    """Least recently used first. Of equals the deeper first, then the older."""

    def victims(
        self,
        leaves: list[Node],
        reopened: Callable[[Node], Node | None],
        now: float,
        rhythm: Rhythm,
        tier: Tier,
    ) -> Iterator[Node]:
        """Yield the leaves by last use. Cost: O(leaves), O(log leaves) per node."""
        heap = [(node.last_used_at, -node.end, node.id, node) for node in leaves]
        heapq.heapify(heap)
        while heap:
            node = heapq.heappop(heap)[-1]
            yield node
            if parent := reopened(node):
                heapq.heappush(heap, (parent.last_used_at, -parent.end, parent.id, parent))

    def taken(self, node: Node, tier: Tier, now: float, rhythm: Rhythm) -> None:
        """Nothing is kept of it."""
