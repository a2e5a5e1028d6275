"""Follow a live stream, event by event, at a fraction of what parsing it would cost."""

from __future__ import annotations

import re
from typing import Final

from openclaw_cache.dialects.payload import payload

DONE: Final = b"[DONE]"
"""Payload of the event that ends every complete stream."""

_CONTENT: Final = b'"content":"'
_PIECE: Final = re.compile(rb'"(?:content|text|arguments|reasoning_content|reasoning|refusal|name)": ?"[^"]')
"""A member that brings something of the reply, and is not empty; quotes inside a text are escaped."""


class StreamProgress:
    """Whether a stream has come to its end as the protocol says: `[DONE]`, and no error object before it.

    A stream that ends without `[DONE]` is cut, whatever came before: it is not stored, and its client must
    be told by an error event instead of an invented clean end. Whether each choice finished is for `merge`
    and `refusal_to_store` to say, which read every chunk.
    """

    __slots__ = ("has_end", "has_error", "num_pieces")

    def __init__(self) -> None:
        self.has_end = False
        self.has_error = False
        self.num_pieces = 0

    def add(self, data: bytes, event: bytes | None = None) -> None:
        """Take note of one event's payload and type. About 0.5 µs: only what may be an error is parsed."""
        if event == b"error" or (b'"error"' in data and _is_error(data)):
            self.has_error = True
        elif data.startswith(DONE):
            self.has_end = True
        elif _brings_something(data):
            self.num_pieces += 1


def _brings_something(data: bytes) -> bool:
    at = data.find(_CONTENT)  # what nearly every event has, found in a fourth of the time
    if at >= 0 and not data.startswith(b'"', at + len(_CONTENT)):
        return True
    return _PIECE.search(data) is not None


def _is_error(data: bytes) -> bool:
    chunk = payload(data)
    return bool(chunk.get("error")) or "error" in (chunk.get("object"), chunk.get("type"))


def is_usage_event(data: bytes) -> bool:
    """Whether a payload is the usage-only chunk (`choices: []` and a usage object).

    Where we asked the upstream for usage and the client did not, the client must not see this event.
    Chunks without usage, or with `usage: null`, cost about 0.3 µs.
    """
    at = data.find(b'"usage"')  # never inside a generated text: quotes are escaped there
    if at < 0 or data.startswith(b":null", at + 7):
        return False
    chunk = payload(data)
    return chunk.get("choices") == [] and isinstance(chunk.get("usage"), dict)
