"""The order in which leaves of a tier are evicted: one small class per policy, behind one method.

A policy only orders. What a leaf is, what is pinned and how many blocks go is `kv.frontier`'s business.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from openclaw_cache.kv.agent import AgentAware
from openclaw_cache.kv.lfu import LFU
from openclaw_cache.kv.lru import LRU
from openclaw_cache.kv.s3fifo import S3FIFO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from openclaw_cache.kv.block import Tier
    from openclaw_cache.kv.node import Node
    from openclaw_cache.kv.rhythm import Rhythm

__all__ = ["LFU", "LRU", "POLICIES", "S3FIFO", "AgentAware", "Eviction"]


class Eviction(Protocol):
    """An order of eviction."""

    def victims(
        self,
        leaves: list[Node],
        reopened: Callable[[Node], Node | None],
        now: float,
        rhythm: Rhythm,
        tier: Tier,
    ) -> Iterator[Node]:
        """Yield nodes in the order in which they should go at `now`, each when it is asked for.

        Who asks for another node has taken the last one whole; `reopened(node)`, to be called once for it,
        then gives the ancestor that has become a leaf of the tier, which is to be considered too. Who stops
        asking may have taken only a part of the last one. `rhythm` is what the tree has learnt of its calls, `tier`
        the one whose leaves these are. The list is the policy's to change.
        """

    def taken(self, node: Node, tier: Tier, now: float, rhythm: Rhythm) -> None:
        """Take note that one of the nodes last yielded for `tier` gives blocks up. Not every one of them does."""


POLICIES: Final[Mapping[str, Callable[[], Eviction]]] = {
    "lru": LRU,
    "s3fifo": S3FIFO,
    "lfu": LFU,
    "agent": AgentAware,
}
