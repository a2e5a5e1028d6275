"""One node of the radix tree."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntFlag
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from openclaw_cache.kv.block import NOWHERE, Tier

if TYPE_CHECKING:
    from collections.abc import Iterator

Int32s: TypeAlias = NDArray[np.int32]
Flags: TypeAlias = NDArray[np.uint8]
State: TypeAlias = Literal["new", "hit", "evicted"]

TOKEN_BYTES: Final = 4


class Flag(IntFlag):
    """What is special about a block."""

    VARIANT = 1
    """Computed on a prefix that was lossy, so its block hash is another one."""
    LOSSY = 2
    """Its device content is not what its name promises: it went through a lossy codec, or hangs on one."""
    VOLATILE = 4
    """Must not leave the process: neither to disk nor to other hosts."""


@dataclass(slots=True, eq=False)
class Node:
    """A run of tokens that no branch interrupts, with the blocks whose last token lies in it.

    The node covers tokens [start, end) of its path and owns blocks start // B to end // B - 1 of it. All
    it holds are its own copies, so memory follows the live tokens. A root has no tokens and no parent.

    Attributes:
        id: increasing number, unique in the tree; -1 for the root of a namespace that is not in the tree.
        raw: the tokens as the bytes of an int32 array, which a prompt's memory is compared with in one call, and
            which grow in place.
        slots: int32 [3, num_blocks], a row per `Tier`, `NOWHERE` where the tier has no copy.
        flags: uint8 [num_blocks] of `Flag`.
        tail: device block with the tokens after the last block boundary of a leaf, or `NOWHERE`.
        tail_flags: `Flag` of the tail.
        last_used_at: when the path was last inserted or hit; never later than its parent's.
        cost_s: seconds of prefill that the node's tokens cost.
        num_own_pins: pins set on this very node.
        num_pins: pins set on this node or below it.
        is_anchor: a leaf of this kind is not lengthened: it has been pinned as it is.
        queued: S3-FIFO: place in its queue; the queue's smallest goes first.
        is_main: S3-FIFO: whether it is in the main queue.
        num_spent_hits: S3-FIFO: how many of `num_hits` count no longer.
        gap_s: geometric running mean of the idle times before its calls. Kept by `kv.rhythm`, like the next three.
        last_gap_s: the idle time before the last call.
        num_calls: calls of the path, those before an eviction included as far as they are remembered.
        hint: `rhythm.Hint` since its last call.
        is_passed: whether the last call that came here went another way in its middle.
        holds: bits 1 << tier of the tiers in which this node or one below holds blocks (a tail counts).
        num_holding: per tier, the children whose `holds` has it. Kept by `kv.frontier`.
    """

    id: int
    block_tokens: int
    root: bytes
    parent: Node | None
    start: int
    raw: bytearray
    slots: Int32s
    flags: Flags
    tail: int = NOWHERE
    tail_flags: int = 0
    last_used_at: float = 0.0
    num_hits: int = 0
    cost_s: float = 0.0
    num_own_pins: int = 0
    num_pins: int = 0
    state: State = "new"
    queued: int = 0
    is_anchor: bool = False
    is_main: bool = False
    num_spent_hits: int = 0
    gap_s: float = 0.0
    last_gap_s: float = 0.0
    num_calls: int = 0
    hint: int = 0
    is_passed: bool = False
    holds: int = 0
    num_holding: list[int] = field(default_factory=lambda: [0, 0, 0])
    children: dict[int, Node] = field(default_factory=dict)
    end: int = field(init=False)

    def __post_init__(self) -> None:
        self.queued = self.queued or self.id
        self.end = self.start + len(self.raw) // TOKEN_BYTES

    @classmethod
    def top(cls, id_: int, root: bytes, block_tokens: int) -> Node:
        """The node above all of a namespace: no tokens, no blocks."""
        slots = np.empty((len(Tier), 0), np.int32)
        return cls(id_, block_tokens, root, None, 0, bytearray(), slots, np.empty(0, np.uint8))

    def add_child(self, id_: int, tokens: Int32s, slots: Int32s, flags: Flags, cost_s: float) -> Node:
        """Hang a node below this one. `slots` and `flags` become its own."""
        raw = bytearray(tokens.data)
        child = Node(id_, self.block_tokens, self.root, self, self.end, raw, slots, flags, cost_s=cost_s)
        self.children[tokens.item(0)] = child
        return child

    def __repr__(self) -> str:
        return f"Node({self.id}, [{self.start}, {self.end}), {self.state}, pins={self.num_pins})"

    @property
    def tokens(self) -> Int32s:
        """The node's tokens, read-only. Cost: O(1); O(tokens) for the next `grow` while somebody has them."""
        return np.frombuffer(memoryview(self.raw).toreadonly(), np.int32)

    @property
    def first_token(self) -> int:
        """By which the parent knows the node. A root has none."""
        return int(np.frombuffer(self.raw, np.int32, 1)[0])

    @property
    def num_blocks(self) -> int:
        """How many blocks end in this node."""
        return len(self.flags)

    @property
    def first_block(self) -> int:
        """Number, on the path, of the node's first block."""
        return self.start // self.block_tokens

    @property
    def is_leaf(self) -> bool:
        """Whether no node hangs below it."""
        return not self.children

    def path(self) -> list[Node]:
        """The nodes from the root to this one, both included."""
        found, node = [self], self.parent
        while node is not None:
            found.append(node)
            node = node.parent
        return found[::-1]

    def path_tokens(self) -> Int32s:
        """All tokens from the root to this node's end, a copy. Cost: O(tokens)."""
        return np.concatenate([node.tokens for node in self.path()])

    def subtree(self) -> Iterator[Node]:
        """This node and all below it, parents first. Not while the tree changes."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(reversed(node.children.values()))

    def num_held(self, tier: Tier) -> int:
        """How many blocks the node holds in `tier`, its tail included."""
        num = int(np.count_nonzero(self.slots[tier] != NOWHERE))
        return num + (tier is Tier.DEVICE and self.tail != NOWHERE)

    def cut(self, end: int) -> None:
        """Forget tokens and blocks from position `end` on; the cost shrinks in proportion."""
        num_blocks = end // self.block_tokens - self.first_block
        self.cost_s *= (end - self.start) / (self.end - self.start)
        self.raw = self.raw[: (end - self.start) * TOKEN_BYTES]
        self.slots = self.slots[:, :num_blocks].copy()
        self.flags = self.flags[:num_blocks].copy()
        self.end = end

    def grow(self, tokens: Int32s, slots: Int32s, flags: Flags, cost_s: float) -> None:
        """Append tokens and the blocks that end in them. Cost: O(new tokens), O(blocks of the node)."""
        try:
            self.raw += tokens.data
        except BufferError:  # memory that is being read cannot move
            self.raw = self.raw + tokens.data
        self.slots = np.concatenate([self.slots, slots], axis=1)
        self.flags = np.concatenate([self.flags, flags])
        self.cost_s += cost_s
        self.end += len(tokens)

    def split(self, position: int, id_: int) -> Node:
        """Give the tokens before `position` to a new node between this one and its parent; return it.

        This object stays the lower half, so that pins and jobs which hold it keep their whole path. Each
        half copies its part of the arrays.
        """
        parent = self.parent
        upper = Node(id_, self.block_tokens, self.root, parent, self.start, self.raw, self.slots, self.flags)
        upper.last_used_at, upper.num_hits, upper.state = self.last_used_at, self.num_hits, self.state
        upper.queued, upper.is_main, upper.num_spent_hits = self.queued, self.is_main, self.num_spent_hits
        upper.gap_s, upper.num_calls, upper.hint = self.gap_s, self.num_calls, self.hint
        upper.last_gap_s = self.last_gap_s
        upper.cost_s, upper.num_pins, upper.holds = self.cost_s, self.num_pins, self.holds
        upper.cut(position)
        if parent is not None:
            parent.children[self.first_token] = upper
        self.raw = self.raw[(position - self.start) * TOKEN_BYTES :]
        self.slots = self.slots[:, upper.num_blocks :].copy()
        self.flags = self.flags[upper.num_blocks :].copy()
        self.cost_s -= upper.cost_s
        self.parent, self.start = upper, position
        upper.children[self.first_token] = self
        return upper
