"""Pins that end by themselves: prefixes that an operator wants kept for a while."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from openclaw_cache.errors import OpenClawCacheError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from openclaw_cache.kv.node import Int32s, Node
    from openclaw_cache.kv.radix import RadixTree


class LeaseError(OpenClawCacheError):
    """The prefix cannot be pinned; the message says why."""


@dataclass(slots=True)
class Lease:
    """A pinned prefix of `num_tokens` tokens, until `expires_at` (the clock of the engine)."""

    id: str
    node: Node
    num_tokens: int
    expires_at: float


class Leases:
    """The pins that operators have set.

    Args:
        tree: whose nodes they pin.
        most_blocks: together they pin no more blocks.

    Attributes:
        num_given_way: pins that ended early, because a request could not have run beside them.
    """

    def __init__(self, tree: RadixTree, most_blocks: int) -> None:
        self._tree = tree
        self._most_blocks = most_blocks
        self.num_given_way = 0
        self._leases: dict[tuple[bytes, bytes], Lease] = {}

    def __iter__(self) -> Iterator[Lease]:
        return iter(self._leases.values())

    def pin(self, salt: bytes, tokens: Int32s, expires_at: float) -> Lease:
        """Pin the whole blocks of a cached prefix; one that is pinned already gets the later end.

        Raises:
            LeaseError: it is not cached whole, or too much is pinned.
        """
        size = self._tree.block_tokens
        whole = tokens[: len(tokens) // size * size]
        if not len(whole):
            raise LeaseError(f"{len(tokens)} tokens are less than one block, the least that can be pinned")
        key = (salt, whole.tobytes())
        if (known := self._leases.get(key)) is not None:
            known.expires_at = max(known.expires_at, expires_at)
            return known
        node = self._tree.anchor(salt, whole)
        if node is None:
            raise LeaseError("the prefix is not in the cache any more: it did not fit")
        pinned = {above for lease in self for above in lease.node.path()}
        num_blocks = sum(above.num_blocks for above in pinned.union(node.path()))
        if num_blocks > self._most_blocks:
            raise LeaseError(
                f"with it {num_blocks * size} tokens would be pinned, more than the {self._most_blocks * size} "
                "that may be: raise kv_cache.device, or pin less"
            )
        self._tree.pin(node)
        lease = self._leases[key] = Lease(secrets.token_hex(8), node, len(whole), expires_at)
        return lease

    def expire(self, now: float) -> None:
        """End the leases whose time is over."""
        for lease in [lease for lease in self if lease.expires_at <= now]:
            self.end(lease)

    def end(self, lease: Lease) -> None:
        """End a lease now."""
        self._leases = {key: other for key, other in self._leases.items() if other is not lease}
        self._tree.unpin(lease.node)

    def give_way(self) -> bool:
        """End the lease that would end first, for a request that has no room beside them; False if there is none."""
        first = min(self, key=lambda lease: lease.expires_at, default=None)
        if first is None:
            return False
        self.num_given_way += 1
        self.end(first)
        return True
