"""One HTTP/1.1 connection: uvicorn's, with bounds on a request's head, and deaf to offers of another protocol."""

from __future__ import annotations

import asyncio
import fcntl
import re
import socket
import struct
import sys
import termios
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD_BYTES = 64 * 1024
"""Request line and headers: unbounded, they would fill the memory."""

HEAD_TIMEOUT_S = 30.0
"""For a head to arrive, counted from the connection or the head's first byte: what never comes holds a descriptor."""

WRITE_TIMEOUT_S = 60.0
"""For a client to take what was written: one that reads nothing holds its reply, and the upstream, for ever."""

_UPGRADE = re.compile(rb"\r\nupgrade:", re.IGNORECASE)


class BoundedConnection(HttpToolsProtocol):
    """Answers 431 to a head that is too long, 408 to one that is late; drops a client that reads nothing.

    An `Upgrade` is ignored, as RFC 9110 §7.8 allows: the parser would take the body for the other protocol's.
    Java's own HTTP client offers `h2c` with every request over plain HTTP.
    """

    def __init__(self, *args: Any, write_timeout_s: float = WRITE_TIMEOUT_S, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._write_timeout_s = write_timeout_s
        self._write_timer: asyncio.TimerHandle | None = None
        self._unread_bytes = 0
        self._expects_head = True
        self._is_head_open = False
        self._head_bytes = 0
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
        """Wait for the first head."""
        super().connection_made(transport)
        self._head_timer = self.loop.call_later(HEAD_TIMEOUT_S, self._head_is_late)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._stop_timer()
        self._stop_write_timer()
        self._unset_keepalive_if_required()  # uvicorn forgets to after a reset, and its timer keeps all of this
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse, then look whether a head is still open, which it rarely is."""
        if self._expects_head:
            before = self._head_bytes if self._is_head_open else 0
            if (
                before + data.find(b"\r\n\r\n") > MAX_HEAD_BYTES
            ):  # the system may hand over more than that at once
                self._refuse(b"431 Request Header Fields Too Large")
                return
            data = _without_upgrade(data)
        super().data_received(data)
        if self._is_head_open:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self._refuse(b"431 Request Header Fields Too Large")
            elif self._head_timer is None:
                self._head_timer = self.loop.call_later(HEAD_TIMEOUT_S, self._head_is_late)

    def on_message_begin(self) -> None:
        """A head begins."""
        super().on_message_begin()
        self._is_head_open, self._head_bytes = True, 0

    def on_headers_complete(self) -> None:
        """A head has ended."""
        self._expects_head = self._is_head_open = False
        self._stop_timer()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """A body has ended: what follows is another head."""
        self._expects_head = True
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP."""
        if self.cycle is None or self.cycle.response_complete:
            super().send_400_response(msg)
        else:
            self._drop()  # a reply to an earlier request is being written: nothing may come between

    def pause_writing(self) -> None:
        """The client takes nothing more: give it a while."""
        super().pause_writing()
        self._watch_reader()

    def resume_writing(self) -> None:
        """It has taken what was written."""
        self._stop_write_timer()
        super().resume_writing()

    def _watch_reader(self) -> None:
        self._unread_bytes = self._num_unread()
        self._write_timer = self.loop.call_later(self._write_timeout_s, self._reader_is_late)

    def _reader_is_late(self) -> None:
        if self._num_unread() < self._unread_bytes:
            self._watch_reader()  # slow, but it reads
            return
        # With a reset: else the kernel would keep what it has until the client takes it.
        sock = self.transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._drop()

    def _drop(self) -> None:
        """End the connection in the midst of a reply. Nothing may be written any more, not even by who still tries."""
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.abort()

    def _num_unread(self) -> int:
        """Bytes that were written and that the client has not taken. The kernel may have megabytes of them."""
        num_bytes: int = self.transport.get_write_buffer_size()
        try:
            fileno = self.transport.get_extra_info("socket").fileno()
            queued = fcntl.ioctl(fileno, termios.TIOCOUTQ, bytes(4))
        except OSError:  # a system that does not tell
            return num_bytes
        return num_bytes + int.from_bytes(queued, sys.byteorder)

    def _stop_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_is_late(self) -> None:
        self._head_timer = None
        if self._is_head_open:
            self._refuse(b"408 Request Timeout")
        else:  # nothing came at all
            self.transport.close()

    def _refuse(self, status: bytes) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._drop()  # a reply to an earlier request is being written: nothing may come between
        elif not self.transport.is_closing():
            self.transport.write(b"HTTP/1.1 %b\r\ncontent-length: 0\r\nconnection: close\r\n\r\n" % status)
            self.transport.close()


def _without_upgrade(data: bytes) -> bytes:
    """Rename the `Upgrade` field of a head. A field that is cut between two packets is not found."""
    end = data.find(b"\r\n\r\n")
    end = len(data) if end < 0 else end
    if data.find(b"pgrade:", 0, end) < 0 and data.find(b"PGRADE:", 0, end) < 0:
        return data
    return _UPGRADE.sub(b"\r\nx-ignored-upgrade:", data[:end]) + data[end:]
