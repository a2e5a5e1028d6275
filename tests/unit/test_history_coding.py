"""Rollups as bytes: whole, ours and in their place, or refused."""

from __future__ import annotations

import zlib

import msgspec
import pytest

from openclaw_cache.errors import CorruptEntryError
from openclaw_cache.history.coding import Codec
from openclaw_cache.history.rollup import Rollup
from openclaw_cache.result.encryption import ENCRYPTED_MAGIC, EntryCipher
from support.records import answered, missed

SECRET, KEY = b"s" * 32, bytes(range(32))
PLACE = b"h:m:0000000000000000:60"


def rollup() -> Rollup:
    found = Rollup(60, 60)
    found.add(missed())
    found.add(answered())
    found.nodes.add("0" * 16)
    return found


def test_what_was_written_is_read_again() -> None:
    codec = Codec(SECRET)
    assert codec.decode(PLACE, codec.encode(PLACE, rollup())) == rollup()


@pytest.mark.parametrize("at", [0, 3, 4, 19, 20, -1])
def test_any_changed_byte_is_noticed(at: int) -> None:
    codec = Codec(SECRET)
    stored = bytearray(codec.encode(PLACE, rollup()))
    stored[at] ^= 1
    with pytest.raises(CorruptEntryError):
        codec.decode(PLACE, bytes(stored))


@pytest.mark.parametrize("stored", [b"", b"och\x01", b"och\x01" + bytes(16), b"x" * 200])
def test_other_bytes_are_refused(stored: bytes) -> None:
    with pytest.raises(CorruptEntryError):
        Codec(SECRET).decode(PLACE, stored)


def test_sums_of_another_place_or_fleet_are_refused() -> None:
    stored = Codec(SECRET).encode(PLACE, rollup())
    with pytest.raises(CorruptEntryError):
        Codec(SECRET).decode(PLACE + b"0", stored)
    with pytest.raises(CorruptEntryError):
        Codec(b"t" * 32).decode(PLACE, stored)


def test_another_format_under_our_own_checksum_is_refused_not_raised() -> None:
    codec = Codec(SECRET)
    for plain in (b"", msgspec.msgpack.encode({"start_at": 1}), b"\xc1"):
        with pytest.raises(CorruptEntryError):
            codec.decode(PLACE, codec.pack(PLACE, plain))


def test_a_small_stored_form_does_not_unpack_to_a_huge_one() -> None:
    codec = Codec(SECRET)
    bomb = codec.pack(PLACE, bytes(100 << 20))
    assert len(bomb) < 1 << 20
    assert len(codec.unpack(PLACE, bomb)) == 16 << 20
    assert zlib.crc32(bomb)  # and it was made without a fault


def test_encrypted_history_shows_nothing_and_needs_its_key() -> None:
    sealed = Codec(SECRET, EntryCipher({"a": KEY})).encode(PLACE, rollup())
    assert sealed.startswith(ENCRYPTED_MAGIC)
    assert b"heron" not in sealed
    assert Codec(SECRET, EntryCipher({"b": bytes(reversed(KEY)), "a": KEY})).decode(PLACE, sealed) == rollup()
    for codec in (Codec(SECRET), Codec(SECRET, EntryCipher({"b": KEY}))):
        with pytest.raises(CorruptEntryError):
            codec.decode(PLACE, sealed)


def test_what_was_written_before_encryption_was_switched_on_is_still_read() -> None:
    plain = Codec(SECRET).encode(PLACE, rollup())
    assert Codec(SECRET, EntryCipher({"a": KEY})).decode(PLACE, plain) == rollup()
