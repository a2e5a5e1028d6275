"""The form of a stored entry."""

from __future__ import annotations

import msgspec
import pytest

from openclaw_cache.errors import CorruptEntryError
from openclaw_cache.result.entry import EntryCodec, packed, prompt_text
from openclaw_cache.types import Entry, Namespace

CODEC = EntryCodec(b"s" * 32)
ENTRY = Entry(
    reply=b'{"id":"chatcmpl-1","choices":[]}',
    model="smollm2-135m",
    upstream="local",
    namespace=Namespace("team"),
    created_at=1_760_000_000.25,
    expires_at=1_760_086_400.25,
    prompt_tokens=12,
    completion_tokens=None,
    has_usage=True,
    prompt="什么是缓存？",
)


def test_an_entry_comes_back_as_it_was_stored() -> None:
    assert CODEC.decode(b"r:1", CODEC.encode(b"r:1", ENTRY)) == ENTRY


def test_a_long_prompt_is_compressed_and_a_short_one_is_not() -> None:
    long = msgspec.structs.replace(ENTRY, prompt="你好 repeated " * 1000)
    small = packed(long)
    assert small.prompt == ""
    assert 0 < len(small.packed_prompt) < 1000
    assert prompt_text(CODEC.decode(b"r:1", CODEC.encode(b"r:1", small))) == long.prompt
    assert packed(small) is small
    assert packed(ENTRY) is ENTRY
    assert prompt_text(ENTRY) == "什么是缓存？"


def test_an_entry_copied_under_another_key_is_corrupt() -> None:
    with pytest.raises(CorruptEntryError):
        CODEC.decode(b"r:2", CODEC.encode(b"r:1", ENTRY))


def test_an_entry_written_under_another_secret_is_corrupt() -> None:
    with pytest.raises(CorruptEntryError):
        EntryCodec(b"t" * 32).decode(b"r:1", CODEC.encode(b"r:1", ENTRY))


def test_a_well_sealed_entry_of_another_shape_is_corrupt_not_a_crash() -> None:
    older = msgspec.structs.replace(ENTRY, created_at="yesterday")
    stored = CODEC.encode(b"r:1", older)
    with pytest.raises(CorruptEntryError):
        CODEC.decode(b"r:1", stored)


@pytest.mark.parametrize("stored", [b"", b"oce", b"\x80\x04K\x01.", b"oce\x01" + b"\0" * 16, b"x" * 4096])
def test_foreign_bytes_are_corrupt(stored: bytes) -> None:
    with pytest.raises(CorruptEntryError):
        CODEC.decode(b"r:1", stored)


def test_errors_never_repeat_what_was_stored() -> None:
    stored = CODEC.encode(b"r:1", ENTRY)
    with pytest.raises(CorruptEntryError) as caught:
        CODEC.decode(b"r:1", stored[:-1] + b"!")
    assert "chatcmpl" not in str(caught.value)
