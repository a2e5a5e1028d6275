"""S3-FIFO over the leaves of a tier."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from openclaw_cache.kv.block import Tier
    from openclaw_cache.kv.node import Node
    from openclaw_cache.kv.rhythm import Rhythm

_SMALL_RATIO: Final = 0.1
_PROMOTE_FROM: Final = 2
_MAX_FREQ: Final = 3
_MIN_GHOSTS: Final = 64


class S3FIFO:
    """FIFO queues with a second chance: one-time prefixes pass through a small queue and spare the others.

    Source: Yang, Zhang, Qiu, Yue, Rashmi, "FIFO queues are all you need for cache eviction", SOSP 2023.

    New nodes are in the small queue. Those hit twice before they reach its end move to the main queue, where
    every hit (three at most are remembered) is one more round; the others go, and their names are remembered
    for a while: a node that comes back under its name starts in the main queue. The small queue is drained
    while it has a tenth or more of the blocks of all leaves.

    Its state lies in `queued`, `is_main` and `num_spent_hits` of the nodes, so a tree has one instance for
    all its tiers. The names are (id of the parent, first token): equal for as long as the parent lives.
    """

    __slots__ = ("_ghosts", "_last_queued")

    def __init__(self) -> None:
        # name -> id and number of hits of the node when it was evicted
        self._ghosts: dict[tuple[int, int], tuple[int, int]] = {}
        self._last_queued = 0

    def victims(
        self,
        leaves: list[Node],
        reopened: Callable[[Node], Node | None],
        now: float,
        rhythm: Rhythm,
        tier: Tier,
    ) -> Iterator[Node]:
        """Yield the leaves by queue. Cost: O(leaves), amortised O(log leaves) per node."""
        small, main = _Queue(), _Queue()
        for node in leaves:
            self._enter(node, small, main)
        while small or main:
            if small and (not main or small.size >= _SMALL_RATIO * (small.size + main.size)):
                node = small.pop()
                if node.num_hits - node.num_spent_hits >= _PROMOTE_FROM:
                    self._requeue(node, main, freq=0)
                    continue
                self._remember(node, len(small) + len(main))
            else:
                node = main.pop()
                if freq := min(_MAX_FREQ, node.num_hits - node.num_spent_hits):
                    self._requeue(node, main, freq=freq - 1)
                    continue
            yield node
            if parent := reopened(node):
                self._enter(parent, small, main)

    def taken(self, node: Node, tier: Tier, now: float, rhythm: Rhythm) -> None:
        """Nothing is kept of it."""

    def _enter(self, node: Node, small: _Queue, main: _Queue) -> None:
        """Put a node into its queue; one that came back after its eviction goes to the main queue."""
        if node.is_main:
            main.push(node)
            return
        ghost = self._ghosts.get(_name(node))
        # The same node with no hit since was only shortened: it has gone nowhere.
        if ghost is None or ghost == (node.id, node.num_hits):
            small.push(node)
            return
        del self._ghosts[_name(node)]
        self._requeue(node, main, freq=0)

    def _requeue(self, node: Node, main: _Queue, *, freq: int) -> None:
        """Move a node to the end of the main queue with `freq` hits left."""
        self._last_queued += 1
        node.is_main, node.queued = True, self._last_queued
        node.num_spent_hits = node.num_hits - freq
        main.push(node)

    def _remember(self, node: Node, num_leaves: int) -> None:
        """Keep the name of a node that goes."""
        self._ghosts.pop(_name(node), None)
        self._ghosts[_name(node)] = (node.id, node.num_hits)
        while len(self._ghosts) > max(_MIN_GHOSTS, num_leaves):
            del self._ghosts[next(iter(self._ghosts))]


class _Queue:
    """Nodes by their place, and the blocks they have."""

    __slots__ = ("_heap", "size")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, int, Node]] = []
        self.size = 0

    def __len__(self) -> int:
        return len(self._heap)

    def push(self, node: Node) -> None:
        size = max(1, node.num_blocks)
        heapq.heappush(self._heap, (node.queued, node.id, size, node))
        self.size += size

    def pop(self) -> Node:
        *_, size, node = heapq.heappop(self._heap)
        self.size -= size
        return node


def _name(node: Node) -> tuple[int, int]:
    parent = node.parent
    return (parent.id if parent else -1, int(node.tokens[0]))
