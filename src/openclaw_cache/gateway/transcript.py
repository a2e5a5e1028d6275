"""Understanding a reply as it passes: what may be relayed now, when it is whole, and what it said."""

from __future__ import annotations

import re

from openclaw_cache.dialects.dialect import Dialect
from openclaw_cache.dialects.sse import SseEvent, SseParser
from openclaw_cache.errors import RequestError, StreamError

MAX_EVENT_BYTES = 16 * 2**20

_BOM = b"\xef\xbb\xbf"
_LINE_END = rb"(?>\r\n|\r|\n)"
_BLANK_LINE = re.compile(_LINE_END + _LINE_END)
"""The end of an event (WHATWG HTML §9.2.5); atomic, so that CR LF is never read as two line ends."""


class EventTranscript:
    """A server-sent event stream. Relays whole events only, so that a comment or an error event fits between.

    Raises RequestError (502) from `end` where the stream stopped before the event that ends it: the client must
    learn that the reply is not whole, never see an invented clean end.
    """

    def __init__(self, dialect: Dialect) -> None:
        self.events: list[bytes] = []
        self.num_events = 0
        self.progress = dialect.progress()
        self._final_event = dialect.final_event
        self._parser = SseParser(MAX_EVENT_BYTES)
        self._pending = bytearray()
        self._keeps = True
        self._has_begun = False

    @property
    def terminal(self) -> bool:
        """Whether the event that ends the stream has come."""
        return self.progress.has_end

    @property
    def num_pieces(self) -> int:
        """Events so far that brought something of the reply."""
        return self.progress.num_pieces

    def feed(self, chunk: bytes) -> bytes:
        """Take raw bytes; return the whole events among them, as they came, comments included."""
        try:
            events = self._parser.feed(chunk)
        except StreamError:
            raise _broken("sent an event larger than 16 MiB") from None
        self._note(events)
        return self._begun(self._whole_events(chunk))

    def end(self) -> bytes:
        """The connection closed before the last event and its blank line.

        Servers that leave out the last blank line mean the event all the same. Where an error event came, the client
        knows already, or learns it from that last one.
        """
        had_error = self.progress.has_error
        self._note(self._parser.feed(b"\n\n"))
        last = self._begun(bytes(self._pending.rstrip(b"\r\n")) + b"\n\n")
        if self.terminal:
            return last
        if self.progress.has_error:
            return self._final_event if had_error else last + self._final_event
        raise _broken("ended its stream before its end; the reply may be cut off")

    def _begun(self, block: bytes) -> bytes:
        """A block without the byte order mark that a stream may begin with: our comments may have come before it."""
        if self._has_begun or not block:
            return block
        self._has_begun = True
        return block.removeprefix(_BOM)

    def _note(self, events: list[SseEvent]) -> None:
        self.num_events += len(events)
        for event in events:
            if self._keeps and not self.progress.has_end:  # what follows the end is no part of the reply
                self.events.append(event.data)
            self.progress.add(event.data, event.event)

    def forget(self) -> None:
        """Keep no events: the reply is too long to be stored."""
        self._keeps = False
        self.events.clear()

    def _whole_events(self, chunk: bytes) -> bytes:
        """Everything up to the last blank line. Linear in the bytes, however small the chunks."""
        pending = self._pending
        if not pending and chunk.endswith(b"\n\n"):
            return chunk
        start = max(0, len(pending) - 3)  # a blank line may lie across the seam
        pending += chunk
        cut = 0
        for blank in _BLANK_LINE.finditer(pending, start):
            cut = blank.end()
        whole = bytes(pending[:cut])
        del pending[:cut]
        # A blank line is over with its CR. Nothing is read after the last one, so its LF would never follow.
        return whole + b"\n" if self.terminal and whole.endswith(b"\r") else whole


class PlainTranscript:
    """A reply that is one body, JSON or not."""

    terminal = False
    num_pieces = 0

    def __init__(self, *, keeps: bool = True) -> None:
        self.parts: list[bytes] = []
        self.num_bytes = 0
        self._keeps = keeps

    def feed(self, chunk: bytes) -> bytes:
        """Every byte may be relayed."""
        self.num_bytes += len(chunk)
        if self._keeps:
            self.parts.append(chunk)
        return chunk

    def end(self) -> bytes:
        """The body is whole: HTTP framing told so."""
        return b""

    def forget(self) -> None:
        """Keep no copy: the reply is too long to be stored."""
        self._keeps = False
        self.parts.clear()

    def body(self) -> bytes:
        """The whole body."""
        return b"".join(self.parts)


def without_usage_event(block: bytes, dialect: Dialect) -> bytes:
    """A block of whole events as a client sees it that did not ask for usage; all else as it came.

    Upstreams that were asked end their stream with a usage event, and many put `"usage":null` at the end of every
    other one. Cutting that needs no parsing: inside a JSON string each quote is escaped.
    """
    block = block.replace(b',"usage":null}', b"}")
    if b'"usage"' not in block:
        return block
    kept, start = [], 0
    for blank in _BLANK_LINE.finditer(block):
        frame, start = block[start : blank.end()], blank.end()
        events = SseParser().feed(frame)
        if not any(event.event != b"error" and dialect.is_usage_event(event.data) for event in events):
            kept.append(frame)
    return b"".join(kept) + block[start:]


def _broken(what: str) -> RequestError:
    return RequestError(502, f"the upstream {what}", kind="api_error", code="upstream_broken")
