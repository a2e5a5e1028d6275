"""Values as bytes: small where that pays, with a checksum, since SQLite itself notices few changed bytes."""

from __future__ import annotations

import json
import sys
import zlib
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from openclaw_cache.errors import MemoryStoreError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

if TYPE_CHECKING:
    from openclaw_cache.types import Json

T = TypeVar("T")

_ZSTD_HEAD: Final = b"\x28\xb5\x2f\xfd"
"""No JSON text and no MessagePack map or array begins like this."""
_LONG_BYTES: Final = 512
_SUM_BYTES: Final = 4


def pack(value: msgspec.Struct | tuple[msgspec.Struct, ...]) -> bytes:
    """A record as bytes. Raises MemoryStoreError where a text in it is none."""
    try:
        return _squeezed(msgspec.msgpack.encode(value))
    except UnicodeEncodeError:
        raise MemoryStoreError(
            "a memory store takes no half of a surrogate pair: send well-formed Unicode"
        ) from None


def unpack(data: bytes, kind: type[T]) -> T:
    """What `pack` made. Raises MemoryStoreError where it is something else."""
    try:
        return msgspec.msgpack.decode(_unsqueezed(data), type=kind)
    except (ValueError, msgspec.DecodeError, zstd.ZstdError) as error:
        raise _damaged() from error


def pack_content(content: Json) -> bytes:
    """A message's content as bytes, nothing of it changed: order of keys, big numbers, 1 and 1.0, any characters."""
    return _squeezed(content_bytes(content))


def unpack_content(data: bytes) -> Json:
    """What `pack_content` made. Raises MemoryStoreError where it is something else."""
    try:
        return json.loads(_unsqueezed(data).decode("utf-8", "surrogatepass"))
    except (ValueError, zstd.ZstdError) as error:
        raise _damaged() from error


def content_bytes(content: Json) -> bytes:
    """JSON in which every text stands in one way only, so that a part of a text is a part of these bytes."""
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def plain_content_bytes(data: bytes) -> bytes:
    """The JSON in what `pack_content` made."""
    try:
        return _unsqueezed(data)
    except (ValueError, zstd.ZstdError) as error:
        raise _damaged() from error


def _squeezed(data: bytes) -> bytes:
    body = zstd.compress(data, level=3) if len(data) > _LONG_BYTES else data
    return zlib.crc32(body).to_bytes(_SUM_BYTES, "little") + body


def _unsqueezed(data: bytes) -> bytes:
    body = data[_SUM_BYTES:]
    if zlib.crc32(body).to_bytes(_SUM_BYTES, "little") != data[:_SUM_BYTES]:
        raise ValueError("its checksum is another")
    return zstd.decompress(body) if body.startswith(_ZSTD_HEAD) else body


def _damaged() -> MemoryStoreError:
    return MemoryStoreError(
        "a memory store has a record that is none: restore it from a backup or an export", code="damaged"
    )
