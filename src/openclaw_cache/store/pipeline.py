"""One connection to a Redis-protocol server that carries every command in flight.

Commands sent in one turn of the event loop leave in one write; replies come back in order and are
matched first in, first out. The protocol is RESP2 (https://valkey.io/topics/protocol/).

Time runs in ticks of a quarter of `timeout_s`, and only while a reply is awaited. A command unanswered
for three to four ticks ends the connection, because a late reply must never meet another command. Two kinds of
tick do not count as the server's silence:
- our own event loop was stuck: however late a tick comes it counts once, and the socket is read
  between two ticks;
- a large value is on its way: bytes moved at `BULK_BYTES_PER_S` or more during the tick.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from typing import TYPE_CHECKING, Any, Final, cast

import hiredis

from openclaw_cache.errors import StoreError, StoreFullError, StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

Reply = Any
"""bytes, int, None or a list of these."""

BULK_BYTES_PER_S: Final = 4_000_000
"""Slower than this, a transfer counts as silence: about a third of 100 Mbit/s."""

_TICKS: Final = 4
_INCOMPLETE: Final = object()


class RefusedError(StoreUnavailableError):
    """The server is there and answered with an error."""


class RedirectError(RefusedError):
    """A node of a cluster answered that another node has this slot.

    `asking` tells -ASK (for this command only, while the slot moves) from -MOVED (for good).
    """

    def __init__(self, kind: str, slot: int, host: str, port: int) -> None:
        super().__init__(f"the store is a cluster ({kind}): write store.url as redis+cluster://host:port")
        self.asking = kind == "ASK"
        self.slot = slot
        self.host = host
        self.port = port


def _redirect(text: str) -> RedirectError | None:
    """Read `MOVED slot host:port` or `ASK slot host:port`; None when it is neither."""
    kind, _, rest = text.partition(" ")
    slot, _, place = rest.partition(" ")
    host, colon, port = place.rpartition(":")
    if kind not in {"MOVED", "ASK"} or not (colon and slot.isdecimal() and port.isdecimal()):
        return None
    return RedirectError(kind, int(slot), host, int(port))


def _refusal(text: str) -> StoreError:
    if text.startswith(("MOVED ", "ASK ")) and (redirect := _redirect(text)) is not None:
        return redirect
    # Servers quote the arguments of a command that they do not know: keys, values, passwords.
    text = text.partition(", with args")[0]
    if text.startswith(("OOM ", "MISCONF ")):
        return StoreFullError(f"the store refused a write: {text}")
    return RefusedError(f"the store answered: {text}")


def encode(*arguments: bytes) -> bytes:
    """Encode a command as a RESP array of bulk strings."""
    parts = [b"*%d\r\n" % len(arguments)]
    parts += [b"$%d\r\n%b\r\n" % (len(argument), argument) for argument in arguments]
    return b"".join(parts)


class Pipeline(asyncio.Protocol):
    """A connected, pipelined RESP connection. Made by `dial`; dies once and stays dead."""

    def __init__(
        self, *, timeout_s: float, max_pending_bytes: int, on_lost: Callable[[Pipeline, str], None] | None
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._timeout_s = timeout_s
        self._max_pending_bytes = max_pending_bytes
        self._on_lost = on_lost
        self._reader = hiredis.Reader(replyError=_refusal, notEnoughData=_INCOMPLETE)
        self._transport: asyncio.Transport | None = None
        self._below: asyncio.Transport | None = None  # the transport that TLS writes to
        self._lost_error: Exception | None = None
        self._lost_because: str | None = None
        self._pending: deque[asyncio.Future[Reply]] = deque()
        self._out: list[bytes] = []
        self._unsent_bytes = 0  # upper bound: not yet written, or held by the transport at the last flush
        self._num_replies = 0
        self._received_bytes = 0
        self._written_bytes = 0
        self._moved_bytes = 0  # received and sent, as of the last tick
        self._timer: asyncio.TimerHandle | None = None
        self._marks: deque[int] = deque(maxlen=_TICKS)  # commands sent so far, at each of the last ticks

    def send(self, command: bytes) -> asyncio.Future[Reply]:
        """Queue an encoded command; the future gives its reply, or a `StoreError`.

        The future may be cancelled: its reply is then dropped when it comes.

        Raises:
            StoreUnavailableError: the connection is lost, or `max_pending_bytes` would be exceeded.
        """
        if self._lost_because is not None:
            raise StoreUnavailableError(self._lost_because)
        self._unsent_bytes += len(command)
        if self._unsent_bytes > self._max_pending_bytes:
            self._check_backlog(len(command))
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(command)
        future = self._loop.create_future()
        self._pending.append(future)
        return future

    @property
    def lost_because(self) -> str | None:
        """Why the connection is gone; None while it lives."""
        return self._lost_because

    @property
    def lost_error(self) -> Exception | None:
        """The transport's error that ended the connection, where there was one."""
        return self._lost_error

    def secure(self, transport: asyncio.Transport) -> None:
        """Go on over TLS: `transport` was made from the one that this connection began with."""
        self._below, self._transport = self._transport, transport

    def close(self, reason: str = "the connection to the store is closed") -> None:
        """Drop the connection; commands in flight fail with this reason. Idempotent."""
        if self._lost_because is not None:
            return
        self._lost_because = reason
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._transport.abort()
        self._out.clear()
        for future in self._pending:
            if not future.done():
                future.set_exception(StoreUnavailableError(reason))
        self._pending.clear()
        if self._on_lost is not None:
            self._on_lost(self, reason)

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""
        self._transport = cast("asyncio.Transport", transport)
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family in {socket.AF_INET, socket.AF_INET6}:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail what is in flight."""
        self._lost_error = exc
        self.close(f"the connection to the store broke: {exc}" if exc else "the store closed the connection")

    def data_received(self, data: bytes) -> None:
        """Match complete replies to commands, in order."""
        if self._lost_because is not None:
            return
        self._received_bytes += len(data)
        next_reply = self._reader.gets
        pending = self._pending
        try:
            self._reader.feed(data)
            while (reply := next_reply()) is not _INCOMPLETE:
                future = pending.popleft()
                self._num_replies += 1
                if future.done():  # its caller was cancelled
                    continue
                if isinstance(reply, StoreError):
                    future.set_exception(reply)
                else:
                    future.set_result(reply)
        except (hiredis.ProtocolError, IndexError):
            self.close("the store sent something else than replies of the Redis protocol")

    # internals

    def _flush(self) -> None:
        if self._transport is None or not self._out:
            return
        data = b"".join(self._out)
        self._out.clear()
        self._written_bytes += len(data)
        self._transport.write(data)
        self._unsent_bytes = self._held_bytes()
        if self._timer is None:
            self._timer = self._loop.call_later(self._timeout_s / _TICKS, self._tick)

    def _held_bytes(self) -> int:
        """Bytes written that the kernel has not taken yet."""
        held = self._transport.get_write_buffer_size() if self._transport else 0
        if self._below is not None:  # what TLS has encrypted no longer counts as its own
            held += self._below.get_write_buffer_size()
        return held

    def _check_backlog(self, num_bytes: int) -> None:
        """Count exactly; raise when the new command does not fit."""
        self._unsent_bytes = self._held_bytes() + sum(map(len, self._out)) + num_bytes
        if self._unsent_bytes > self._max_pending_bytes:
            self._unsent_bytes -= num_bytes
            raise StoreUnavailableError("more bytes wait for the store than it takes: write refused")

    def _tick(self) -> None:
        if not self._pending:
            self._timer = None
            self._marks.clear()
            return
        tick_s = self._timeout_s / _TICKS
        self._timer = self._loop.call_later(tick_s, self._tick)
        moved_bytes = self._received_bytes + self._written_bytes - self._held_bytes()
        is_bulk = moved_bytes - self._moved_bytes >= BULK_BYTES_PER_S * tick_s
        self._moved_bytes = moved_bytes
        if is_bulk:
            return
        self._marks.append(self._num_replies + len(self._pending))
        # The oldest mark is _TICKS - 1 ticks old, and its last command at most one tick older.
        if len(self._marks) == _TICKS and self._num_replies < self._marks[0]:
            self.close(f"the store gave no answer within {self._timeout_s:g} s")
