"""Server-sent events on the wire, after the WHATWG HTML standard, §9.2.

Works on bytes: a UTF-8 sequence may be cut anywhere between two chunks and comes out whole.
"""

from __future__ import annotations

from typing import NamedTuple

from openclaw_cache.errors import StreamError

_BOM = b"\xef\xbb\xbf"


class SseEvent(NamedTuple):
    """One event: its `data` lines joined by LF, and its type where the sender named one."""

    data: bytes
    event: bytes | None = None


class SseParser:
    """Incremental parser: feed it chunks as they arrive, it returns the events they complete.

    An event that its blank line never ended is discarded, as the standard says. `id` and `retry` are
    ignored, comments too. Cost: about 1.4 µs for a chunk of one whole `data: …`
    event and 0.9 µs for each further one; linear in the bytes otherwise, however small the chunks.

    Args:
        max_event_bytes: an event (or a line without end) longer than this is refused, so that a
            sender that never ends its line cannot fill the memory.
    """

    __slots__ = ("_after_cr", "_head", "_max_event_bytes", "_tail")

    def __init__(self, max_event_bytes: int = 16 * 1024 * 1024) -> None:
        self._max_event_bytes = max_event_bytes
        self._tail = bytearray()  # the event that has begun but not ended
        self._head: bytes | None = b""  # the stream's first bytes while they may be a BOM; then None
        self._after_cr = False

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """Return the events that `chunk` completes.

        Raises:
            StreamError: an event is longer than the bound; the parser cannot go on.
        """
        if self._head is not None:
            chunk = self._without_bom(chunk)
        if not chunk:
            return []
        if self._after_cr or b"\r" in chunk:
            chunk = self._with_lf(chunk)
        if self._tail or chunk[-2:] != b"\n\n":
            chunk = self._completed(chunk)
            if not chunk:
                return []
        frames = chunk[:-2].split(b"\n\n")
        if len(chunk) > self._max_event_bytes:
            self._bound(max(map(len, frames)))
        events = []
        for frame in frames:
            if frame[:6] == b"data: " and b"\n" not in frame:  # what nearly every sender writes
                events.append(SseEvent(frame[6:]))
            elif (event := _parse(frame)) is not None:
                events.append(event)
        return events

    def _without_bom(self, chunk: bytes) -> bytes:
        head = (self._head or b"") + chunk
        if len(head) < len(_BOM) and _BOM.startswith(head):
            self._head = head
            return b""
        self._head = None
        return head.removeprefix(_BOM)

    def _with_lf(self, chunk: bytes) -> bytes:
        """Turn CRLF and CR into LF. A CR ends its line at once, so a later LF is only its other half."""
        if self._after_cr and chunk[:1] == b"\n":
            chunk = chunk[1:]
        self._after_cr = chunk[-1:] == b"\r"
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _completed(self, chunk: bytes) -> bytes:
        """Add `chunk` to the tail and take everything up to the last blank line out of it."""
        tail = self._tail
        start = max(0, len(tail) - 1)  # a blank line's two LF may lie on both sides of the seam
        tail += chunk
        end = tail.rfind(b"\n\n", start)
        if end < 0:
            self._bound(len(tail))
            return b""
        whole = bytes(tail[: end + 2])
        del tail[: end + 2]
        self._bound(len(tail))
        return whole

    def _bound(self, size: int) -> None:
        if size > self._max_event_bytes:
            raise StreamError(f"the stream has an event of more than {self._max_event_bytes} bytes")


def _parse(frame: bytes) -> SseEvent | None:
    """Read the lines between two blank lines; without a `data` line there is no event."""
    data: list[bytes] = []
    event = b""
    for line in frame.split(b"\n"):
        field, _, value = line.partition(b":")
        if field == b"data":
            data.append(value.removeprefix(b" "))
        elif field == b"event":
            event = value.removeprefix(b" ")
    return SseEvent(b"\n".join(data), event or None) if data else None


def encode(data: bytes) -> bytes:
    """Frame one payload as an event. Line ends inside it become several `data` lines."""
    if b"\n" in data or b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").replace(b"\n", b"\ndata: ")
    return b"data: " + data + b"\n\n"
