"""Tiers below the device: a store of encoded blocks in numbered slots, and the one in this process's memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
import torch

from openclaw_cache.errors import OpenClawCacheError
from openclaw_cache.kv.codec import checksum

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from torch import Tensor

    from openclaw_cache.kv.codec import Codec

MAX_SALT_BYTES: Final = 64

_TOUCHED_BYTES: Final = 64 << 20
_NO_CHECKSUMS: Final = np.empty(0, np.uint64)


class TierError(OpenClawCacheError):
    """A tier cannot do what was asked. What was to be read is a miss; no request fails for it."""


class CorruptBlockError(OpenClawCacheError):
    """Blocks whose bytes are not, or not all, the ones that were written. They are misses, and to be forgotten.

    Attributes:
        bad: their places in the slots that were asked for, rising.
    """

    def __init__(self, bad: NDArray[np.intp]) -> None:
        super().__init__(f"{len(bad)} of the blocks asked for are not what was written")
        self.bad = bad


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """What is known of a block beside its bytes: enough to hang it back into the tree after a restart.

    Attributes:
        name: the block's hash, 32 bytes.
        parent: the hash of the block before it or of its root, 32 bytes.
        salt: of its namespace, at most 64 bytes.
        index: its place on its path, 0 for the first.
        tokens: int32 [block_tokens].
        flags: uint8, as the tree keeps them.
        checksums: uint64 [num_layers], XXH3 of each layer's bytes; empty until the bytes are there.
    """

    name: bytes
    parent: bytes
    salt: bytes
    index: int
    tokens: NDArray[np.int32]
    flags: int = 0
    checksums: NDArray[np.uint64] = field(default_factory=lambda: _NO_CHECKSUMS)


class TierStore(Protocol):
    """Encoded blocks in numbered slots. Who is in which slot, and until when, is the caller's business.

    The calls block. They may come from several threads as long as no slot is written or forgotten while
    another call uses it.
    """

    @property
    def num_slots(self) -> int:
        """How many blocks fit."""

    @property
    def block_bytes(self) -> int:
        """Bytes of one block, all layers."""

    def write(self, slots: NDArray[np.int32], records: Sequence[Record], payload: Tensor) -> None:
        """Put blocks into slots, over what was there.

        Args:
            slots: int32 [n]; runs of rising neighbours are written in one go.
            records: n, with checksums.
            payload: contiguous uint8 [n, block_bytes].

        Raises:
            OSError, TierError: they could not be written; none of the slots holds anything now.
        """

    def read_layer(self, slots: NDArray[np.int32], layer: int) -> Tensor:
        """One layer's bytes, verified: uint8 [n, layer_bytes], whose rows may lie apart in memory.

        Raises:
            CorruptBlockError: some of the blocks are missing or damaged; the others may be asked for again.
            OSError, TierError: nothing can be said of any of them.
        """

    def forget(self, slots: NDArray[np.int32]) -> None:
        """Empty these slots, for this process and the next ones.

        Raises:
            OSError: this process has forgotten them, but a later one may find them again.
        """

    def close(self) -> None:
        """Give everything back. No call may follow."""


def checksums(raw: Tensor) -> NDArray[np.uint64]:
    """XXH3 of each row of uint8 [n, m] (rows contiguous) as uint64 [n]. Cost: O(n m), 7 GB/s and 0.5 µs a row."""
    return np.fromiter((checksum(row.data) for row in raw.numpy()), np.uint64, len(raw))


def runs(slots: NDArray[np.int32]) -> list[tuple[int, int, int]]:
    """Rising neighbours as (first place, place after the last, first slot). Cost: O(n)."""
    if not len(slots):
        return []
    starts = [0, *(np.flatnonzero(np.diff(slots) != 1) + 1).tolist()]
    return [
        (start, end, int(slots[start])) for start, end in zip(starts, [*starts[1:], len(slots)], strict=True)
    ]


class Ledger:
    """Which slots of a store hold a block, and the checksums that its bytes must have."""

    def __init__(self, num_slots: int, num_layers: int) -> None:
        self._checksums = np.zeros((num_slots, num_layers), np.uint64)
        self._is_held = np.zeros(num_slots, np.bool_)

    def enter(self, slot: int, record: Record) -> None:
        """A block is in this slot from now on."""
        self._checksums[slot] = record.checksums
        self._is_held[slot] = True

    def strike(self, slots: NDArray[np.int32]) -> None:
        """These slots hold nothing from now on."""
        self._is_held[slots] = False

    def verify(self, slots: NDArray[np.int32], layer: int, raw: Tensor) -> None:
        """Compare bytes just read (uint8 [n, layer_bytes]) with what the slots must hold.

        Raises:
            CorruptBlockError: a slot is empty or its bytes differ.
        """
        is_good = self._is_held[slots] & (checksums(raw) == self._checksums[slots, layer])
        if not is_good.all():
            raise CorruptBlockError(np.flatnonzero(~is_good))


class HostStore:
    """Blocks in one contiguous arena of this process's memory.

    Memory errors and stray writes are found as on disk: each read is verified.

    Args:
        num_slots: at least 1.
        codec: gives the sizes.
        preallocation_ratio: share of the arena whose pages are taken now (0-1); the system gives the others
            when they are first written, and may then have none left.
        pin_memory: page-locked for copies to and from a GPU; takes all pages now.

    Cost: 0.25 s per GB that is taken now.
    """

    def __init__(
        self, num_slots: int, codec: Codec, *, preallocation_ratio: float = 0.0, pin_memory: bool = False
    ) -> None:
        if num_slots < 1:
            raise ValueError(f"a store of {num_slots} slots holds nothing: leave the tier out")
        self._codec = codec
        self._arena = torch.empty((num_slots, codec.block_bytes), dtype=torch.uint8, pin_memory=pin_memory)
        self._ledger = Ledger(num_slots, codec.layout.num_layers)
        flat = self._arena.view(-1)
        for first in range(0, int(flat.numel() * preallocation_ratio), _TOUCHED_BYTES):
            flat[first : first + _TOUCHED_BYTES].zero_()

    @property
    def num_slots(self) -> int:
        """How many blocks fit."""
        return len(self._arena)

    @property
    def block_bytes(self) -> int:
        """Bytes of one block, all layers."""
        return self._codec.block_bytes

    def write(self, slots: NDArray[np.int32], records: Sequence[Record], payload: Tensor) -> None:
        """Copy blocks into slots. Cost: one memory copy of the payload."""
        for start, end, first in runs(slots):
            self._arena[first : first + end - start].copy_(payload[start:end])
        for slot, record in zip(slots.tolist(), records, strict=True):
            self._ledger.enter(slot, record)

    def read_layer(self, slots: NDArray[np.int32], layer: int) -> Tensor:
        """A view of the arena where the slots are neighbours, else a copy; verified as `TierStore` says."""
        width = self._codec.layer_bytes
        column = self._arena[:, layer * width : (layer + 1) * width]
        if len(found := runs(slots)) == 1:
            first = found[0][2]
            raw = column[first : first + len(slots)]
        else:
            raw = column.index_select(0, torch.from_numpy(slots))
        self._ledger.verify(slots, layer, raw)
        return raw

    def forget(self, slots: NDArray[np.int32]) -> None:
        """Empty these slots; their bytes stay until they are written over."""
        self._ledger.strike(slots)

    def close(self) -> None:
        """Let go of the arena; tensors that were read from it keep it alive."""
        self._arena = self._arena.new_empty((0, self._codec.block_bytes))
