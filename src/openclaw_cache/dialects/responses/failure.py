"""Write an error into a Responses stream that has begun."""

from __future__ import annotations

from typing import Final

import orjson

from openclaw_cache.errors import RequestError

_LAST_NUMBER: Final = 2**31 - 1
"""Sequence number of the error: readers demand one, and it is to be above those of the events that went before,
which nobody counted."""


def error_event(error: RequestError) -> bytes:
    """Return the `error` event, in both forms that are in use.

    OpenAI documents `code`, `message` and `param` beside the type, which is what typed clients read; its own API
    sends them in an `error` object, and only on that the official Python and Node SDKs raise an APIError.
    """
    told = {"code": error.code, "message": error.message, "param": error.param}
    event = {
        "type": "error",
        **told,
        "sequence_number": _LAST_NUMBER,
        "error": {"type": error.kind, **told},
    }
    return b"event: error\ndata: " + orjson.dumps(event) + b"\n\n"
