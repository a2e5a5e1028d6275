"""The longest cached prefix of a prompt."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from openclaw_cache.kv.block import NOWHERE, Tier
from openclaw_cache.kv.node import TOKEN_BYTES

if TYPE_CHECKING:
    from openclaw_cache.kv.node import Flags, Int32s, Node

# How many nodes below a match are asked for a block that shares its last, partial tokens.
_MAX_ASKED: Final = 64
# So few tokens are compared one by one where they differ; more are halved first.
_FEW_TOKENS: Final = 1024


class Match(NamedTuple):
    """What the tree has of a prompt. Right until something of the path is dropped; a pin prevents that.

    Attributes:
        num_tokens: how many leading tokens the tree knows, at most the limit that was asked for.
        node: the deepest node of which a token matched, or the root node.
    """

    root: bytes
    num_tokens: int
    node: Node

    @property
    def num_blocks(self) -> int:
        """Whole blocks among the matched tokens: what can be reused."""
        return self.num_tokens // self.node.block_tokens

    def slots(self) -> Int32s:
        """Where the matched blocks are: int32 [3, num_blocks], a row per `Tier`. Cost: O(blocks)."""
        return np.concatenate([node.slots for node in self.node.path()], axis=1)[:, : self.num_blocks]

    def flags(self) -> Flags:
        """`Flag` of the matched blocks: uint8 [num_blocks]. Cost: O(blocks)."""
        return np.concatenate([node.flags for node in self.node.path()])[: self.num_blocks]

    def partial_block(self) -> int:
        """A device block that begins with the matched tokens after the last whole block, or `NOWHERE`."""
        return self.partial()[0]

    def partial(self, tier: Tier = Tier.DEVICE) -> tuple[int, int]:
        """A slot in `tier` whose block begins with the tokens after the last whole block, and its `Flag`.

        (`NOWHERE`, 0) if the match ends with a whole block or the tier has no such block. Tails are on the device.
        Cost: O(1), or 64 nodes where the match ends in a branching.
        """
        index = self.num_blocks
        if self.num_tokens == index * self.node.block_tokens:
            return NOWHERE, 0
        below, num_asked = [self.node], 0
        while below and num_asked < _MAX_ASKED:
            node, num_asked = below.pop(), num_asked + 1
            at = index - node.first_block
            if at < node.num_blocks:
                block, flags = int(node.slots[tier, at]), int(node.flags[at])
            else:
                block, flags = (node.tail, node.tail_flags) if tier is Tier.DEVICE else (NOWHERE, 0)
                below.extend(islice(reversed(node.children.values()), _MAX_ASKED))
            if block != NOWHERE:
                return block, flags
        return NOWHERE, 0


def walk(top: Node, tokens: Int32s) -> tuple[Node, int]:
    """The deepest node below `top` that matches a token (else `top`), and how many tokens match.

    `tokens` are contiguous. Cost: one comparison of memory per node of the path.
    """
    view, node, position, num_tokens = tokens.data, top, 0, len(tokens)
    while position < num_tokens:
        child = node.children.get(view[position])
        if child is None:
            break
        node = child
        rest = view[position : node.end]
        # `startswith` compares the prompt's memory in place, and is right too where `rest` ends before the node.
        if not node.raw.startswith(rest):
            return node, position + _num_common(node.raw, rest)
        position += len(rest)
    return node, position


def _num_common(raw: bytearray, tokens: memoryview) -> int:
    """How many leading tokens are those of `raw`, which differs from them somewhere. Cost: O(that number)."""
    low, high = 0, len(tokens)
    while high - low > _FEW_TOKENS:
        middle = (low + high) // 2
        if raw.startswith(tokens[low:middle], low * TOKEN_BYTES):
            low = middle
        else:
            high = middle
    mine = np.frombuffer(raw, np.int32, high - low, low * TOKEN_BYTES)
    return low + int((mine != np.frombuffer(tokens[low:high], np.int32)).argmax())
