"""What the machine allows: the least that a cached hit and a relay can cost on the server that we use too.

    python -m benchmarks.gateway.baseline PORT UPSTREAM

`/hit`: parses the JSON, hashes its sorted form (BLAKE3) and answers from a dict. `/relay`: sends the body on
with aiohttp and relays the reply as it comes. Neither does anything else: no headers, checks, metrics or logs.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import orjson
import uvicorn
from benchmarks.gateway.stub import reply_body
from blake3 import blake3

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

REPLY = reply_body()
JSON = (b"content-type", b"application/json")


class Baseline:
    """The ASGI application."""

    def __init__(self, upstream: str) -> None:
        self._upstream = upstream
        self._replies: dict[bytes, bytes] = {}
        self._session: aiohttp.ClientSession | None = None

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        if scope["path"].startswith("/hit"):
            await self._hit(body, send)
        else:
            await self._relay(body, send)

    async def _hit(self, body: bytes, send: Send) -> None:
        value = orjson.loads(body)
        key = blake3(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).digest()
        reply = self._replies.setdefault(key, REPLY)
        headers = [JSON, (b"content-length", b"%d" % len(reply))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": reply})

    async def _relay(self, body: bytes, send: Send) -> None:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0), cookie_jar=aiohttp.DummyCookieJar()
            )
        url = f"{self._upstream}/v1/chat/completions"
        async with self._session.post(url, data=body, headers={"content-type": "application/json"}) as reply:
            kind = reply.content_type.encode()
            if kind == b"application/json":
                whole = await reply.read()
                headers = [(b"content-type", kind), (b"content-length", b"%d" % len(whole))]
                await send({"type": "http.response.start", "status": reply.status, "headers": headers})
                await send({"type": "http.response.body", "body": whole})
                return
            headers = [(b"content-type", kind)]
            await send({"type": "http.response.start", "status": reply.status, "headers": headers})
            async for part in reply.content.iter_any():
                await send({"type": "http.response.body", "body": part, "more_body": True})
            await send({"type": "http.response.body", "body": b""})


if __name__ == "__main__":
    uvicorn.run(
        Baseline(sys.argv[2]),
        host="127.0.0.1",
        port=int(sys.argv[1]),
        loop="uvloop",
        http="httptools",
        ws="none",
        lifespan="off",
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=75,
    )
