"""Copies blocks between the device's arena and the stores of the lower tiers, within a bounded buffer."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch

from openclaw_cache.kv.block import Tier
from openclaw_cache.kv.jobs import GivenUpError
from openclaw_cache.kv.tiers import CorruptBlockError, checksums

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray
    from torch import Tensor

    from openclaw_cache.kv.codec import Codec
    from openclaw_cache.kv.jobs import Load, Save
    from openclaw_cache.kv.tiers import TierStore


class DeviceArena(Protocol):
    """The device tier's blocks, as the threads that copy them see it.

    No block is read or written here while a running sequence writes it: the engine holds a reference for the
    job, and gives a block to a sequence only when the job is over.
    """

    def read_layer(self, blocks: NDArray[np.int32], layer: int) -> Tensor:
        """One layer of these blocks, [2, n, block_tokens, num_kv_heads, head_dim]; a view where that can be."""

    def write_layer(self, blocks: NDArray[np.int32], layer: int, kv: Tensor) -> None:
        """Put [2, n, block_tokens, num_kv_heads, head_dim], of any dtype and device, into one layer of blocks."""


class Copier:
    """The copying of one worker thread; it keeps its buffers between jobs.

    Args:
        arena: the device tier.
        codec: between its values and the stores' bytes.
        stores: the lower tiers.
        chunk_blocks: blocks that are copied at a time; bounds the buffers.
        on_progress: called after each piece.
    """

    def __init__(
        self,
        arena: DeviceArena,
        codec: Codec,
        stores: Mapping[Tier, TierStore],
        *,
        chunk_blocks: int,
        on_progress: Callable[[], None],
    ) -> None:
        self._arena = arena
        self._codec = codec
        self._stores = stores
        self._chunk_blocks = chunk_blocks
        self._on_progress = on_progress
        layout = codec.layout
        self._shape = (layout.block_tokens, layout.num_kv_heads, layout.head_dim)
        num_values = 2 * chunk_blocks * math.prod(self._shape)
        self._decoded = torch.empty(num_values, dtype=codec.exact_dtype)
        self._payload: Tensor | None = None

    def load(self, job: Load) -> int:
        """Bring the blocks into the arena, layer by layer.

        Returns how many leading blocks have all their layers in place. A corrupt block spoils the job at once,
        but the blocks before it are brought in whole.

        Raises:
            OSError, TierError: the store failed.
            GivenUpError: the job was cancelled.
        """
        store = self._stores[job.tier]
        limit = len(job.slots)
        for layer in range(self._codec.layout.num_layers):
            first = 0
            while first < limit:
                last = min(first + self._chunk_blocks, limit)
                try:
                    raw = store.read_layer(job.slots[first:last], layer)
                except CorruptBlockError as error:
                    limit = first + int(error.bad[0])
                    job.spoil(limit, error)
                    continue
                if job.is_cancelled:
                    raise GivenUpError
                self._arena.write_layer(job.blocks[first:last], layer, self._decode(raw))
                self._on_progress()
                first = last
            job.arrive(layer)
        return limit

    def save_chunk(self, job: Save) -> bool:
        """Bring the job's next chunk of blocks into its store. Returns whether that was the last one.

        Raises:
            OSError, TierError: a store failed.
            GivenUpError: the job was cancelled.
        """
        if job.is_cancelled:
            raise GivenUpError
        first = job.num_saved
        last = min(first + self._chunk_blocks, len(job.slots))
        payload, sums = self._collect(job, first, last)
        end = first + len(payload)
        if end > first:
            records = [
                replace(record, checksums=row)
                for record, row in zip(job.records[first:end], sums, strict=True)
            ]
            self._stores[job.tier].write(job.slots[first:end], records, payload)
            job.num_saved = end
        return end < last or end == len(job.slots)

    def seconds_per_byte(self, clock: Callable[[], float]) -> float:
        """How long this thread takes for a byte that is in memory: to verify and decode it. Cost: 5-10 ms."""
        width, num_layers = self._codec.layer_bytes, self._codec.layout.num_layers
        # Every layer of a chunk once, like a load: more than the processor's caches hold.
        payload = torch.ones((self._chunk_blocks, num_layers * width), dtype=torch.uint8)
        times = [clock()]
        for layer in range(num_layers):
            raw = payload[:, layer * width : (layer + 1) * width]
            checksums(raw)
            self._decode(raw)
            times.append(clock())
        return float(np.diff(times).min()) / (self._chunk_blocks * width)

    def _decode(self, raw: Tensor) -> Tensor:
        shape = (2, len(raw), *self._shape)
        out = self._decoded[: math.prod(shape)].view(shape)
        self._codec.decode_layer(raw, out)
        return out

    def _collect(self, job: Save, first: int, last: int) -> tuple[Tensor, NDArray[np.uint64]]:
        """Payloads and checksums (uint64 [n, num_layers]) of blocks first…last, up to the first corrupt one."""
        if self._payload is None:
            self._payload = torch.empty((self._chunk_blocks, self._codec.block_bytes), dtype=torch.uint8)
        width, num_layers = self._codec.layer_bytes, self._codec.layout.num_layers
        sums = np.empty((last - first, num_layers), np.uint64)
        layer = 0
        while layer < num_layers and last > first:
            column = self._payload[: last - first, layer * width : (layer + 1) * width]
            try:
                self._collect_layer(job, job.source_slots[first:last], layer, column)
            except CorruptBlockError as error:
                last = first + int(error.bad[0])
                job.bad, job.error = last, error
                continue
            sums[: last - first, layer] = checksums(column)
            self._on_progress()
            layer += 1
        return self._payload[: last - first], sums[: last - first]

    def _collect_layer(self, job: Save, slots: NDArray[np.int32], layer: int, out: Tensor) -> None:
        if job.source is Tier.DEVICE:
            self._codec.encode_layer(self._arena.read_layer(slots, layer), out)
        else:
            out.copy_(self._stores[job.source].read_layer(slots, layer))
