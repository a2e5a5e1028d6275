"""The HTTP side of an upstream in the shape of a vendor's API: what it answers is a pure function of the request."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from aiohttp import web

_HOLD_S = 120.0


@dataclass(frozen=True, slots=True)
class VendorCall:
    """One request that arrived; header names are lower case, in the order in which they came."""

    method: str
    path: str
    query: str
    headers: list[tuple[str, str]]
    raw: bytes

    @property
    def body(self) -> dict[str, Any]:
        """The decoded body."""
        body: dict[str, Any] = json.loads(self.raw)
        return body

    def header(self, name: str) -> str | None:
        """A header's first value."""
        return next((value for found, value in self.headers if found == name), None)


@dataclass(frozen=True, slots=True)
class VendorReply:
    """A reply: one JSON body, or the frames of an event stream."""

    whole: dict[str, Any] | None = None
    frames: list[bytes] = field(default_factory=list)
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


class VendorUpstream:
    """Serves every path on a free port, from a thread of its own. Use as a context manager.

    Args:
        answer: The reply to a request.

    Attributes:
        calls: What has arrived.
        holds: Where replies stop until their client leaves: nowhere, before their head, or in a stream's middle.
        held: Set when a reply has stopped.
        gone: Set when the client of such a reply has left.
    """

    def __init__(self, answer: Callable[[VendorCall], VendorReply]) -> None:
        self.calls: list[VendorCall] = []
        self.holds: Literal["nowhere", "head", "middle"] = "nowhere"
        self.held = threading.Event()
        self.gone = threading.Event()
        self.url = ""
        self._answer = answer
        self._instead: deque[VendorReply] = deque()
        self._loop = asyncio.new_event_loop()
        self._up = threading.Event()
        self._thread = threading.Thread(target=self._run, name="vendor-upstream", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._up.wait(10), "the upstream did not start"
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    @contextlib.contextmanager
    def holding(self, where: Literal["head", "middle"]) -> Iterator[None]:
        """Meanwhile replies stop there."""
        self.held.clear()
        self.gone.clear()
        self.holds = where
        try:
            yield
        finally:
            self.holds = "nowhere"

    def answer_next(self, *replies: VendorReply) -> None:
        """Give these replies to the next requests, whatever they ask."""
        self._instead.extend(replies)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        runner = self._loop.run_until_complete(self._start())
        self._up.set()
        self._loop.run_forever()
        self._loop.run_until_complete(runner.cleanup())
        self._loop.close()

    async def _start(self) -> web.AppRunner:
        app = web.Application(client_max_size=64 * 2**20)
        app.router.add_get("/health", self._health)
        app.router.add_route("*", "/{path:.*}", self._serve)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5, handler_cancellation=True)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"
        return runner

    async def _hold(self) -> None:
        self.held.set()
        try:
            await asyncio.sleep(_HOLD_S)
        finally:  # cancelled as soon as the connection closes
            self.gone.set()

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        headers = [(name.lower(), value) for name, value in request.headers.items()]
        raw = await request.read()
        call = VendorCall(request.method, request.path, request.query_string, headers, raw)
        self.calls.append(call)
        reply = self._instead.popleft() if self._instead else self._answer(call)
        if self.holds == "head":
            await self._hold()
        if not reply.frames:
            body = json.dumps(reply.whole, ensure_ascii=False).encode()
            headers_out = {"Content-Type": "application/json"} | reply.headers
            return web.Response(status=reply.status, body=body, headers=headers_out)
        response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream; charset=utf-8"} | reply.headers
        )
        await response.prepare(request)
        half = len(reply.frames) // 2
        await response.write(b"".join(reply.frames[:half]))
        if self.holds == "middle":
            await self._hold()
        await response.write(b"".join(reply.frames[half:]))
        await response.write_eof()
        return response
