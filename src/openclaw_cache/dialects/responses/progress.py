"""Follow a live Responses stream, event by event, at a fraction of what parsing it would cost."""

from __future__ import annotations

import re
from typing import Final

from openclaw_cache.dialects.payload import payload

_ENDS: Final = frozenset({b"response.completed", b"response.incomplete", b"response.failed"})
_ERRORS: Final = frozenset({b"response.failed", b"error"})
_MARK: Final = re.compile(rb'"(?:error|response\.(?:completed|incomplete|failed))"')
"""What an event that ends a stream or tells of an error has in it; quotes inside a text are escaped."""

_DELTA: Final = re.compile(rb'"type": ?"(response\.[a-z_.]+\.delta)"')
"""The type of an event that brings something of the reply."""


class ResponsesProgress:
    """Whether a stream has come to its last event: the response completed, incomplete or failed.

    OpenAI sends nothing after it; a `[DONE]` that others add changes nothing, and is no end where it stands alone.
    """

    __slots__ = ("has_end", "has_error", "num_pieces")

    def __init__(self) -> None:
        self.has_end = False
        self.has_error = False
        self.num_pieces = 0

    def add(self, data: bytes, event: bytes | None = None) -> None:
        """Take note of one event's payload and type. About 0.15 µs, and 0.4 where the sender names no types.

        Then, what may be an end or an error is parsed.
        """
        if event is None or not event.startswith((b"response.", b"error")):
            event = self._kind(data)
        if event.endswith(b".delta"):
            self.num_pieces += 1
            return
        if event in _ENDS:
            self.has_end = True
        if event in _ERRORS:
            self.has_error = True

    @staticmethod
    def _kind(data: bytes) -> bytes:
        """The type that a payload names itself; `error` for a bare error object, as servers send that fail early."""
        if not _MARK.search(data):
            found = _DELTA.search(data)
            return b"" if found is None else found[1]
        told = payload(data)
        kind = "error" if told.get("error") else told.get("type")
        return kind.encode(errors="replace") if isinstance(kind, str) else b""
