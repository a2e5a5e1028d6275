"""A reply on its way from the upstream: its head, encoding and framing, and where it breaks off."""

from __future__ import annotations

import gzip
import json
import random
import sys
import zlib
from dataclasses import dataclass, field
from typing import Any, Final

import brotli  # type: ignore[import-untyped]

from fuzz.byte_upstream import Ending, Plan
from fuzz.mutation import cut, mutated

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_ENCODED: Final[dict[str, Any]] = {
    "gzip": lambda raw: gzip.compress(raw, mtime=0),
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstd.compress,
    "snappy": lambda raw: b"sN" + raw,
}


@dataclass(slots=True)
class Delivery:
    """One reply as it is sent.

    Args:
        body: as the server writes it, before its encoding.
        sent: after it, and after accidents.
        cut_at: how much of `sent` is sent; None: all of it.
        is_pristine: nothing has been done to it: whoever understands the protocol must understand this.
    """

    status: int
    kind: str | None
    body: bytes
    is_pristine: bool
    encoding: str | None = None
    sent: bytes = b""
    framing: str = "chunked"
    cut_at: int | None = None
    ending: Ending = "keep"
    head_garbage: bytes | None = None
    headers: list[str] = field(default_factory=list)
    _received: tuple[bytes, bool] | None = field(default=None, repr=False)

    @property
    def is_stream(self) -> bool:
        """Whether it says that it is a stream of events, in a way in which anybody can read it."""
        kind = (self.kind or "").partition(";")[0].strip().lower()
        return 200 <= self.status < 300 and kind == "text/event-stream" and self.encoding != "snappy"

    @property
    def is_sure(self) -> bool:
        """Whether all that was sent reaches its reader: a reset may take along what was not read yet."""
        return self.ending in ("keep", "close") and self.head_garbage is None

    def received(self) -> tuple[bytes, bool]:
        """The plain body as far as it can be read, and whether that is all of it."""
        if self._received is None:
            raw = self.sent if self.cut_at is None else self.sent[: self.cut_at]
            is_whole = self.cut_at is None
            if self.framing == "close":
                is_whole = self.ending != "stall"  # nobody can tell
            plain, is_right = _decoded(self.encoding, raw)
            self._received = plain, is_whole and is_right
        return self._received

    def plan(self, rng: random.Random) -> Plan:
        """The bytes."""
        if self.head_garbage is not None:
            return Plan([self.head_garbage], "close")
        raw = self.sent if self.cut_at is None else self.sent[: self.cut_at]
        lines = [f"HTTP/1.{'0' if self.framing == 'close' else '1'} {self.status} Status", *self.headers]
        if self.kind is not None:
            lines.append(f"content-type: {self.kind}")
        if self.encoding is not None:
            lines.append(f"content-encoding: {self.encoding}")
        pieces = [piece for piece in cut(raw, rng) if piece]
        if self.framing == "length":
            lines.append(f"content-length: {len(self.sent)}")
        elif self.framing == "chunked":
            lines.append("transfer-encoding: chunked")
            extension = b";x=1" if rng.random() < 0.05 else b""
            pieces = [b"%x%b\r\n%b\r\n" % (len(piece), extension, piece) for piece in pieces]
            if self.cut_at is None:
                pieces.append(rng.choice((b"0\r\n\r\n", b"0\r\n\r\n", b"0\r\nx-trailer: 1\r\n\r\n")))
            elif rng.random() < 0.2:
                pieces.append(b"zz\r\n")  # no size of a chunk
        if pieces and rng.random() < 0.5:  # head and body in one packet
            return Plan(
                ["\r\n".join([*lines, "", ""]).encode("latin-1") + pieces[0], *pieces[1:]], self.ending
            )
        return Plan(["\r\n".join([*lines, "", ""]).encode("latin-1"), *pieces], self.ending)


def delivered(body: bytes, kind: str, rng: random.Random, *, is_pristine: bool) -> Delivery:
    """A body on a way that is sometimes strange, and (unless `is_pristine`) sometimes broken."""
    made = Delivery(200, kind, body, is_pristine)
    made.framing = rng.choice(("chunked", "chunked", "length", "close"))
    made.ending = "close" if made.framing == "close" else "keep"
    if rng.random() < 0.15:
        made.encoding = rng.choice(("gzip", "deflate", "br", "zstd"))
    if not is_pristine and rng.random() < 0.35:
        _break(made, rng)
    made.sent = body if made.encoding is None else _ENCODED[made.encoding](body)
    if made.encoding is not None and not is_pristine and rng.random() < 0.3:
        made.sent = mutated(made.sent, rng) if rng.random() < 0.8 else body
        made.is_pristine = False
    if made.cut_at is not None:
        made.cut_at = rng.randrange(len(made.sent) + 1)
        if made.framing == "length" and made.cut_at == len(
            made.sent
        ):  # all of it is there: nothing breaks off
            made.cut_at, made.ending = None, "close" if made.ending == "stall" else made.ending
    return made


def _break(made: Delivery, rng: random.Random) -> None:
    made.is_pristine = False
    match rng.randrange(12):
        case 0 | 1 | 2:
            made.cut_at, made.ending = 0, rng.choice(("close", "close", "reset"))
            if rng.random() < 0.01:  # each costs the whole idle timeout
                made.ending = "stall"
        case 3 | 4 | 5:
            made.status = rng.choice(
                (201, 202, 203, 204, 206, 226, 304, 400, 401, 404, 418, 422, 429, 500, 503, 529)
            )
            if made.status in (204, 304):
                made.framing, made.ending = "close", "close"
        case 6:
            made.status = rng.choice((301, 302, 307, 308, 101, 999, 299, 599))
            made.headers.append("location: http://127.0.0.1:9/x")
        case 7 | 8:
            other = rng.choice(
                ("application/json", "text/event-stream", "text/html", "text/plain", "x", "", None)
            )
            made.kind = rng.choice((other, "TEXT/EVENT-STREAM ; charset=utf-8", "text/event-stream;"))
        case 9:
            made.encoding = rng.choice(("snappy", "gzip", "zstd", "deflate", "br"))
        case 10:
            made.head_garbage = mutated(
                b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\ncontent-type: a/b\r\n\r\n{}",
                rng,
            )
        case _:
            made.headers += rng.choice(
                (["x-a: 1", "x-a: 2"], ["set-cookie: a=b", "x-request-id: evil"], ["cache-status: evil; hit", "age: 9"],
                 ["connection: x-hop", "x-hop: 1"], ["x-b: \xff\xfe"], ["x-c: " + "z" * 30_000])
            )  # fmt: skip


def _decoded(encoding: str | None, raw: bytes) -> tuple[bytes, bool]:
    """What can be read of an encoded body, byte by byte up to where it breaks, and whether that is all of it."""
    if encoding is None or encoding == "snappy":
        return raw, encoding is None
    if not raw:
        return b"", True
    out = bytearray()
    try:
        is_over = _decode(encoding, raw, out)
    except (zlib.error, brotli.error, zstd.ZstdError):
        return bytes(out), False
    return bytes(out), is_over


def _decode(encoding: str, raw: bytes, out: bytearray) -> bool:
    member: Any = None
    size = 1 if len(raw) < 10_000 else 256
    for number in range(0, len(raw), size):
        one = raw[number : number + size]
        if encoding == "br":
            member = member or brotli.Decompressor()
            if member.is_finished():
                return False
            out += member.process(one)
            continue
        if member is None or member.eof:
            if member is not None and encoding == "deflate":
                return False
            member = _member(encoding, raw[number:])
        out += member.decompress(one)
    return bool(member.is_finished() if encoding == "br" else member.eof)


def _member(encoding: str, rest: bytes) -> Any:
    if encoding == "zstd":
        return zstd.ZstdDecompressor()
    if encoding == "gzip":
        return zlib.decompressobj(31)
    return zlib.decompressobj(15 if rest[0] & 15 == 8 else -15)


def dumped(value: Any) -> bytes:
    """A JSON value as bytes; half a UTF-16 pair as its escape."""
    try:
        return json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return json.dumps(value).encode()
