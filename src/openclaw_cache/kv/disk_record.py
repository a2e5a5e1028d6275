"""The index of the disk tier: one record of fixed size per slot, each with its own checksum. Pure: bytes only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from openclaw_cache.kv.codec import checksum
from openclaw_cache.kv.tiers import MAX_SALT_BYTES, Record

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from openclaw_cache.kv.codec import KvLayout

_MAGIC: Final = 0x524B434F  # "OCKR"; an empty slot is all zeros
_HASH_BYTES: Final = 32
_KEPT_FLAGS: Final = 1
"""Only the variant is a property of the bytes; the tree's other flags speak of this process's copy."""


class RecordFormat:
    """How records of blocks of one layout stand in a file (little-endian, 464 bytes for 30 layers and 16 tokens).

    A record names its slot, so that one which strayed into another's place is not believed, and carries the
    checksums of its payload, so that it can never be read together with another block's bytes.
    """

    def __init__(self, layout: KvLayout) -> None:
        self._dtype = np.dtype([
            ("checksum", "<u8"),
            ("magic", "<u4"),
            ("slot", "<u4"),
            ("index", "<u4"),
            ("flags", "u1"),
            ("salt_bytes", "u1"),
            ("spare", "<u2"),
            ("written_at", "<f8"),
            ("name", "u1", (_HASH_BYTES,)),
            ("parent", "u1", (_HASH_BYTES,)),
            ("salt", "u1", (MAX_SALT_BYTES,)),
            ("tokens", "<i4", (layout.block_tokens,)),
            ("payload", "<u8", (layout.num_layers,)),
        ])  # fmt: skip

    @property
    def record_bytes(self) -> int:
        """Bytes of one record."""
        return self._dtype.itemsize

    def pack(self, slots: NDArray[np.int32], records: Sequence[Record], written_at: float) -> bytes:
        """Records in the order given, one after the other. Cost: 10 µs each.

        Raises:
            ValueError: a field does not fit its place.
        """
        rows = np.zeros(len(records), self._dtype)
        rows["magic"], rows["slot"], rows["written_at"] = _MAGIC, slots, written_at
        for row, record in zip(rows, records, strict=True):
            if len(record.salt) > MAX_SALT_BYTES:
                raise ValueError(f"a salt has at most {MAX_SALT_BYTES} bytes, not {len(record.salt)}")
            row["index"], row["flags"] = record.index, record.flags & _KEPT_FLAGS
            row["salt_bytes"] = len(record.salt)
            row["salt"][: len(record.salt)] = np.frombuffer(record.salt, np.uint8)
            row["name"] = np.frombuffer(record.name, np.uint8)
            row["parent"] = np.frombuffer(record.parent, np.uint8)
            row["tokens"], row["payload"] = record.tokens, record.checksums
        rows["checksum"] = [_checksum_of(row) for row in _bytes_of(rows)]
        return rows.tobytes()

    def unpack(self, raw: bytes, first_slot: int) -> Iterator[tuple[int, Record]]:
        """The whole and undamaged records of a run of slots with their slots; others are passed over.

        Cost: 6 µs per record, 0.05 µs per empty slot.
        """
        num_rows = len(raw) // self.record_bytes
        rows = np.frombuffer(raw, self._dtype, num_rows)
        slots = np.arange(first_slot, first_slot + num_rows)
        plain = _bytes_of(rows)
        for place in np.flatnonzero((rows["magic"] == _MAGIC) & (rows["slot"] == slots)).tolist():
            row = rows[place]
            if _checksum_of(plain[place]) == row["checksum"]:
                yield first_slot + place, _record(row)


def _bytes_of(rows: NDArray[np.void]) -> NDArray[np.uint8]:
    return rows.view(np.uint8).reshape(len(rows), rows.itemsize)


def _checksum_of(row: NDArray[np.uint8]) -> int:
    return checksum(row[8:].data)


def _record(row: np.void) -> Record:
    return Record(
        name=row["name"].tobytes(),
        parent=row["parent"].tobytes(),
        salt=row["salt"].tobytes()[: row["salt_bytes"]],
        index=int(row["index"]),
        tokens=row["tokens"].astype(np.int32),
        flags=int(row["flags"]),
        checksums=row["payload"].astype(np.uint64),
    )
