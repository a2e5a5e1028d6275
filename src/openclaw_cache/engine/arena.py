"""The device tier's memory: keys and values of every block, in one tensor."""

from __future__ import annotations

import math
import mmap
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from openclaw_cache.kv.codec import KvLayout


class Arena:
    """Blocks of K/V in the model's own dtype, one tensor [num_layers, 2, num_blocks, B, H, D] (2: keys, values).

    Blocks with consecutive numbers lie next to each other in every layer, so that a run of them is read as one
    view. A slot is the place of one token: block number × block_tokens + offset. It knows bytes only: who
    holds which block is the pool's affair. Different blocks may be read and written by different threads.

    Every slot begins as zeros. On the CPU the whole address range is reserved at once; the share
    `preallocation_ratio` of its pages is committed now, each other page when it is first written. Other
    devices commit all of it now.

    Raises:
        MemoryError: The range cannot be had (torch.OutOfMemoryError on other devices).
    """

    def __init__(
        self,
        layout: KvLayout,
        num_blocks: int,
        dtype: torch.dtype,
        device: torch.device | str,
        preallocation_ratio: float = 0.0,
    ) -> None:
        self.layout = layout
        self.num_blocks = num_blocks
        self.dtype = dtype
        self.device = torch.device(device)
        shape = (layout.num_layers, 2, num_blocks, layout.block_tokens, layout.num_kv_heads, layout.head_dim)
        self.num_bytes = math.prod(shape) * dtype.itemsize
        if self.device.type == "cpu":
            self._blocks = _mapped(self.num_bytes).view(dtype).view(shape)
            # The pool hands out low numbers first: commit those, in every layer.
            self._blocks[:, :, : int(num_blocks * preallocation_ratio)].zero_()
        else:
            self._blocks = torch.zeros(shape, dtype=dtype, device=self.device)
        self._slots: tuple[torch.Tensor, ...] = self._blocks.flatten(2, 3).unbind()

    def keys_values(self, layer: int) -> torch.Tensor:
        """All slots of a layer: a view [2, num_blocks × B, H, D]."""
        return self._slots[layer]

    def read_layer(self, blocks: NDArray[np.int32], layer: int) -> torch.Tensor:
        """One layer of some blocks [2, n, B, H, D]: a view where their numbers ascend by one, else a copy."""
        if (run := _as_run(blocks)) is not None:
            return self._blocks[layer, :, run]
        return self._blocks[layer].index_select(1, self._index(blocks))

    def write_layer(self, blocks: NDArray[np.int32], layer: int, kv: torch.Tensor) -> None:
        """Fill one layer of some blocks from [2, n, B, H, D], of any dtype and device."""
        if (run := _as_run(blocks)) is not None:
            self._blocks[layer, :, run].copy_(kv)
        else:
            values = kv.to(device=self.device, dtype=self.dtype)
            self._blocks[layer].index_copy_(1, self._index(blocks), values)

    def copy_tokens(self, source_block: int, target_block: int, num_tokens: int) -> None:
        """Copy the first tokens of a block into another, in all layers: the write half of copy-on-write."""
        self._blocks[:, :, target_block, :num_tokens] = self._blocks[:, :, source_block, :num_tokens]

    def _index(self, blocks: NDArray[np.int32]) -> torch.Tensor:
        return torch.tensor(blocks, dtype=torch.int64, device=self.device)


def _as_run(blocks: NDArray[np.int32]) -> slice | None:
    """The blocks as a slice if their numbers ascend by one."""
    first, num = int(blocks[0]) if len(blocks) else 0, len(blocks)
    if num > 1 and (int(blocks[-1]) - first != num - 1 or (blocks[1:] - blocks[:-1] != 1).any()):
        return None
    return slice(first, first + num)


def _mapped(num_bytes: int) -> torch.Tensor:
    """Anonymous zero pages: page-aligned, committed one by one by their first write, freed with the tensor."""
    try:
        pages = mmap.mmap(-1, num_bytes)
    except OSError as exc:
        raise MemoryError(f"cannot reserve {num_bytes:,} bytes for the KV arena: {exc}") from exc
    return torch.frombuffer(pages, dtype=torch.uint8)
