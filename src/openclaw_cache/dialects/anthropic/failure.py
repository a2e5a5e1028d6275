"""Write errors in Anthropic's own shape, for a response and for a stream that has begun."""

from __future__ import annotations

from typing import Final

import orjson

from openclaw_cache.errors import RequestError

_KINDS: Final = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}
"""Type of an error by its status. Other 4xx are `invalid_request_error`, the rest `api_error`."""


def error_body(error: RequestError) -> bytes:
    """Return the JSON body `{"type": "error", "error": {type, message}}`."""
    kind = _KINDS.get(error.status) or ("invalid_request_error" if 400 <= error.status < 500 else "api_error")
    return orjson.dumps({"type": "error", "error": {"type": kind, "message": error.message}})


def error_event(error: RequestError) -> bytes:
    """Return the event that ends a stream which failed. The official SDKs raise on it; nothing follows."""
    return b"event: error\ndata: " + error_body(error) + b"\n\n"
