"""Files and the standard input as bytes, unpacked where they are packed."""

from __future__ import annotations

import gzip
import io
import lzma
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, cast

from openclaw_cache.errors import ConfigError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

STDIN: Final = "-"
HEAD_BYTES: Final = 1 << 16
READ_ERRORS: Final = (OSError, EOFError, lzma.LZMAError, zlib.error)
"""What reading a file may raise, packed or not."""


def name(file: str) -> str:
    """How a file is called in messages."""
    return "standard input" if file == STDIN else file


def why(error: Exception) -> str:
    """What went wrong, for people."""
    return getattr(error, "strerror", None) or str(error) or "it ends too early"


@contextmanager
def opened(file: str) -> Iterator[tuple[bytes, BinaryIO]]:
    """A file's first bytes, and all of it, from the beginning. What is packed (gzip, xz) is told by its first bytes.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        source = sys.stdin.buffer if file == STDIN else Path(file).open("rb")  # noqa: SIM115 - closed below
    except OSError as e:
        raise ConfigError(f"cannot read {file}: {why(e)}") from None
    try:
        try:
            head, stream = _unpacked(cast("BinaryIO", source))
        except READ_ERRORS as e:
            raise ConfigError(f"cannot read {name(file)}: {why(e)}") from None
        yield head, stream
    finally:
        if file != STDIN:
            source.close()


def _unpacked(stream: BinaryIO) -> tuple[bytes, BinaryIO]:
    head, whole = _peeked(stream)
    if head.startswith(b"\x1f\x8b"):
        return _peeked(cast("BinaryIO", gzip.GzipFile(fileobj=whole)))
    if head.startswith(b"\xfd7zXZ\x00"):
        return _peeked(cast("BinaryIO", lzma.LZMAFile(whole)))
    return head, whole


def _peeked(stream: BinaryIO) -> tuple[bytes, BinaryIO]:
    """The first bytes of a stream, also of a pipe, and the whole of it."""
    head = bytearray()
    while len(head) < HEAD_BYTES and (block := stream.read(HEAD_BYTES - len(head))):
        head += block
    return bytes(head), cast("BinaryIO", io.BufferedReader(_Whole(bytes(head), stream), HEAD_BYTES))


class _Whole(io.RawIOBase):
    """Bytes that were read already, then the rest."""

    def __init__(self, head: bytes, rest: BinaryIO) -> None:
        self._head = head
        self._rest = rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        block = self._head[: len(view)] if self._head else self._rest.read(len(view))
        self._head = self._head[len(block) :]
        view[: len(block)] = block
        return len(block)
