"""Content encodings of an upstream's reply, undone in pieces of bounded size.

The HTTP client could do it too, but it takes a gzip body that was cut short for a whole one.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable
from typing import Protocol

import brotli  # type: ignore[import-untyped]

from openclaw_cache.types import Headers

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

PIECE_BYTES = 256 * 1024
"""Most that one piece of input gives at once: 10 kB may stand for 10 GB."""

MAX_MEMBERS = 1024
"""Members of one gzip or zstd body. Each costs a copy of what follows it."""

MAX_ZSTD_WINDOW_LOG = 23
"""8 MB, the most that RFC 9659 allows in HTTP: the window is memory that the sender makes us take."""


class EncodingError(Exception):
    """A body is not whole, or not in the encoding that it claims."""


class Member(Protocol):
    """Undoes one member of a body: a gzip member, a zstd frame, or all of it."""

    @property
    def is_over(self) -> bool:
        """Whether its end has come."""

    def take(self, data: bytes) -> tuple[bytes, bytes]:
        """The next piece, and the input that is left over."""


class Decoder:
    """Undoes the encoding of one body: `feed` input, then `take` until nothing comes; at its end `check_whole`."""

    def __init__(self, name: str, new_member: Callable[[], Member], max_members: int) -> None:
        self.name = name
        self._new_member = new_member
        self._max_members = max_members
        self._member: Member | None = None
        self._num_members = 0
        self._left = b""

    def feed(self, data: bytes) -> None:
        """More of the encoded body."""
        self._left += data

    def take(self) -> bytes:
        """The next piece, at most about PIECE_BYTES; b"" when more input is needed. Raises EncodingError."""
        while True:
            if self._member is None or self._member.is_over:
                if not self._left:
                    return b""
                self._member = self._next_member()
            num_before = len(self._left)
            try:
                piece, self._left = self._member.take(self._left)
            except (zlib.error, brotli.error, zstd.ZstdError) as e:
                raise EncodingError(f"it is no {self.name}") from e
            if piece or len(self._left) == num_before:
                return piece

    def check_whole(self) -> None:
        """The encoded body has ended: raises EncodingError where it was cut short. Nothing at all is whole."""
        if self._left or (self._member is not None and not self._member.is_over):
            raise EncodingError(f"its {self.name} was cut short")

    def _next_member(self) -> Member:
        self._num_members += 1
        if self._num_members > self._max_members:
            raise EncodingError(f"something follows the end of its {self.name}")
        return self._new_member()


def undo(headers: Headers) -> tuple[Decoder | None, bool]:
    """The decoder for a reply with these (lower-case) headers, and whether its body stays encoded.

    Stacked encodings and those that we do not know stay.
    """
    names = [
        name
        for key, value in headers
        if key == b"content-encoding"
        for token in value.decode("latin-1").lower().split(",")
        if (name := token.strip()) not in ("", "identity")
    ]
    if not names:
        return None, False
    if len(names) > 1 or names[0] not in _ENCODINGS:
        return None, True
    new_member, max_members = _ENCODINGS[names[0]]
    return Decoder(names[0], new_member, max_members), False


class _ZlibMember:
    def __init__(self, window_bits: int) -> None:
        self._zlib = zlib.decompressobj(window_bits)

    @property
    def is_over(self) -> bool:
        return self._zlib.eof

    def take(self, data: bytes) -> tuple[bytes, bytes]:
        piece = self._zlib.decompress(data, PIECE_BYTES)
        return piece, self._zlib.unconsumed_tail or self._zlib.unused_data


class _DeflateMember:
    """`deflate` means zlib's format, but some send it bare. A bare stream never begins with zlib's method nibble."""

    def __init__(self) -> None:
        self._member: _ZlibMember | None = None

    @property
    def is_over(self) -> bool:
        return self._member is not None and self._member.is_over

    def take(self, data: bytes) -> tuple[bytes, bytes]:
        if self._member is None:
            self._member = _ZlibMember(zlib.MAX_WBITS if data[0] & 0xF == 8 else -zlib.MAX_WBITS)
        return self._member.take(data)


class _BrotliMember:
    def __init__(self) -> None:
        self._brotli = brotli.Decompressor()

    @property
    def is_over(self) -> bool:
        return bool(self._brotli.is_finished())

    def take(self, data: bytes) -> tuple[bytes, bytes]:
        if not self._brotli.can_accept_more_data():
            return self._brotli.process(b"", output_buffer_limit=PIECE_BYTES), data
        return self._brotli.process(data, output_buffer_limit=PIECE_BYTES), b""


class _ZstdMember:
    def __init__(self) -> None:
        limit: dict[int, int] = {zstd.DecompressionParameter.window_log_max: MAX_ZSTD_WINDOW_LOG}
        self._zstd = zstd.ZstdDecompressor(options=limit)

    @property
    def is_over(self) -> bool:
        return self._zstd.eof

    def take(self, data: bytes) -> tuple[bytes, bytes]:
        piece = self._zstd.decompress(data, PIECE_BYTES)
        return piece, self._zstd.unused_data


def _gzip_member() -> Member:
    return _ZlibMember(16 + zlib.MAX_WBITS)


_ENCODINGS: dict[str, tuple[Callable[[], Member], int]] = {
    "gzip": (_gzip_member, MAX_MEMBERS),
    "x-gzip": (_gzip_member, MAX_MEMBERS),
    "deflate": (_DeflateMember, 1),
    "br": (_BrotliMember, 1),
    "zstd": (_ZstdMember, MAX_MEMBERS),
}
