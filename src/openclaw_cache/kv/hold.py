"""What one running sequence holds of the KV cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from openclaw_cache.kv.block import Tier

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from openclaw_cache.kv.jobs import Load
    from openclaw_cache.kv.node import Int32s, Node


class Hold:
    """Device blocks of a sequence, in order, with what of them came from the cache.

    Made, changed and ended by `kv.cache` only. Every block in it is counted once for it in the pool.

    Attributes:
        salt: key of the namespace.
        node: the pinned end of what the tree has of it.
        num_cached: tokens that need no computing; fewer than at first if a transfer failed.
        tiers: int8, of each whole cached block the tier in which it lay.
        is_lossy: whether some of its KV went through a lossy codec, so that what is computed on it is a variant.
        is_volatile: whether its KV must stay in memory.
        num_committed: tokens that the tree knows of.
        num_new: whole blocks that the tree has since this hold put them there.
        num_saved: leading blocks that have been handed to the tiers below.
        num_uncounted: tokens whose look-up is not counted yet, as it is open what came of it.
        loads: transfers into its blocks that are not settled yet, each with the place of its first block.
        keys: (tier, slot) of what these loads read.
        spoiled: (tier, number) of blocks whose copies there turned out to be damaged, to be forgotten.
    """

    __slots__ = (
        "_table", "is_lossy", "is_volatile", "keys", "loads", "node", "num_blocks", "num_cached", "num_committed",
        "num_new", "num_saved", "num_uncounted", "salt", "spoiled", "tiers",
    )  # fmt: skip

    def __init__(self, salt: bytes, table: Int32s, node: Node, *, is_volatile: bool) -> None:
        self.salt = salt
        self.node = node
        self.is_volatile = is_volatile
        self.is_lossy = False
        self.num_cached = 0
        self.tiers: NDArray[np.int8] = np.empty(0, np.int8)
        self.num_committed = 0
        self.num_new = 0
        self.num_saved = 0
        self.num_uncounted = 0
        self.loads: list[tuple[int, Load]] = []
        self.keys: set[tuple[Tier, int]] = set()
        self.spoiled: list[tuple[Tier, int]] = []
        self._table = table
        self.num_blocks = len(table)

    @property
    def table(self) -> Int32s:
        """All its device blocks, int32; a view."""
        return self._table[: self.num_blocks]

    @property
    def is_loading(self) -> bool:
        """Whether blocks of it may still be on their way."""
        return bool(self.loads)

    @property
    def has_first_layer(self) -> bool:
        """Whether the first layer of all its blocks is there, so that computing may begin."""
        return all(load.wait_layer(0, 0.0) for _, load in self.loads)

    def wait_layer(self, layer: int, timeout_s: float) -> None:
        """Wait until a layer of all its blocks is there, or will not come; `PrefixCache.settle` tells which."""
        for _, load in self.loads:
            load.wait_layer(layer, timeout_s)

    def num_from(self, tier: Tier) -> int:
        """Cached whole blocks that lay in a tier."""
        return int(np.count_nonzero(self.tiers == tier))

    def shrink(self, num_blocks: int, block_tokens: int) -> None:
        """Only so many of its leading blocks are cached after all."""
        self.tiers = self.tiers[:num_blocks]
        self.num_cached = min(self.num_cached, num_blocks * block_tokens)
        self.num_saved = min(self.num_saved, num_blocks)

    def append(self, blocks: Int32s) -> None:
        """Add blocks at the end. Cost: amortised O(len(blocks))."""
        num = self.num_blocks + len(blocks)
        if num > len(self._table):
            grown = np.empty(max(num, 2 * len(self._table)), np.int32)
            grown[: self.num_blocks] = self.table
            self._table = grown
        self._table[self.num_blocks : num] = blocks
        self.num_blocks = num
