"""A stored reply as bytes: magic, keyed checksum, MessagePack.

The checksum covers the store key too, so bytes copied under another key are as corrupt as flipped ones, and
it is keyed by the fleet's secret, so nobody else who can write to a shared store can forge an entry. Where the
operator gave a key, all of that is encrypted once more, under a magic of its own (`result.encryption`).
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final

import msgspec
from blake3 import blake3

from openclaw_cache.errors import CorruptEntryError
from openclaw_cache.result.encryption import ENCRYPTED_MAGIC, UnknownKeyError
from openclaw_cache.types import Entry

if TYPE_CHECKING:
    from openclaw_cache.result.encryption import EntryCipher

_MAGIC: Final = b"oce\x01"
_CHECKSUM_BYTES: Final = 16
_HEAD_BYTES: Final = len(_MAGIC) + _CHECKSUM_BYTES
_PACK_FROM_BYTES: Final = 1024


class EntryCodec:
    """Encodes and decodes entries for one fleet.

    Args:
        secret: the fleet's.
        encryption: encrypts what is written. Plain entries are read all the same: they were written before.
    """

    __slots__ = ("_checksum_key", "_decoder", "_encoder", "_encryption")

    @property
    def encrypts(self) -> bool:
        """Whether what is written is encrypted."""
        return self._encryption is not None

    def __init__(self, secret: bytes, encryption: EntryCipher | None = None) -> None:
        self._encryption = encryption
        self._checksum_key = blake3(
            secret, derive_key_context="openclaw-cache result entry checksum v1"
        ).digest()
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(Entry)

    def encode(self, store_key: bytes, entry: Entry) -> bytes:
        """Write an entry for the place `store_key`. Cost: O(size); 4 µs for a 2 kB reply, encrypted 11 µs."""
        payload = self._encoder.encode(entry)
        stored = _MAGIC + self._checksum(store_key, payload) + payload
        return stored if self._encryption is None else self._encryption.seal(store_key, stored)

    def decode(self, store_key: bytes, stored: bytes) -> Entry:
        """Read what `encode` wrote for the same `store_key`. Cost: O(size).

        Raises:
            UnknownKeyError: it is encrypted under a key that we do not have.
            CorruptEntryError: any other bytes, from a flipped bit to an entry of another place or fleet.
        """
        if stored.startswith(ENCRYPTED_MAGIC):
            if self._encryption is None:
                raise UnknownKeyError("a stored entry is encrypted, and this node has no key")
            stored = self._encryption.open(store_key, stored)
        payload = stored[_HEAD_BYTES:]
        if stored[:_HEAD_BYTES] != _MAGIC + self._checksum(store_key, payload):
            raise CorruptEntryError("the checksum of a stored entry does not match")
        try:
            return self._decoder.decode(payload)
        except msgspec.MsgspecError as error:
            raise CorruptEntryError("a stored entry has another format") from error

    def is_current(self, stored: bytes) -> bool:
        """Whether `encode` would write it in this form and under this key today. Reads its first bytes only."""
        if self._encryption is None:
            return stored.startswith(_MAGIC)
        return self._encryption.is_current(stored)

    def _checksum(self, store_key: bytes, payload: bytes) -> bytes:
        checksum = blake3(b"%b%d:%b" % (_MAGIC, len(store_key), store_key), key=self._checksum_key)
        return checksum.update(payload).digest(_CHECKSUM_BYTES)


def packed(entry: Entry) -> Entry:
    """Return the entry with its prompt compressed where that saves space.

    Cost: O(size of the prompt), 1.6 ms for 190 kB; done once, when an entry is put.
    """
    prompt = entry.prompt
    if len(prompt) <= _PACK_FROM_BYTES:
        return entry
    packed_prompt = zlib.compress(prompt.encode(errors="surrogatepass"), level=1)
    return msgspec.structs.replace(entry, prompt="", packed_prompt=packed_prompt)


def prompt_text(entry: Entry) -> str:
    """The text of the entry's prompt. Cost: O(size), 0.5 ms for 190 kB."""
    if not entry.packed_prompt:
        return entry.prompt
    return zlib.decompress(entry.packed_prompt).decode(errors="surrogatepass")
