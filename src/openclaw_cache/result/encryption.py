"""Entries encrypted at rest: AES-256-GCM under a key of its own for each, made from the operator's current key.

The store key and the key's id are authenticated with the text, so an entry that was edited, moved to another
place or relabelled does not open. Only the stored form is encrypted: the memory tier holds plain entries, as any
process does that has to answer with them.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from typing import TYPE_CHECKING, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import algorithms
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.kbkdf import KBKDFCMAC, CounterLocation, Mode

from openclaw_cache.errors import ConfigError, CorruptEntryError

if TYPE_CHECKING:
    from collections.abc import Mapping

ENCRYPTED_MAGIC: Final = b"oce\x02"
"""The first bytes of every encrypted entry. Then come one byte for the length of the key's id, the id, the nonce,
the encrypted bytes and their tag."""

_KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 24
_TAG_BYTES: Final = 16
_KEY_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,16}")
_MIN_DISTINCT_BYTES: Final = 8
"""A random key has fewer than this many different bytes once in 10^36: one that has was typed."""

_HOW_TO_WRITE: Final = (
    "write id:key, or id:key,id:key with the current one first; an id is 1-16 letters, digits, _ or -, and "
    "`openssl rand -base64 32` makes a key"
)


class UnknownKeyError(CorruptEntryError):
    """A stored entry is encrypted under a key that this node was not given: a miss, but not to be removed.

    Another node of the fleet may know the key, as while a new one is rolled out.
    """


class EntryCipher:
    """Encrypts under the first of its keys, decrypts under any. Neither its repr nor its errors show a key.

    This is XAES-256-GCM (C2SP): a random nonce of 192 bits, half of which makes the entry's own AES-256-GCM key
    (NIST SP 800-108, CMAC). AES-256-GCM alone has room for 96 bits, which is safe for 2^32 entries under one key:
    a busy fleet writes that many in weeks. This is safe for 2^80.

    Args:
        keys: 32 bytes by id; the first is the current one.
    """

    __slots__ = ("_current_head", "_current_key", "_keys")

    def __init__(self, keys: Mapping[str, bytes]) -> None:
        current_id, self._current_key = next(iter(keys.items()))
        self._keys = {key_id.encode(): key for key_id, key in keys.items()}
        self._current_head = _head(current_id.encode())

    def seal(self, store_key: bytes, plain: bytes) -> bytes:
        """Encrypt bytes for the place `store_key`. Cost: O(size), 7 µs for 2 kB, 170 µs for 200 kB."""
        nonce = os.urandom(_NONCE_BYTES)
        head = self._current_head
        return head + nonce + _encrypt(self._current_key, nonce, plain, head + store_key)

    def open(self, store_key: bytes, sealed: bytes) -> bytes:
        """Decrypt what `seal` made for the same `store_key`. Cost: that of `seal`.

        Raises:
            UnknownKeyError: it names a key that is not among ours.
            CorruptEntryError: any other bytes.
        """
        id_at = len(ENCRYPTED_MAGIC) + 1
        nonce_at = id_at + int.from_bytes(sealed[id_at - 1 : id_at])
        text_at = nonce_at + _NONCE_BYTES
        if not sealed.startswith(ENCRYPTED_MAGIC) or len(sealed) < text_at + _TAG_BYTES:
            raise CorruptEntryError("a stored entry is no encrypted one")
        key = self._keys.get(sealed[id_at:nonce_at])
        if key is None:
            raise UnknownKeyError("a stored entry is encrypted under a key that this node does not have")
        head, nonce = sealed[:nonce_at], sealed[nonce_at:text_at]
        try:
            return _entry_key(key, nonce).decrypt(nonce[12:], sealed[text_at:], head + store_key)
        except InvalidTag:
            raise CorruptEntryError("a stored entry does not decrypt") from None

    def is_current(self, stored: bytes) -> bool:
        """Whether these bytes say that they are encrypted under the current key. Reads their head only."""
        return stored.startswith(self._current_head)


def cipher_from_environment(variable: str, environ: Mapping[str, str]) -> EntryCipher:
    """The cipher whose keys stand in an environment variable, as `id:key[,id:key…]`, keys in base64.

    Raises:
        ConfigError: it is not set, or holds something else; the message never repeats any of it.
    """
    place = f"result_cache.encryption_key_env: the variable {variable}"
    text = environ.get(variable, "").strip()
    if not text:
        raise ConfigError(f"{place} is not set: {_HOW_TO_WRITE}")
    keys: dict[str, bytes] = {}
    for number, part in enumerate(text.split(","), start=1):
        key_id, _, encoded = part.strip().partition(":")
        if not _KEY_ID.fullmatch(key_id):
            raise ConfigError(f"{place}: key {number} has no id, or an odd one: {_HOW_TO_WRITE}")
        key = _decoded(encoded.strip())
        if len(key) != _KEY_BYTES:
            raise ConfigError(f"{place}: key {number} is not 32 bytes in base64: {_HOW_TO_WRITE}")
        if len(set(key)) < _MIN_DISTINCT_BYTES:
            raise ConfigError(f"{place}: key {number} is not random: {_HOW_TO_WRITE}")
        if key_id in keys:
            raise ConfigError(f"{place}: key {number} has the id of an earlier one: give each its own")
        if key in keys.values():
            raise ConfigError(f"{place}: key {number} is an earlier one again: {_HOW_TO_WRITE}")
        keys[key_id] = key
    return EntryCipher(keys)


def _decoded(encoded: str) -> bytes:
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):  # ValueError: it has other characters than ASCII
        return b""


def _head(key_id: bytes) -> bytes:
    return ENCRYPTED_MAGIC + len(key_id).to_bytes(1) + key_id


def _entry_key(key: bytes, nonce: bytes) -> AESGCM:
    """The AES-256-GCM key of one entry; the second half of the nonce is for that key."""
    derivation = KBKDFCMAC(
        algorithms.AES,
        Mode.CounterMode,
        length=_KEY_BYTES,
        rlen=2,
        llen=None,
        location=CounterLocation.BeforeFixed,
        label=None,
        context=None,
        fixed=b"X\0" + nonce[:12],
    )
    return AESGCM(derivation.derive(key))


def _encrypt(key: bytes, nonce: bytes, plain: bytes, associated: bytes) -> bytes:
    return _entry_key(key, nonce).encrypt(nonce[12:], plain, associated)
