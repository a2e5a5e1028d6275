"""Entries encrypted at rest, and the keys that an operator gives."""

from __future__ import annotations

import base64
import hashlib

import pytest

from openclaw_cache.errors import ConfigError, CorruptEntryError
from openclaw_cache.result import encryption
from openclaw_cache.result.encryption import EntryCipher, UnknownKeyError, cipher_from_environment
from openclaw_cache.result.entry import EntryCodec
from openclaw_cache.types import Entry, Namespace

SECRET = b"s" * 32
KEY_A, KEY_B = (hashlib.sha256(name).digest() for name in (b"a", b"b"))
TEXT_A, TEXT_B = (base64.b64encode(key).decode() for key in (KEY_A, KEY_B))
PLAIN = EntryCodec(SECRET)
OF_A = EntryCodec(SECRET, EntryCipher({"a": KEY_A}))
OF_B = EntryCodec(SECRET, EntryCipher({"b": KEY_B}))
OF_B_THEN_A = EntryCodec(SECRET, EntryCipher({"b": KEY_B, "a": KEY_A}))
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
    prompt="what is a cache",
)
PLACE = b"r:1"


@pytest.mark.parametrize(
    ("key", "associated", "sealed"),
    [
        (b"\x01" * 32, b"", "ce546ef63c9cc60765923609b33a9a1974e96e52daf2fcf7075e2271"),
        (b"\x03" * 32, b"c2sp.org/XAES-256-GCM", "986ec1832593df5443a179437fd083bf3fdb41abd740a21f71eb769d"),
    ],
)
def test_it_encrypts_as_the_specification_of_xaes_256_gcm_does(
    key: bytes, associated: bytes, sealed: str
) -> None:
    # The two vectors of https://c2sp.org/XAES-256-GCM.
    nonce = b"ABCDEFGHIJKLMNOPQRSTUVWX"
    assert encryption._encrypt(key, nonce, b"XAES-256-GCM", associated).hex() == sealed


def test_an_encrypted_entry_comes_back_and_shows_nothing_but_the_id_of_its_key() -> None:
    stored = OF_A.encode(PLACE, ENTRY)
    assert stored.startswith(b"oce\x02\x01a")
    assert b"chatcmpl" not in stored
    assert b"cache" not in stored
    assert OF_A.decode(PLACE, stored) == ENTRY
    assert len(stored) == len(PLAIN.encode(PLACE, ENTRY)) + 6 + 24 + 16


def test_the_same_entry_is_never_encrypted_the_same_way_twice() -> None:
    assert len({OF_A.encode(PLACE, ENTRY) for _ in range(100)}) == 100


def test_a_plain_entry_is_read_where_entries_are_encrypted_now() -> None:
    assert OF_A.decode(PLACE, PLAIN.encode(PLACE, ENTRY)) == ENTRY


def test_an_entry_under_an_older_key_is_read_while_that_key_is_given() -> None:
    stored = OF_A.encode(PLACE, ENTRY)
    assert OF_B_THEN_A.decode(PLACE, stored) == ENTRY
    with pytest.raises(UnknownKeyError):
        OF_B.decode(PLACE, stored)


def test_an_encrypted_entry_is_of_an_unknown_key_where_there_is_none() -> None:
    with pytest.raises(UnknownKeyError):
        PLAIN.decode(PLACE, OF_A.encode(PLACE, ENTRY))


def test_the_first_key_is_the_one_to_encrypt_with() -> None:
    assert OF_B.decode(PLACE, OF_B_THEN_A.encode(PLACE, ENTRY)) == ENTRY


def test_only_the_form_that_would_be_written_today_is_current() -> None:
    plain, of_a, of_b = (codec.encode(PLACE, ENTRY) for codec in (PLAIN, OF_A, OF_B))
    assert [PLAIN.is_current(stored) for stored in (plain, of_a, of_b)] == [True, False, False]
    assert [OF_B_THEN_A.is_current(stored) for stored in (plain, of_a, of_b)] == [False, False, True]


def test_an_id_that_begins_like_the_current_one_is_another_key() -> None:
    longer = EntryCodec(SECRET, EntryCipher({"ab": KEY_A}))
    assert not OF_A.is_current(longer.encode(PLACE, ENTRY))


def test_an_entry_that_was_relabelled_with_another_known_key_is_corrupt() -> None:
    stored = OF_A.encode(PLACE, ENTRY)
    relabelled = stored[:5] + b"b" + stored[6:]
    with pytest.raises(CorruptEntryError) as caught:
        OF_B_THEN_A.decode(PLACE, relabelled)
    assert not isinstance(caught.value, UnknownKeyError)


def test_two_ids_of_one_key_do_not_open_each_others_entries() -> None:
    # The id is authenticated, not only looked up.
    one = EntryCipher({"a": KEY_A})
    other = EntryCipher({"b": KEY_A})
    sealed = one.seal(PLACE, b"text")
    with pytest.raises(CorruptEntryError):
        other.open(PLACE, sealed.replace(b"oce\x02\x01a", b"oce\x02\x01b"))


def test_an_entry_of_another_fleet_is_corrupt_even_under_the_same_key() -> None:
    other = EntryCodec(b"t" * 32, EntryCipher({"a": KEY_A}))
    with pytest.raises(CorruptEntryError):
        other.decode(PLACE, OF_A.encode(PLACE, ENTRY))


@pytest.mark.parametrize("length", [0, 3, 4, 5, 6, 20, 45])
def test_the_beginning_of_an_encrypted_entry_is_corrupt(length: int) -> None:
    with pytest.raises(CorruptEntryError):
        OF_A.decode(PLACE, OF_A.encode(PLACE, ENTRY)[:length])


def test_keys_are_read_from_the_variable_in_their_order() -> None:
    cipher = cipher_from_environment("KEYS", {"KEYS": f" b:{TEXT_B}, a:{TEXT_A}\n"})
    assert EntryCodec(SECRET, cipher).decode(PLACE, OF_A.encode(PLACE, ENTRY)) == ENTRY
    assert OF_B.decode(PLACE, EntryCodec(SECRET, cipher).encode(PLACE, ENTRY)) == ENTRY


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (None, "is not set"),
        ("", "is not set"),
        ("  ", "is not set"),
        (TEXT_A, "key 1 has no id"),
        (f":{TEXT_A}", "key 1 has no id"),
        (f"{'x' * 17}:{TEXT_A}", "key 1 has no id"),
        (f"ä:{TEXT_A}", "key 1 has no id"),
        (f"a:{TEXT_A},", "key 2 has no id"),
        ("a:", "key 1 is not 32 bytes"),
        ("a:geheim", "key 1 is not 32 bytes"),
        ("a:schlüsselschlüssel", "key 1 is not 32 bytes"),
        (f"a:{TEXT_A[:-4]}", "key 1 is not 32 bytes"),
        (f"a:{KEY_A.hex()}", "key 1 is not 32 bytes"),
        (f"a:{TEXT_A},b:{TEXT_B[1:]}", "key 2 is not 32 bytes"),
        (f"a:{base64.b64encode(bytes(32)).decode()}", "key 1 is not random"),
        (f"a:{base64.b64encode(b'secret' * 5 + b'se').decode()}", "key 1 is not random"),
        (f"a:{TEXT_A},a:{TEXT_B}", "key 2 has the id of an earlier one"),
        (f"a:{TEXT_A},b:{TEXT_A}", "key 2 is an earlier one again"),
    ],
)
def test_what_is_wrong_with_a_variable_is_said_without_any_of_it(value: str | None, complaint: str) -> None:
    environ = {} if value is None else {"CACHE_KEYS": value}
    with pytest.raises(ConfigError, match=complaint) as caught:
        cipher_from_environment("CACHE_KEYS", environ)
    message = str(caught.value)
    assert "result_cache.encryption_key_env: the variable CACHE_KEYS" in message
    shown = {part[:8] for part in (value or "").replace(",", ":").split(":") if len(part.strip()) > 3}
    assert not [part for part in shown if part in message]


def test_messages_say_how_to_make_a_key() -> None:
    with pytest.raises(ConfigError, match="openssl rand -base64 32"):
        cipher_from_environment("CACHE_KEYS", {})


def test_neither_the_cipher_nor_the_codec_shows_a_key() -> None:
    cipher = EntryCipher({"a": KEY_A})
    shown = repr(cipher) + repr(OF_A) + str(cipher)
    assert repr(KEY_A)[2:10] not in shown
    assert TEXT_A[:8] not in shown
