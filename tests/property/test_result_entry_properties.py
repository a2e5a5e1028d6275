"""Whatever happens to a stored entry's bytes, it comes back whole or not at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_cache.errors import CorruptEntryError
from openclaw_cache.result.encryption import EntryCipher
from openclaw_cache.result.entry import EntryCodec, packed, prompt_text
from openclaw_cache.types import Entry, Namespace

CODEC = EntryCodec(b"s" * 32)
ENCRYPTING = EntryCodec(b"s" * 32, EntryCipher({"now": bytes(range(32)), "then": bytes(range(32, 64))}))
codecs = st.sampled_from([CODEC, ENCRYPTING])
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=50)
counts = st.none() | st.integers(0, 2**40)
times = st.floats(0, 1e11)
entries = st.builds(
    Entry,
    reply=st.binary(max_size=200),
    model=texts,
    upstream=texts,
    namespace=texts.map(Namespace),
    created_at=times,
    expires_at=times,
    prompt_tokens=counts,
    completion_tokens=counts,
    has_usage=st.booleans(),
    prompt=texts | st.integers(1, 40).flatmap(lambda n: texts.map(lambda text: text * n * 10)),
)
places = st.binary(min_size=1, max_size=20)


@given(codec=codecs, entry=entries, place=places)
def test_what_is_encoded_is_decoded_with_its_prompt(codec: EntryCodec, entry: Entry, place: bytes) -> None:
    back = codec.decode(place, codec.encode(place, packed(entry)))
    assert prompt_text(back) == entry.prompt
    assert back.reply == entry.reply
    assert (back.model, back.upstream, back.namespace) == (entry.model, entry.upstream, entry.namespace)
    assert (back.created_at, back.expires_at, back.has_usage) == (
        entry.created_at,
        entry.expires_at,
        entry.has_usage,
    )
    assert (back.prompt_tokens, back.completion_tokens) == (entry.prompt_tokens, entry.completion_tokens)


@given(codec=codecs, entry=entries, place=places, data=st.data())
def test_a_change_of_any_byte_is_detected(
    codec: EntryCodec, entry: Entry, place: bytes, data: st.DataObject
) -> None:
    stored = bytearray(codec.encode(place, entry))
    stored[data.draw(st.integers(0, len(stored) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(CorruptEntryError):
        codec.decode(place, bytes(stored))


@given(codec=codecs, entry=entries, place=places, data=st.data(), tail=st.binary(min_size=1, max_size=9))
def test_truncated_and_lengthened_bytes_are_detected(
    codec: EntryCodec, entry: Entry, place: bytes, data: st.DataObject, tail: bytes
) -> None:
    stored = codec.encode(place, entry)
    for broken in (stored[: data.draw(st.integers(0, len(stored) - 1))], stored + tail):
        with pytest.raises(CorruptEntryError):
            codec.decode(place, broken)


@given(codec=codecs, entry=entries, place=places, other=places)
def test_an_entry_under_another_key_is_detected(
    codec: EntryCodec, entry: Entry, place: bytes, other: bytes
) -> None:
    if place != other:
        with pytest.raises(CorruptEntryError):
            codec.decode(other, codec.encode(place, entry))


@given(
    codec=codecs,
    magic=st.sampled_from([b"", b"oce\x01", b"oce\x02\x03now"]),
    junk=st.binary(max_size=100),
    place=places,
)
def test_arbitrary_bytes_never_decode(codec: EntryCodec, magic: bytes, junk: bytes, place: bytes) -> None:
    with pytest.raises(CorruptEntryError):
        codec.decode(place, magic + junk)
