"""A gateway inside the test's own event loop: the real composition and HTTP server, with a real Valkey."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import signal
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import uvicorn
from multidict import CIMultiDictProxy

from openclaw_cache.api.connection import BoundedConnection
from openclaw_cache.app import App
from openclaw_cache.config import load

Json = Any


@dataclass(slots=True)
class Answer:
    """A whole HTTP reply."""

    status: int
    headers: CIMultiDictProxy[str]
    body: bytes

    @property
    def cache_status(self) -> str | None:
        """The reply's Cache-Status."""
        return self.headers.get("cache-status")

    @property
    def is_hit(self) -> bool:
        """Whether the exact cache answered."""
        return self.cache_status == "openclaw-cache; hit; detail=exact"

    def json(self) -> Json:
        """The decoded body."""
        return json.loads(self.body)

    @property
    def text(self) -> str:
        """The assistant's text, from a whole reply or from a stream."""
        if self.headers["content-type"].startswith("text/event-stream"):
            return "".join(
                choice["delta"].get("content") or ""
                for event in self.events()
                if event != "[DONE]"
                for choice in event.get("choices", ())
            )
        content: str = self.json()["choices"][0]["message"]["content"]
        return content

    def events(self) -> list[Json]:
        """The payloads of a stream that uses LF only, decoded; `[DONE]` as text."""
        found: list[Json] = []
        for frame in self.body.split(b"\n\n"):
            data = b"\n".join(line[5:].strip() for line in frame.split(b"\n") if line.startswith(b"data:"))
            if data:
                found.append("[DONE]" if data == b"[DONE]" else json.loads(data))
        return found


@dataclass(slots=True)
class Served:
    """A running gateway and a client for it."""

    app: App
    url: str
    session: aiohttp.ClientSession
    said: list[str] = field(default_factory=list)

    async def ask(
        self,
        body: Json = None,
        *,
        raw: bytes | None = None,
        headers: Mapping[str, str] | list[tuple[str, str]] | None = None,
        query: str = "",
        path: str = "/v1/chat/completions",
    ) -> Answer:
        """POST a chat completion and read the whole reply."""
        async with self.send(body, raw=raw, headers=headers, query=query, path=path) as response:
            return Answer(response.status, response.headers, await response.read())

    def send(
        self,
        body: Json = None,
        *,
        raw: bytes | None = None,
        headers: Mapping[str, str] | list[tuple[str, str]] | None = None,
        query: str = "",
        path: str = "/v1/chat/completions",
    ) -> Any:
        """POST a chat completion; an async context manager of the open response."""
        content = json.dumps(chat() if body is None else body).encode() if raw is None else raw
        return self.session.post(self.url + path + query, data=content, headers=headers)

    async def get(self, path: str, headers: Mapping[str, str] | None = None) -> Answer:
        """GET a path."""
        async with self.session.get(self.url + path, headers=headers) as response:
            return Answer(response.status, response.headers, await response.read())

    async def metric(self, name: str) -> float:
        """The sum of a metric's samples whose line begins with `name` (labels included)."""
        text = (await self.get("/metrics")).body.decode()
        return sum(float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(name))

    async def written(self) -> None:
        """Wait until the store has every entry put so far."""
        assert await self.app.gateway.cache.flush(10.0)

    @property
    def num_flights(self) -> int:
        """Flights that identical requests may join now."""
        return len(self.app.gateway.flights)

    def forget_memory(self) -> None:
        """Empty the memory tier, so that the next look-up goes to Valkey."""
        memory = self.app.gateway.cache._memory
        for key, _, _ in memory.items():
            memory.remove(key)


def chat(prompt: str = "What is the capital of France?", **fields: Json) -> dict[str, Json]:
    """A chat request."""
    return {"model": "pod-model", "messages": [{"role": "user", "content": prompt}], **fields}


def dated(question: str, second: int) -> dict[str, Json]:
    """A chat request whose system prompt begins with a clock: it breaks the prefix of every request of a session."""
    clock = f"Current date and time: Monday, March 9, 2026 at 06:00:{second % 60:02d} PM PDT"
    system = "You are a helper.\n" + clock + "\n" + "Birds sleep in trees. " * 100
    return chat(question) | {
        "messages": [{"role": "system", "content": system}, {"role": "user", "content": question}]
    }


@contextlib.asynccontextmanager
async def served(
    data_dir: Path, urls: list[str], *, env: Mapping[str, str] | None = None, **settings: Json
) -> AsyncIterator[Served]:
    """Run a gateway for some upstream URLs. `settings` are dotted fields written with `__`, as in env."""
    upstream = {"name": "pods", "kind": "openai", "urls": urls, **settings.pop("upstream", {})}
    overrides: dict[str, object] = {
        "server.data_dir": str(data_dir),
        "server.ping_interval": "5s",
        "store.timeout": "500ms",  # a busy test machine is not what these tests are about
        "upstreams": [upstream],
    }
    overrides |= {name.replace("__", "."): value for name, value in settings.items()}
    said: list[str] = []
    app = App(load(None, env={}, overrides=overrides).settings, said.append, env or {})
    try:
        await app.start()
        config = uvicorn.Config(
            app.asgi,
            port=0,
            http=functools.partial(  # type: ignore[arg-type] # called like the class it stands for
                BoundedConnection, write_timeout_s=app.settings.server.write_timeout
            ),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=2,
        )
        server = uvicorn.Server(config)
        config.load()
        server.lifespan = config.lifespan_class(config)
        await server.startup()
        port = server.servers[0].sockets[0].getsockname()[1]
        connector = aiohttp.TCPConnector(limit=0)
        try:
            async with aiohttp.ClientSession(connector=connector, auto_decompress=False) as session:
                yield Served(app, f"http://127.0.0.1:{port}", session, said)
        finally:
            await _close(server)
    finally:
        _kill_store(app)
        await app.stop()


async def _close(server: uvicorn.Server) -> None:
    """What uvicorn does at its end, without its waits of a tenth of a second."""
    for listener in server.servers:
        listener.close()
    state = server.server_state
    for connection in list(state.connections):
        connection.shutdown()
    for task in list(state.tasks):
        task.cancel()
    async with asyncio.timeout(5):
        while state.connections or state.tasks:
            await asyncio.sleep(0.002)


def _kill_store(app: App) -> None:
    """End the store at once: asked kindly it takes a tenth of a second, and hundreds of tests would wait for it."""
    asgi = getattr(app, "asgi", None)
    embedded = asgi._admin._embedded if asgi is not None else None
    if embedded is not None and embedded.pid is not None:
        os.kill(embedded.pid, signal.SIGKILL)
