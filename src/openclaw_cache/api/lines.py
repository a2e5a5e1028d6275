"""An answer that comes line by line, for as long as its reader stays."""

from __future__ import annotations

from collections.abc import AsyncIterator

import orjson

from openclaw_cache.api.relay import CLIENT_GONE, Receive, Send
from openclaw_cache.api.watch import ClientGoneError, while_connected
from openclaw_cache.errors import RequestError
from openclaw_cache.types import Headers

CONTENT_TYPE = b"application/x-ndjson"


async def send_lines(lines: AsyncIterator[bytes], headers: Headers, receive: Receive, send: Send) -> int:
    """Write `lines` as they come; returns the status, `CLIENT_GONE` where the reader left first.

    The status is sent before the first line, so a failure after it is a line of its own, the last:
    `{"done": false, "error": …}`.
    """
    await send(
        {
            "type": "http.response.start",
            "status": 200,
            "headers": [(b"content-type", CONTENT_TYPE), (b"cache-control", b"no-cache"), *headers],
        }
    )

    async def write() -> None:
        try:
            async for line in lines:
                await send({"type": "http.response.body", "body": line, "more_body": True})
        except RequestError as e:
            last = orjson.dumps({"done": False, "error": e.message}) + b"\n"
            await send({"type": "http.response.body", "body": last, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    try:
        await while_connected(receive, write())
    except ClientGoneError:
        return CLIENT_GONE
    return 200
