"""Which of a node's blocks take which of a caller's slots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from openclaw_cache.kv.block import NOWHERE, Tier
from openclaw_cache.kv.node import Flag

if TYPE_CHECKING:
    from openclaw_cache.kv.node import Flags, Int32s, Node

_VARIANT: Final = int(Flag.VARIANT)
_LOSSY: Final = int(Flag.LOSSY)
_VOLATILE: Final = int(Flag.VOLATILE)
_ALL: Final = 0xFF
_INT32: Final = np.dtype(np.int32)
_NUM_TIERS: Final = len(Tier)


@dataclass(frozen=True, slots=True)
class Inserted:
    """What an insertion did.

    Attributes:
        node: the deepest node of the path.
        blocks: the tree's own slots for the whole path, `NOWHERE` where the tier has none.
        adopted: slots of the caller that the tree now holds, the tail included: add a reference to each.
        released: device blocks that the tree held and holds no more: drop the tree's reference to each.
    """

    node: Node
    blocks: Int32s
    adopted: Int32s
    released: Int32s


def adopt(node: Node, tier: Tier, blocks: Int32s, flags: Flags) -> Int32s:
    """Give the node those of a path's slots that it lacks in `tier`; returns them.

    A device block becomes LOSSY if the caller's is, or if the caller's is a VARIANT of a block that is none:
    its content is then not what its name promises. VARIANT never changes, as the block's copies elsewhere are
    named by it; VOLATILE goes where the caller's block is not.

    Args:
        node: all of its tokens that `blocks` cover match.
        tier: where `blocks` are.
        blocks: int32 [n], slots of the first n blocks of the path, `NOWHERE` where there is none.
        flags: uint8 [n] of `Flag`.
    """
    mine, theirs = _overlap(node, 0, len(blocks))
    given, offered = flags[theirs], blocks[theirs]
    slots, held = node.slots[tier, mine], node.flags[mine]
    if held.any():
        held &= given | (_ALL - _VOLATILE)
    is_new = (slots == NOWHERE) & (offered != NOWHERE)
    if not is_new.any():
        return offered[:0]
    slots[is_new] = offered[is_new]
    if tier is Tier.DEVICE:
        is_lossy = (given & (_LOSSY | (~held & _VARIANT))) != 0
        held[is_new] &= _ALL - _LOSSY
        held[is_new & is_lossy] |= _LOSSY
    adopted: Int32s = offered[is_new]
    return adopted


def adopt_on_path(
    path: list[Node], tier: Tier, blocks: Int32s, flags: Flags
) -> tuple[Int32s, Int32s, list[Node]]:
    """`adopt` on a path whose first blocks these are.

    Returns:
        What the path then has in `tier` of these blocks, what it took, and the nodes that took some.

    Cost: O(blocks). Where nothing is to be taken, which is the rule, the nodes are not looked at one by one.
    """
    held: Int32s = np.concatenate([node.slots[tier] for node in path])[: len(blocks)]
    marks = np.concatenate([node.flags for node in path])
    if not np.count_nonzero(marks) and not np.count_nonzero(held == NOWHERE):
        return held, blocks[:0], []
    taken = [adopt(node, tier, blocks, flags) for node in path]
    held = np.concatenate([node.slots[tier] for node in path])[: len(blocks)]
    return held, np.concatenate(taken), [node for node, some in zip(path, taken, strict=True) if len(some)]


def adopt_tail(node: Node, tail: int, end: int, flags: Flags) -> bool:
    """Give a leaf that ends at `end` and has no tail this one; returns whether it took it.

    `flags` are those of the blocks before: a tail computed on a prefix that is not exact is a VARIANT.
    """
    if node.children or node.end != end or node.tail != NOWHERE:
        return False
    is_exact = not (flags & (_VARIANT | _LOSSY)).any()
    node.tail, node.tail_flags = tail, 0 if is_exact else _VARIANT
    return True


def place(node: Node, tier: Tier, first: int, slots: Int32s, *, lossy: bool) -> bool:
    """Give the node those of `slots` that it lacks in `tier`; returns whether it took any.

    Args:
        node: may own any part of the blocks, or none.
        tier: where `slots` are.
        first: number of the first of the blocks, counted from the root.
        slots: int32 [n]; what the node took is set to `NOWHERE`.
        lossy: whether a copy on the device was decoded from a lossy codec.
    """
    mine, theirs = _overlap(node, first, len(slots))
    held, offered = node.slots[tier, mine], slots[theirs]
    is_new = (held == NOWHERE) & (offered != NOWHERE)
    held[is_new] = offered[is_new]
    offered[is_new] = NOWHERE
    if tier is Tier.DEVICE:
        flags = node.flags[mine]
        flags[is_new] &= _ALL - _LOSSY
        flags[is_new] |= _LOSSY if lossy else 0
    return bool(is_new.any())


def new_slots(tier: Tier, blocks: Int32s) -> Int32s:
    """Slots of blocks that are in one tier only: int32 [3, n]."""
    slots = np.empty((_NUM_TIERS, len(blocks)), np.int32)
    slots.fill(NOWHERE)
    slots[tier] = blocks
    return slots


def forget(node: Node, tier: Tier, first: int, last: int) -> Int32s:
    """Clear the slots in `tier` of the node's blocks with index [first, last); returns those it held."""
    held = node.slots[tier, first:last]
    slots: Int32s = held[held != NOWHERE]
    held[:] = NOWHERE
    if tier is Tier.DEVICE:
        node.flags[first:last] &= _ALL - _LOSSY
    return slots


def _overlap(node: Node, first: int, num_blocks: int) -> tuple[slice, slice]:
    """The node's blocks among the path's blocks [first, first + num_blocks): as indices in each of both."""
    low = max(first, node.first_block)
    high = max(low, min(first + num_blocks, node.first_block + node.num_blocks))
    return slice(low - node.first_block, high - node.first_block), slice(low - first, high - first)


def checked(tokens: Int32s) -> Int32s:
    """These tokens, contiguous. Raises ValueError unless they are int32 [n]."""
    # Another dtype would be cast without a word, and a wrong id is a wrong answer.
    if tokens.dtype != _INT32 or tokens.ndim != 1:
        raise ValueError(f"tokens are int32 [n], not {tokens.dtype} {list(tokens.shape)}")
    return tokens if tokens.flags.c_contiguous else tokens.copy()


def check_blocks(num_tokens: int, blocks: Int32s, tail: int, tier: Tier, block_tokens: int) -> None:
    """Raise ValueError unless `num_tokens` tokens can have these blocks and this tail."""
    num_blocks, num_left = divmod(num_tokens, block_tokens)
    if len(blocks) != num_blocks:
        raise ValueError(f"{num_tokens} tokens have {num_blocks} blocks, not {len(blocks)}")
    if tail != NOWHERE and (not num_left or tier is not Tier.DEVICE):
        raise ValueError("a tail is on the device and holds tokens after the last block boundary")


def flags_of(num_blocks: int, flags: Flags | int) -> Flags:
    """The flags of each block, given for each or one for all. Raises ValueError where their number is another."""
    if not isinstance(flags, np.ndarray):
        return np.full(num_blocks, flags, np.uint8) if flags else np.zeros(num_blocks, np.uint8)
    if flags.shape != (num_blocks,):
        raise ValueError(f"{num_blocks} blocks cannot have {list(flags.shape)} flags")
    return flags.astype(np.uint8, copy=False)
