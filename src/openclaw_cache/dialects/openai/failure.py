"""Write errors in OpenAI's own shape, for a response and for a stream that has begun."""

from __future__ import annotations

import orjson

from openclaw_cache.errors import RequestError


def error_body(error: RequestError) -> bytes:
    """Return the JSON body `{"error": {message, type, param, code}}`."""
    return orjson.dumps(
        {
            "error": {
                "message": error.message,
                "type": error.kind,
                "param": error.param,
                "code": error.code,
            }
        }
    )


def error_event(error: RequestError) -> bytes:
    """Return the events that end a stream that failed: the error object, then `[DONE]`.

    The official Python and Node SDKs raise APIError on a payload with an `error` object and stop reading
    at `[DONE]`, so the error must come first; `[DONE]` frees clients that only wait for the end.
    """
    return b"data: " + error_body(error) + b"\n\ndata: [DONE]\n\n"
