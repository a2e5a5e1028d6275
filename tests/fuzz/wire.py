"""HTTP/1.1 as plain bytes: a client that takes nothing for granted, and reads replies to the letter of RFC 9112."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Self

DEADLINE_S = 30.0
"""For one exchange. What takes longer on a busy machine hangs."""


class BadReplyError(Exception):
    """What came is no HTTP reply."""


@dataclass(slots=True)
class Reply:
    """A reply as it came. `is_whole` is False where the connection ended inside its body."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes = b""
    is_whole: bool = True
    version: str = "HTTP/1.1"

    def header(self, name: str) -> str | None:
        """The value of a header; None where it is absent. Raises BadReplyError where it stands twice."""
        found = [value for key, value in self.headers if key == name]
        if len(found) > 1:
            raise BadReplyError(f"two headers {name!r}")
        return found[0] if found else None

    @property
    def cache_status(self) -> str | None:
        """What the cache that is nearest says: the last member of the list (RFC 9211, §2)."""
        return next((value for key, value in reversed(self.headers) if key == "cache-status"), None)

    @property
    def kind(self) -> str:
        """The content type without its parameters."""
        return (self.header("content-type") or "").partition(";")[0].strip().lower()


@dataclass(slots=True)
class Connection:
    """One connection to a server, kept for the next exchange where its reply allows. Use with `async with`."""

    host: str
    port: int
    _reader: asyncio.StreamReader | None = field(default=None, init=False)
    _writer: asyncio.StreamWriter | None = field(default=None, init=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Drop it; the next exchange opens another one."""
        if self._writer is not None:
            self._writer.transport.abort()
        self._reader = self._writer = None

    async def exchange(
        self, method: str, path: str, headers: list[tuple[str, str]], body: bytes = b""
    ) -> Reply:
        """Send one request, read its reply. Raises TimeoutError, BadReplyError."""
        lines = [f"{method} {path} HTTP/1.1", f"host: {self.host}:{self.port}"]
        lines += [f"{name}: {value}" for name, value in headers]
        lines.append(f"content-length: {len(body)}")
        return await self.raw("\r\n".join(lines).encode() + b"\r\n\r\n" + body, is_head=method == "HEAD")

    async def raw(self, sent: bytes, *, is_head: bool = False) -> Reply:
        """Send bytes, read one reply. Raises TimeoutError, BadReplyError, ConnectionError where none comes."""
        async with asyncio.timeout(DEADLINE_S):
            was_open = self._writer is not None
            try:
                reply = await self._exchange(sent, is_head=is_head)
            except (ConnectionError, asyncio.IncompleteReadError):
                self.close()
                if not was_open:
                    raise
                reply = await self._exchange(sent, is_head=is_head)  # the kept one had been closed meanwhile
        if not reply.is_whole or reply.header("connection") == "close" or reply.version != "HTTP/1.1":
            self.close()
        return reply

    async def _exchange(self, sent: bytes, *, is_head: bool) -> Reply:
        if self._reader is None or self._writer is None:
            self._reader, self._writer = await asyncio.open_connection(self.host, self.port, limit=2**20)
        self._writer.write(sent)
        return await read_reply(self._reader, is_head=is_head)


async def read_reply(reader: asyncio.StreamReader, *, is_head: bool = False) -> Reply:
    """Read one reply. Raises BadReplyError; IncompleteReadError where the connection ends in its head."""
    top = await reader.readuntil(b"\r\n\r\n")
    first, *lines = top[:-4].decode("latin-1").split("\r\n")
    version, _, rest = first.partition(" ")
    if version not in ("HTTP/1.1", "HTTP/1.0") or not rest[:3].isdigit():
        raise BadReplyError(f"a status line {first[:80]!r}")
    headers = []
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise BadReplyError(f"a header line {line[:80]!r}")
        headers.append((name.lower(), value.strip()))
    reply = Reply(int(rest[:3]), headers, version=version)
    if is_head or reply.status in (204, 304):
        return reply
    coding, length = reply.header("transfer-encoding"), reply.header("content-length")
    if coding is not None and length is not None:
        raise BadReplyError("a length beside a transfer coding")
    parts: list[bytes] = []
    try:
        if coding is not None:
            await _read_chunks(reader, parts)
        elif length is not None:
            await _read_length(reader, int(length), parts)
        else:
            parts.append(await reader.read())
    except (asyncio.IncompleteReadError, ConnectionError):
        reply.is_whole = False
    reply.body = b"".join(parts)
    return reply


async def _read_length(reader: asyncio.StreamReader, length: int, parts: list[bytes]) -> None:
    while (left := length - sum(map(len, parts))) > 0:
        part = await reader.read(min(left, 2**16))
        if not part:
            raise asyncio.IncompleteReadError(b"", left)
        parts.append(part)


async def _read_chunks(reader: asyncio.StreamReader, parts: list[bytes]) -> None:
    while True:
        line = await reader.readuntil(b"\r\n")
        try:
            size = int(line[:-2].partition(b";")[0], 16)
        except ValueError:
            raise BadReplyError(f"a chunk size {line[:20]!r}") from None
        if size:
            parts.append(await reader.readexactly(size))
        if await reader.readexactly(2) != b"\r\n":
            raise BadReplyError("a chunk that does not end")
        if not size:
            return
