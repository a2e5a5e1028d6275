"""The radix tree: which prefixes are cached, and where each of their blocks is.

Source: RadixAttention (Zheng et al., SGLang, NeurIPS 2024). Edges are runs of tokens; the tree compares token ids,
never hashes. Matching is per token, KV is reusable per block of B tokens: block i of a path (tokens [iB, iB + B))
belongs to the node that holds its last token, so an edge may be split anywhere.

Pure bookkeeping: no I/O, no clock, no locks; one thread owns it. The tree never frees a slot or counts a
reference: it returns the slots that it takes or lets go, and its caller does both.

Rules that always hold (`check_integrity`): every block is in at least one tier; tokens after the last block
boundary are kept only on the way to something longer, with a tail, or under a pin.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

import numpy as np

from openclaw_cache.errors import OpenClawCacheError
from openclaw_cache.kv import inspection, placement
from openclaw_cache.kv.block import NOWHERE, Tier
from openclaw_cache.kv.frontier import Frontier
from openclaw_cache.kv.match import Match, walk
from openclaw_cache.kv.node import Flag, Node
from openclaw_cache.kv.placement import Inserted
from openclaw_cache.kv.removal import Dropped, Removal
from openclaw_cache.kv.rhythm import Rhythm

if TYPE_CHECKING:
    from collections.abc import Iterator

    from openclaw_cache.kv.eviction import Eviction
    from openclaw_cache.kv.frontier import Victim
    from openclaw_cache.kv.node import Flags, Int32s

__all__ = ["Dropped", "Flag", "Inserted", "Match", "Node", "PinError", "RadixTree"]

_MAX_GRAVES: Final = 256


class PinError(OpenClawCacheError):
    """A pin was taken off that nobody had set, or something pinned was to be removed: a bug of the caller."""


class RadixTree:
    """Cached prefixes, one tree per root key (the salt of a namespace).

    Only `insert` and `anchor` split nodes; only `drop`, `drop_tail`, `unpin` and `remove_root` shorten or remove them.

    Attributes:
        num_evicted_blocks: blocks that have vanished from all tiers since the start.
        num_dropped: slots let go per tier since the start.
        rhythm: when its paths are called, and what that says of the next call.
        graveyard: the last 256 removed nodes.
    """

    __slots__ = (
        "_frontier",
        "_last_id",
        "_now",
        "_roots",
        "block_tokens",
        "graveyard",
        "num_dropped",
        "num_evicted_blocks",
        "rhythm",
    )

    def __init__(self, block_tokens: int) -> None:
        if block_tokens < 1:
            raise ValueError(f"a block cannot have {block_tokens} tokens")
        self.block_tokens = block_tokens
        self._roots: dict[bytes, Node] = {}
        self._frontier = Frontier()
        self._last_id = 0
        self._now = 0.0
        self.num_evicted_blocks = 0
        self.num_dropped = dict.fromkeys(Tier, 0)
        self.rhythm = Rhythm()
        self.graveyard: deque[inspection.Grave] = deque(maxlen=_MAX_GRAVES)

    def roots(self) -> dict[bytes, Node]:
        """The root node of every namespace that has something cached or pinned, oldest first."""
        return dict(self._roots)

    def nodes(self) -> Iterator[Node]:
        """Every node except the roots, parents first. Not while the tree changes."""
        for top in self._roots.values():
            for node in top.subtree():
                if node.parent is not None:
                    yield node

    def match(self, root: bytes, tokens: Int32s, *, limit: int | None = None) -> Match:
        """Find the longest cached prefix of `tokens` (int32 [n]), up to `limit` tokens. Changes nothing.

        Cost: O(matched tokens) of memory comparison and O(nodes of the path).
        """
        tokens = placement.checked(tokens)
        top = self._roots.get(root)
        if top is None:
            return Match(root, 0, Node.top(-1, root, self.block_tokens))
        node, num_tokens = walk(top, tokens if limit is None else tokens[: max(0, limit)])
        return Match(root, num_tokens, node)

    def touch(self, match: Match, now: float) -> None:
        """Count a hit on every node of the path that has tokens in a matched block."""
        self._now = max(now, self._now)
        end = match.num_blocks * self.block_tokens
        for node in match.node.path():
            if node.parent is None or node.start < end:
                if node.parent is not None:
                    self.rhythm.called(node, now)
                node.num_hits += 1
                node.last_used_at = max(now, node.last_used_at)
                node.state = "hit"

    def pin(self, node: Node) -> None:
        """Keep the node and its ancestors from being evicted, until `unpin`. Later splits do not matter."""
        if node.state == "evicted":
            raise PinError(f"{node} is no longer in the tree and cannot be pinned")
        node.num_own_pins += 1
        for above in node.path():
            above.num_pins += 1

    def unpin(self, node: Node) -> None:
        """Take one pin off the node. Raises PinError where it has none of its own."""
        if node.num_own_pins < 1:
            raise PinError(f"{node} was unpinned more often than it was pinned")
        node.num_own_pins -= 1
        for above in node.path():
            above.num_pins -= 1
        self._settle(node)

    def anchor(self, root: bytes, tokens: Int32s) -> Node | None:
        """The node that ends with these tokens (whole blocks), for a pin that covers no more than them.

        Splits a node that goes on after them. What comes after an anchor becomes a child, never a part of it.
        None if not all of the tokens are cached.
        """
        match = self.match(root, tokens)
        if match.num_tokens < len(tokens) or len(tokens) % self.block_tokens or not len(tokens):
            return None
        node = match.node
        if node.end > len(tokens):
            node = self._split(node, len(tokens))
        node.is_anchor = True
        return node

    def insert(
        self,
        root: bytes,
        tokens: Int32s,
        blocks: Int32s,
        *,
        now: float,
        flags: Flags | int = 0,
        cost_s: float = 0.0,
        tail: int = NOWHERE,
        tier: Tier = Tier.DEVICE,
    ) -> Inserted:
        """Record that the caller has the KV of `tokens`. Splits a node where the tokens leave it in its middle.

        A block that the tree has in `tier` already keeps its slot; other slots of the caller are adopted. New
        tokens lengthen a leaf or become a child. Tokens after the last block boundary are recorded only with
        a tail. What becomes of the flags of known blocks is said at `placement.adopt`.

        Args:
            root: key of the namespace.
            tokens: int32 [n].
            blocks: int32 [n // B], the caller's slots in `tier`; `NOWHERE` only where the tree has the block.
            now: the time of this use; an earlier one than those before moves nothing back.
            flags: `Flag` of the caller's blocks, uint8 [n // B] or one for all.
            cost_s: seconds that the prefill of all `tokens` takes; new nodes get their share by tokens.
            tail: device block that holds the last n % B tokens.
            tier: where `blocks` are; another than the device to bring back what outlived a restart.

        Raises:
            ValueError: the shapes do not fit, or a new block has no slot. Nothing was changed.
        """
        tokens = placement.checked(tokens)
        num_blocks = len(tokens) // self.block_tokens
        placement.check_blocks(len(tokens), blocks, tail, tier, self.block_tokens)
        all_flags = placement.flags_of(num_blocks, flags)
        if tail == NOWHERE:
            tokens = tokens[: num_blocks * self.block_tokens]
        top = self._roots.get(root) or Node.top(self._next_id(), root, self.block_tokens)
        node, position = walk(top, tokens)
        is_new = position < len(tokens)
        first_new = position // self.block_tokens if is_new else num_blocks
        if np.count_nonzero(blocks[first_new:] == NOWHERE):
            raise ValueError("a block that the tree does not know yet needs a slot")
        self._now = max(now, self._now)
        if is_new and position < node.end:
            node.is_passed, node = True, self._split(node, position)
        held, adopted = self._adopt(node.path(), tier, blocks[:first_new], all_flags[:first_new], now)
        released = NOWHERE
        if is_new:
            self._roots[root] = top
            new = placement.new_slots(tier, blocks[first_new:])
            held, adopted = np.concatenate([held, new[tier]]), np.concatenate([adopted, new[tier]])
            share_s = cost_s * (len(tokens) - position) / len(tokens)
            node, released = self._append(node, tokens[position:], new, all_flags[first_new:], share_s, now)
        if takes_tail := tail != NOWHERE and placement.adopt_tail(node, tail, len(tokens), all_flags):
            adopted = np.append(adopted, np.int32(tail))
        if is_new or takes_tail:
            self._frontier.update(node)
        return Inserted(node, held, adopted, _slots(released))

    def victims(self, tier: Tier, num_blocks: int, policy: Eviction, now: float = 0.0) -> list[Victim]:
        """Choose `num_blocks` blocks, or all there are, that `tier` may give up; removes nothing.

        Unpinned leaves of the tier give their tail (one block) and then their blocks from the end backwards;
        a node that has none left opens its parent. Drop them in the order of the list. `now`: that of the last use if
        it is earlier. Cost: O(leaves).
        """
        return self._frontier.choose(tier, num_blocks, policy, max(now, self._now), self.rhythm)

    def drop(self, node: Node, tier: Tier, first: int, last: int) -> Dropped:
        """Forget the slots in `tier` of the node's blocks with index [first, last).

        A block that is then in no tier vanishes and takes along what cannot be reached without it: the
        node's blocks behind it in every tier, its tail, and all nodes below. A node left without tokens is
        removed. The result names every slot let go. A node that is not in the tree any more gives nothing.
        Cost: O(blocks), O(nodes below) where a block vanishes.

        Raises:
            PinError: a block of a pinned node would vanish. Nothing was changed.
            ValueError: the node has no such blocks.
        """
        removal = Removal()
        if node.state == "evicted" or first == last:
            return removal.result()
        if not 0 <= first < last <= node.num_blocks:
            raise ValueError(f"{node} has {node.num_blocks} blocks, not [{first}, {last})")
        is_elsewhere = (np.delete(node.slots[:, first:last], tier, axis=0) != NOWHERE).any(axis=0)
        if is_elsewhere.all():
            removal.take(node, tier, first, last)
            self._frontier.update(node)
            return self._count(removal)
        kept = first + int(is_elsewhere.argmin())
        if node.num_pins:
            raise PinError(f"block {kept} of {node} is pinned and in no other tier")
        removal.take(node, tier, first, kept)
        self._truncate(node, kept, removal)
        return self._count(removal)

    def drop_tail(self, node: Node) -> int:
        """Forget the node's tail and the tokens that were only in it. Returns the tail, or `NOWHERE`."""
        tail, node.tail = node.tail, NOWHERE
        if tail != NOWHERE:
            self.num_dropped[Tier.DEVICE] += 1
            self._frontier.update(node)
            self._settle(node)
        return tail

    def place(self, node: Node, tier: Tier, first: int, slots: Int32s, *, lossy: bool = False) -> Int32s:
        """Record copies in `tier` of the blocks from index `first` of the node on; returns the refused slots.

        `lossy` says that a copy on the device was decoded from a lossy codec. See `place_on_path`.
        """
        return self.place_on_path(node, tier, node.first_block + first, slots, lossy=lossy)

    def place_on_path(
        self, node: Node, tier: Tier, first: int, slots: Int32s, *, lossy: bool = False
    ) -> Int32s:
        """Record copies in `tier` of the path's blocks from number `first` on; `NOWHERE` leaves one out.

        Block numbers count from the root, so a split between the start and the end of a copy does not
        matter. A block that is in `tier` already keeps its slot, one that has left the tree gets none: those
        slots are refused and returned, for the caller to free.
        """
        refused = slots.copy()
        for above in node.path() if node.state != "evicted" else []:
            if placement.place(above, tier, first, refused, lossy=lossy):
                self._frontier.update(above)
        left: Int32s = refused[refused != NOWHERE]
        return left

    def remove_root(self, root: bytes) -> Dropped:
        """Forget a namespace whole. Raises PinError where something of it is pinned. Cost: O(its nodes)."""
        removal = Removal()
        top = self._roots.get(root)
        if top is None:
            return removal.result()
        if top.num_pins:
            raise PinError(f"the namespace of {top} has pinned nodes")
        for child in list(top.children.values()):
            self._bury(child, removal)
        self._settle(top)
        return self._count(removal)

    def describe(self, limit: int, root: bytes | None = None) -> list[dict[str, object]]:
        """At most `limit` nodes as rows for people, then the graveyard. See `inspection.describe`."""
        return inspection.describe(self._roots, self.graveyard, limit, root)

    def counts(self) -> dict[Tier, dict[str, int]]:
        """Blocks per tier and state. See `inspection.counts`. Cost: O(nodes)."""
        return inspection.counts(self.nodes())

    def check_integrity(self) -> None:
        """Raise IntegrityError, naming the fault, unless all rules of the tree hold. Cost: O(tokens)."""
        inspection.check(self._roots, self.block_tokens, {tier: self._frontier.leaves(tier) for tier in Tier})

    def _next_id(self) -> int:
        self._last_id += 1
        return self._last_id

    def _split(self, node: Node, position: int) -> Node:
        upper = node.split(position, self._next_id())
        # The parent has counted all that both halves hold; only the new node between them has not.
        node.holds = 0
        self._frontier.update(node)
        self._frontier.update(upper)
        return upper

    def _adopt(
        self, path: list[Node], tier: Tier, blocks: Int32s, flags: Flags, now: float
    ) -> tuple[Int32s, Int32s]:
        """Use a path at `now`: what it then has of its first blocks, and what it took of these."""
        held, adopted, changed = placement.adopt_on_path(path, tier, blocks, flags)
        for node in changed:
            self._frontier.update(node)
        for node in path:
            node.last_used_at = max(now, node.last_used_at)
        return held, adopted

    def _append(
        self, node: Node, tokens: Int32s, slots: Int32s, flags: Flags, cost_s: float, now: float
    ) -> tuple[Node, int]:
        """Continue `node` with new tokens: in itself, with its tail taken off, or in a new child."""
        if node.parent is None or node.children or node.is_anchor:
            node = node.add_child(self._next_id(), tokens, slots, flags.copy(), cost_s)
            self.rhythm.began(node, now)
            node.last_used_at = max(now, node.last_used_at)
            return node, NOWHERE
        tail, node.tail = node.tail, NOWHERE
        node.grow(tokens, slots, flags, cost_s)
        return node, tail

    def _truncate(self, node: Node, num_blocks: int, removal: Removal) -> None:
        """Keep only the node's first `num_blocks` blocks and nothing below."""
        end = (node.first_block + num_blocks) * self.block_tokens
        if end <= node.start:
            parent = node.parent
            self._bury(node, removal)
            if parent is not None:
                self._settle(parent)
            return
        for child in list(node.children.values()):
            self._bury(child, removal)
        removal.take_rest(node, num_blocks)
        node.cut(end)
        self._frontier.update(node)

    def _bury(self, node: Node, removal: Removal) -> None:
        """Take a node with all below it out of the tree."""
        parent = node.parent
        if parent is None:
            raise ValueError(f"{node} is a root: remove_root removes it")
        self._frontier.remove(node)
        del parent.children[node.first_token]
        for gone in node.subtree():
            self.rhythm.evicted(gone, self._now)
            removal.take_rest(gone, 0)
            gone.state = "evicted"
            above = gone.parent
            parent_id = above.id if above is not None and above.parent is not None else None
            grave = inspection.Grave(gone.root, gone.id, parent_id, gone.end - gone.start, self._now)
            self.graveyard.append(grave)

    def _settle(self, node: Node) -> None:
        """Forget tokens of unpinned leaves that no block holds, and a root with nothing below."""
        while node.is_leaf and not node.num_pins and node.tail == NOWHERE:
            parent = node.parent
            if parent is None:
                if self._roots.get(node.root) is node:
                    del self._roots[node.root]
                    node.state = "evicted"
                return
            if node.num_blocks:
                end = node.end // self.block_tokens * self.block_tokens
                if end < node.end:
                    node.cut(end)
                return
            self._bury(node, Removal())
            node = parent

    def _count(self, removal: Removal) -> Dropped:
        dropped = removal.result()
        for tier, slots in dropped.slots_by_tier.items():
            self.num_dropped[tier] += len(slots)
        self.num_evicted_blocks += dropped.num_blocks
        return dropped


def _slots(slot: int) -> Int32s:
    return np.array([] if slot == NOWHERE else [slot], np.int32)
