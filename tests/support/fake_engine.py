"""An embedded engine without a model: its HTTP surface with a script for answers, and the pod that stands for it."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Self

from aiohttp import web

from openclaw_cache.errors import ConfigError

Json = Any

STATUS: dict[str, Json] = {
    "enabled": True,
    "block_tokens": 16,
    "tiers": [
        {"tier": "device", "num_blocks": 120, "capacity_blocks": 4096, "num_bytes": 1_200_000,
         "capacity_bytes": 40_960_000, "num_hits_tokens": 600, "state": "ok", "reason": None},
        {"tier": "host", "num_blocks": 80, "capacity_blocks": 8000, "num_bytes": 800_000,
         "capacity_bytes": 80_000_000, "num_hits_tokens": 150, "state": "ok", "reason": None},
        {"tier": "disk", "num_blocks": 0, "capacity_blocks": 0, "num_bytes": 0, "capacity_bytes": 0,
         "num_hits_tokens": 50, "state": "dead", "reason": "no space left"},
    ],
    "blocks": {
        "device": {"free": 3976, "running": 4, "new": 70, "hit": 46, "pinned": 12},
        "host": {"free": 7920, "new": 60, "hit": 20},
    },
    "num_lookups_tokens": 1000,
    "hit_ratio": 0.8,
    "saved_prefill_s": 12.5,
    "prefill_s_per_token": 0.002,
    "num_evicted_blocks": {"device": 5, "host": 2},
    "pins": [{"id": "p1", "num_tokens": 2048, "expires_at": 1_800_000_000.0}],
    "running": 2,
    "waiting": 1,
    "integrity": {"checked_at": 1_700_000_000.0, "ok": True},
}  # fmt: skip

ROWS: list[dict[str, Json]] = [
    {"id": 1, "parent": None, "root": 0, "start": 0, "num_tokens": 512, "num_blocks": 32, "state": "hit",
     "tiers": {"device": 32, "host": 32, "disk": 0}, "num_hits": 7, "num_pins": 1, "text": "You are Finn."},
    {"id": 2, "parent": 1, "root": 0, "start": 512, "num_tokens": 20, "num_blocks": 1, "state": "new",
     "tiers": {"device": 1, "host": 0, "disk": 0}, "num_hits": 0, "num_pins": 0, "text": "private words"},
    {"id": 3, "parent": 1, "root": 0, "start": 512, "num_tokens": 9, "num_blocks": 0, "state": "evicted"},
]  # fmt: skip


class FakeEngine:
    """The engine's HTTP surface. `calls` holds (method and path, query, decoded body, headers) in order."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, str], Json, dict[str, str]]] = []
        self.status: Json = STATUS
        self.silent = False
        """Whether /kv/status is never answered."""
        self.refusal: tuple[int, str] | None = None
        self.warm_lines: Callable[[Json], list[Json]] = warmed
        self.breaks_after: int | None = None
        """Breaks the connection after this many lines of a warm-up."""
        self.pause: asyncio.Event | None = None
        """Waited for after the first line of a warm-up."""
        self.warm_ended = asyncio.Event()
        self.tree_fields: dict[str, Json] = {}
        """What /kv/tree tells besides rows: `enabled`, `roots`."""
        self.kv_header: str | None = "computed=5, device=64, host=16, disk=0"
        self.num_hinted = 1
        self.url = ""

    def seen(self, what: str) -> list[Json]:
        """The bodies of the calls of this method and path."""
        return [body for called, _, body, _ in self.calls if called == what]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        """Serve on a free port."""
        app = web.Application(client_max_size=10**8)
        app.router.add_route("*", "/{path:.*}", self._serve)
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield self
        finally:
            await runner.cleanup()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        what = f"{request.method} {request.path}"
        body = json.loads(raw) if raw else None
        self.calls.append(
            (what, dict(request.query), body, {k.lower(): v for k, v in request.headers.items()})
        )
        if what == "POST /v1/chat/completions":
            return self._chat(body)
        if self.refusal is not None:
            status, message = self.refusal
            return web.json_response({"error": {"message": message}}, status=status)
        match what:
            case "GET /kv/status":
                if self.silent:
                    await asyncio.sleep(60)
                return web.json_response(self.status)
            case "GET /kv/tree":
                rows = ROWS[: int(request.query["limit"])]
                return web.json_response({"rows": rows, "is_cut": False, **self.tree_fields})
            case "POST /kv/evict":
                report = {"num_blocks": 7, "num_tokens": 112, "num_pinned_blocks": 2}
                return web.json_response(report | {"dry_run": body["dry_run"]})
            case "POST /kv/hint":
                return web.json_response({"num_nodes": self.num_hinted})
            case "POST /kv/warm":
                return await self._warm(request, body)
        return web.json_response({"error": {"message": f"no {what} here"}}, status=404)

    async def _warm(self, request: web.Request, body: Json) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "application/x-ndjson"})
        await response.prepare(request)
        try:
            for i, line in enumerate(self.warm_lines(body)):
                if i == self.breaks_after and request.transport is not None:
                    for part in (b'{"index": ', b"1, "):  # two pieces of a line that never ends
                        await response.write(part)
                        await asyncio.sleep(0.05)
                    request.transport.abort()
                await response.write(json.dumps(line).encode() + b"\n")
                if self.pause is not None:
                    await self.pause.wait()
        finally:
            self.warm_ended.set()
        return response

    def _chat(self, body: Json) -> web.Response:
        headers = {} if self.kv_header is None else {"x-openclaw-kv": self.kv_header}
        message = {"role": "assistant", "content": "Paris"}
        reply = {
            "id": "c", "object": "chat.completion", "created": 1, "model": body["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 85, "completion_tokens": 1, "total_tokens": 86,
                      "prompt_tokens_details": {"cached_tokens": 80}},
        }  # fmt: skip
        return web.json_response(reply, headers=headers)


def warmed(order: Json) -> list[Json]:
    """The lines of a warm-up in which everything is well."""
    lines: list[Json] = [
        {"index": i, "num_tokens": 100, "num_cached_tokens": 32, "num_computed_tokens": 68}
        for i in range(len(order["prompts"]))
    ]
    pins = [{"id": "p1", "num_tokens": 100, "expires_at": 2_000_000_000.0}] if order["pin_s"] else []
    return [*lines, {"done": True, "pins": pins}]


class FakePod:
    """Takes the place of `EmbeddedPod`: the same surface, before an engine that already runs."""

    def __init__(self, engine: FakeEngine, **options: Any) -> None:
        self.engine = engine
        self.options = options
        self.model_ids = [options["model"]]
        self.fingerprint: str | None = "f" * 64
        self.state = "ready"
        self.reason: str | None = None
        self.pid: int | None = os.getpid()

    @property
    def is_ready(self) -> bool:
        return self.state == "ready"

    @property
    def url(self) -> str | None:
        return self.engine.url

    async def start(self) -> None:
        pass

    async def stop(self) -> None:
        self.state = "stopped"

    async def wait_ready(self, timeout_s: float) -> None:
        if not self.is_ready:
            raise ConfigError(f"the embedded engine has {self.state}")
