"""Understanding a reply as it passes: what may be relayed now, when it is whole, and what it said."""

from __future__ import annotations

from openclaw_cache.dialects import openai
from openclaw_cache.dialects.sse import SseParser, encode
from openclaw_cache.errors import RequestError, StreamError

MAX_EVENT_BYTES = 16 * 2**20


class EventTranscript:
    """A server-sent event stream. Relays whole events only, so that a comment or an error event fits between.

    Raises RequestError (502) from `end` where the stream ended without `[DONE]`: the client must learn that
    the reply is not whole, never see an invented clean end.
    """

    def __init__(self) -> None:
        self.events: list[bytes] = []
        self.progress = openai.StreamProgress()
        self._parser = SseParser(MAX_EVENT_BYTES)
        self._pending = b""

    @property
    def terminal(self) -> bool:
        """Whether `[DONE]` has come."""
        return self.progress.has_done

    def feed(self, chunk: bytes) -> bytes:
        """Take raw bytes; return the whole events among them, as they came, comments included."""
        try:
            events = self._parser.feed(chunk)
        except StreamError:
            raise _broken("sent an event larger than 16 MiB") from None
        for event in events:
            self.events.append(event.data)
            self.progress.add(event.data, event.event)
        if self._pending:
            chunk = self._pending + chunk
        if chunk.endswith(b"\n\n"):
            self._pending = b""
            return chunk
        cut = _last_blank_line(chunk)
        self._pending = chunk[cut:]
        return chunk[:cut]

    def end(self) -> bytes:
        """The connection closed before `[DONE]`. Where an error event came, the client knows already."""
        if self.progress.has_error:
            return b""
        raise _broken("ended its stream without [DONE]; the reply may be cut off")


class PlainTranscript:
    """A reply that is one body, JSON or not."""

    terminal = False

    def __init__(self) -> None:
        self.parts: list[bytes] = []

    def feed(self, chunk: bytes) -> bytes:
        """Every byte may be relayed."""
        self.parts.append(chunk)
        return chunk

    def end(self) -> bytes:
        """The body is whole: HTTP framing told so."""
        return b""

    def body(self) -> bytes:
        """The whole body."""
        return b"".join(self.parts)


def without_usage_event(block: bytes) -> bytes:
    """A block of whole events as a client sees it that did not ask for the usage event."""
    return b"".join(encode(e.data) for e in SseParser().feed(block) if not openai.is_usage_event(e.data))


def _last_blank_line(text: bytes) -> int:
    """The index after the last blank line, in any of the three line endings; 0 where there is none."""
    return max(
        text.rfind(b"\n\n") + 2 if b"\n\n" in text else 0,
        text.rfind(b"\r\n\r\n") + 4 if b"\r\n\r\n" in text else 0,
        text.rfind(b"\r\r") + 2 if b"\r\r" in text else 0,
    )


def _broken(what: str) -> RequestError:
    return RequestError(502, f"the upstream {what}", kind="api_error", code="upstream_broken")
