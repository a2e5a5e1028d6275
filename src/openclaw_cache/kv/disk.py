"""The disk tier: blocks in fixed slots of a file, found again after a restart, a crash or a power loss.

A folder holds the blocks of one model, codec and layout, and belongs to one process at a time:

- `header`  what the blocks are (`codec.pack_header`); a folder with another header is emptied,
- `index`   slot i's record at i * record_bytes (`disk_record`),
- `data`    slot i's payload at i * block_bytes; sparse,
- `lock`    held while a process uses the folder; its content is that process's number, its time the last use.

There is no log and nothing to compact: the caller chooses the slots. Payloads are written before their records
and nothing is flushed until `close`, because this is a cache: what a crash or power loss tears (half a payload,
half a record, a record whose payload never came) fails its checksum and is a miss. Reads and writes go through
the page cache.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import numpy as np
import torch

from openclaw_cache.kv.codec import pack_header
from openclaw_cache.kv.disk_folder import folder_name, lock_folder, prune
from openclaw_cache.kv.disk_record import RecordFormat
from openclaw_cache.kv.hole import punch
from openclaw_cache.kv.tiers import CorruptBlockError, Ledger, Record, TierError, runs

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray
    from torch import Tensor

    from openclaw_cache.kv.codec import Codec
    from openclaw_cache.kv.hashing import ModelIdentity

_SCAN_BYTES: Final = 4 << 20
_GROWTH_SHARE: Final = 16
"""The folders beside this one are looked at again each time it has grown by this part of the bound."""


class DiskStore:
    """Blocks in the files of one folder. `open` makes it, `recover` tells what an earlier process left there."""

    def __init__(self, folder: Path, codec: Codec, max_bytes: int, lock: int, index: int, data: int) -> None:
        self.folder: Final = folder
        """Where the files are."""
        self._codec = codec
        self._records = RecordFormat(codec.layout)
        self._max_bytes = max_bytes
        self._num_slots = max_bytes // (codec.block_bytes + self._records.record_bytes)
        if self._num_slots < 1:
            raise TierError(f"{max_bytes} bytes on disk are less than one block of {codec.block_bytes} bytes")
        self._lock, self._index, self._data = lock, index, data
        self._ledger = Ledger(self._num_slots, codec.layout.num_layers)
        self._data_bytes = os.fstat(data).st_size
        self._next_prune_bytes = self._data_bytes

    @classmethod
    def open(cls, parent: Path, codec: Codec, identity: ModelIdentity, max_bytes: int) -> DiskStore:
        """Take the folder of this model and codec under `parent`, made if need be (folders 0700, files 0600).

        `max_bytes` bounds it and, as far as no other process holds them, all folders under `parent` together:
        the ones whose last use is longest ago are removed. A folder that had another bound keeps its blocks in
        the slots that there still are.

        Raises:
            TierError: another process holds the folder, or `max_bytes` is less than one block.
            OSError: it cannot be made, read or written.
        """
        header = pack_header(identity, codec)
        parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = parent / folder_name(header)
        opened = [lock_folder(folder)]
        try:
            if _read(folder / "header") != header:
                for name in ("index", "data"):
                    (folder / name).unlink(missing_ok=True)
                _write_durably(folder / "header", header)
            opened += [os.open(folder / name, os.O_RDWR | os.O_CREAT, 0o600) for name in ("index", "data")]
            store = cls(folder, codec, max_bytes, *opened)
            store._cut()
        except BaseException:
            for fd in opened:
                os.close(fd)
            raise
        store._prune_if_grown()
        return store

    @property
    def num_slots(self) -> int:
        """How many blocks fit."""
        return self._num_slots

    @property
    def block_bytes(self) -> int:
        """Bytes of one block, all layers."""
        return self._codec.block_bytes

    def recover(self) -> list[tuple[int, Record]]:
        """All blocks whose records are sound, with their slots; parents stand before children.

        Their payloads are not read: damage there shows when they are loaded. A block whose parent is not among
        them cannot be reached, and is to be forgotten. Call it before the first write.

        Cost: reads the index in sequence, 7 µs per block (0.4 s for 20 GB of SmolLM2 blocks).

        Raises:
            OSError: the index cannot be read.
        """
        found: list[tuple[int, Record]] = []
        num_whole = min(self._num_slots, self._data_bytes // self.block_bytes)
        step = max(1, _SCAN_BYTES // self._records.record_bytes)
        for first in range(0, num_whole, step):
            num_rows = min(step, num_whole - first)
            raw = os.pread(self._index, num_rows * self._records.record_bytes, self._record_at(first))
            found.extend(self._records.unpack(raw, first))
        for slot, record in found:
            self._ledger.enter(slot, record)
        found.sort(key=lambda pair: pair[1].index)
        return found

    def write(self, slots: NDArray[np.int32], records: Sequence[Record], payload: Tensor) -> None:
        """Write payloads, then records: one call each per run of neighbours. See `TierStore`.

        Cost: a copy into the page cache, 1-2 GB/s, until the disk itself sets the pace.
        """
        self._ledger.strike(slots)
        if not os.fstat(self._index).st_nlink:
            raise TierError(f"{self.folder} was deleted: nothing in it would outlive this process")
        packed = memoryview(self._records.pack(slots, records, time.time()))
        payloads = payload.numpy().reshape(-1).data
        try:
            for part, fd, size in (
                (payloads, self._data, self.block_bytes),
                (packed, self._index, self._records.record_bytes),
            ):
                for start, end, first in runs(slots):
                    _write_all(fd, part[start * size : end * size], first * size)
        except OSError:
            with suppress(OSError):  # what stays of an older record fails its checksum
                self._clear(slots)
            raise
        for slot, record in zip(slots.tolist(), records, strict=True):
            self._ledger.enter(slot, record)
        self._data_bytes = max(self._data_bytes, (int(slots.max()) + 1) * self.block_bytes)
        self._prune_if_grown()

    def read_layer(self, slots: NDArray[np.int32], layer: int) -> Tensor:
        """A fresh tensor, verified; see `TierStore`. Reading layer 0 has the system read the others ahead.

        Cost: one read per block, 10 µs for 12 kB in the page cache.
        """
        width = self._codec.layer_bytes
        if layer == 0:
            for start, end, first in runs(slots):
                span = (end - start) * self.block_bytes
                os.posix_fadvise(self._data, first * self.block_bytes, span, os.POSIX_FADV_WILLNEED)
        raw = torch.empty((len(slots), width), dtype=torch.uint8)
        buffer = raw.numpy().reshape(-1).data
        is_cut = np.zeros(len(slots), np.bool_)
        for place, slot in enumerate(slots.tolist()):
            row = buffer[place * width : (place + 1) * width]
            is_cut[place] = os.preadv(self._data, [row], slot * self.block_bytes + layer * width) != width
        if is_cut.any():  # the rest of the row is what was in memory before: perhaps even the right bytes
            raise CorruptBlockError(np.flatnonzero(is_cut))
        self._ledger.verify(slots, layer, raw)
        return raw

    def forget(self, slots: NDArray[np.int32]) -> None:
        """Clear the records and the payloads, whose place on the disk is given back."""
        self._ledger.strike(slots)
        self._clear(slots)
        for start, end, first in runs(slots[slots < self._data_bytes // self.block_bytes]):
            punch(self._data, first * self.block_bytes, (end - start) * self.block_bytes)

    def close(self) -> None:
        """Flush everything to the disk and let the folder go.

        Raises:
            OSError: the flush failed; the folder is let go all the same.
        """
        try:
            os.utime(self._lock)
            os.fsync(self._data)
            os.fsync(self._index)
        finally:
            for fd in (self._data, self._index, self._lock):
                os.close(fd)

    def _record_at(self, slot: int) -> int:
        return slot * self._records.record_bytes

    def _clear(self, slots: NDArray[np.int32]) -> None:
        """Zero the records of these slots, as far as the index reaches."""
        written = min(self._num_slots, os.fstat(self._index).st_size // self._records.record_bytes)
        for start, end, first in runs(slots[slots < written]):
            zeros = bytes((end - start) * self._records.record_bytes)
            _write_all(self._index, memoryview(zeros), self._record_at(first))

    def _cut(self) -> None:
        """Give up what an earlier, larger bound left behind the last slot."""
        for fd, size in ((self._index, self._records.record_bytes), (self._data, self.block_bytes)):
            if os.fstat(fd).st_size > self._num_slots * size:
                os.ftruncate(fd, self._num_slots * size)
        self._data_bytes = os.fstat(self._data).st_size

    def _prune_if_grown(self) -> None:
        if self._data_bytes < self._next_prune_bytes:
            return
        self._next_prune_bytes = self._data_bytes + self._max_bytes // _GROWTH_SHARE
        with suppress(OSError):  # the blocks are written; a neighbour that cannot go now is tried again later
            prune(self.folder.parent, self._max_bytes, keep=self.folder)


def _read(path: Path) -> bytes:
    """The file's content, empty where there is none."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def _write_durably(path: Path, content: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        _write_all(fd, memoryview(content), 0)
        os.fsync(fd)
    finally:
        os.close(fd)


def _write_all(fd: int, content: memoryview, offset: int) -> None:
    """Write it whole: a full disk shows in the call after the short one.

    Raises:
        OSError: not all of it could be written.
    """
    while content:
        num_written = os.pwrite(fd, content, offset)
        content, offset = content[num_written:], offset + num_written
