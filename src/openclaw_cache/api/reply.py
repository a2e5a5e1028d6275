"""Small replies of our own, whole and at once; and what every request is known by."""

from __future__ import annotations

import os
import re
from collections.abc import MutableMapping
from typing import Any

import orjson
import structlog

from openclaw_cache.api.relay import Send
from openclaw_cache.errors import RequestError
from openclaw_cache.types import Headers

Scope = MutableMapping[str, Any]

JSON: tuple[bytes, bytes] = (b"content-type", b"application/json")

_log = structlog.get_logger()
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:/+=@-]{1,128}")


def request_id(headers: Headers) -> str:
    """The client's own request id where it is well formed, else a new one."""
    for name, value in headers:
        if name == b"x-request-id" and _REQUEST_ID.fullmatch(value):
            return value.decode()
    # Random, not counted: one client must not see how many requests others make. Half the cost of a uuid4.
    return os.urandom(16).hex()


def peer(scope: Scope) -> str | None:
    """The address that the connection came from."""
    client = scope.get("client")
    return client[0] if client else None


async def send_body(send: Send, status: int, headers: Headers, body: bytes) -> None:
    """Write a whole reply. Adds its length to `headers`."""
    headers.append((b"content-length", b"%d" % len(body)))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def send_json(send: Send, status: int, value: object, request_id: str) -> None:
    """Write a JSON reply."""
    await send_body(send, status, [JSON, (b"x-request-id", request_id.encode())], orjson.dumps(value))


async def send_error(
    send: Send, error: RequestError, body: bytes, request_id: str, extra: Headers | None = None
) -> None:
    """Write an error, whose `body` is in the dialect of its client."""
    headers: Headers = [JSON, (b"x-request-id", request_id.encode()), *(extra or [])]
    if error.retry_after_s is not None:
        headers.append((b"retry-after", b"%d" % error.retry_after_s))
    if error.status in (408, 413):
        headers.append((b"connection", b"close"))
    await send_body(send, error.status, headers, body)


def cut_off() -> RequestError:
    """What a request gets that the end of a drain cuts off."""
    return RequestError(503, "cut off at shutdown", kind="api_error", code="shutting_down", retry_after_s=1)


def log_refusal(api: str, error: RequestError, request_id: str) -> None:
    """The one log line of a request that was refused before anything else is known of it."""
    _log.info(
        "request",
        request_id=request_id,
        api=api[:64],
        status=error.status,
        outcome="error",
        error=error.code or error.kind,
    )
