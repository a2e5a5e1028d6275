"""The little of ASGI that the engine's endpoints share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import orjson

from openclaw_cache.errors import RequestError

if TYPE_CHECKING:
    from openclaw_cache.types import Headers, Json

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

SALT_HEADER = b"x-openclaw-kv-salt"

_MOST_BODY_BYTES = 32 * 1024 * 1024
_MOST_SALT_BYTES = 64


def salt_of(scope: Scope) -> bytes:
    """The namespace's salt, as the gateway sends it in hex; requests without one share the empty salt.

    Raises:
        RequestError: 400, it is no hex number of at most 64 bytes.
    """
    value = header(scope, SALT_HEADER)
    return b"" if value is None else parse_salt(value.decode("latin-1"))


def parse_salt(text: str) -> bytes:
    """A salt from its hex form.

    Raises:
        RequestError: 400, it is no hex number of at most 64 bytes.
    """
    try:
        salt = bytes.fromhex(text)
    except ValueError:
        salt = b"\0" * (_MOST_SALT_BYTES + 1)
    if len(salt) > _MOST_SALT_BYTES:
        raise RequestError(400, "the KV salt must be at most 64 bytes in hex", param=SALT_HEADER.decode())
    return salt


def forbids_storing(scope: Scope) -> bool:
    """Whether `Cache-Control: no-store` (RFC 9111 §5.2.1.5) is given: then the KV stays in memory."""
    values = [value for name, value in scope["headers"] if name == b"cache-control"]
    return any(part.strip().lower() == b"no-store" for value in values for part in value.split(b","))


def header(scope: Scope, name: bytes) -> bytes | None:
    """The first header of this name (lower case)."""
    return next((value for other, value in scope["headers"] if other == name), None)


async def unless_gone(receive: Receive, answer: Awaitable[None]) -> None:
    """Run `answer` to its end, or cancel it when the client closes its connection."""
    answering = asyncio.ensure_future(answer)
    watching = asyncio.create_task(_wait_gone(receive))
    try:
        await asyncio.wait({answering, watching}, return_when=asyncio.FIRST_COMPLETED)
        if answering.done():
            answering.result()
    finally:
        for task in (answering, watching):
            task.cancel()
            with suppress(asyncio.CancelledError, RequestError, OSError):
                await task


async def _wait_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def read_body(receive: Receive) -> bytes:
    """The whole body of a request.

    Raises:
        RequestError: it is too large, or the client has gone.
    """
    parts: list[bytes] = []
    num_bytes = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise RequestError(400, "the client went away before its request was complete")
        parts.append(message.get("body", b""))
        num_bytes += len(parts[-1])
        if num_bytes > _MOST_BODY_BYTES:
            raise RequestError(413, f"the request body is larger than {_MOST_BODY_BYTES} bytes")
        if not message.get("more_body", False):
            return b"".join(parts)


async def send_json(send: Send, status: int, document: Json, headers: Headers | None = None) -> None:
    """Send a whole JSON reply."""
    body = orjson.dumps(document)
    fields = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        *(headers or []),
    ]
    await send({"type": "http.response.start", "status": status, "headers": fields})
    await send({"type": "http.response.body", "body": body})
