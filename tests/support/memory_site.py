"""What tests of agents' memories share: a gateway, and an agent on it to talk to."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from yarl import URL

from support.served import Answer, Served, served

Json = Any
NOBODY = "http://127.0.0.1:9"
"""Memory asks no upstream."""


@dataclass(slots=True)
class Agent:
    """One agent as its host talks to it. `name` stands in the path as it is, if it is `raw`."""

    gateway: Served
    name: str = "main"
    headers: dict[str, str] = field(default_factory=dict)
    raw: bool = False

    @property
    def path(self) -> str:
        """The agent's own path."""
        return "/v1/agents/" + (self.name if self.raw else quote(self.name, safe=""))

    async def send(
        self, method: str, rest: str = "", body: Json = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Send a request; bytes go as they are."""
        content = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        url = URL(f"{self.gateway.url}{self.path}{'/' if rest else ''}{rest}", encoded=True)
        async with self.gateway.session.request(
            method, url, data=content, headers={**self.headers, **(headers or {})}
        ) as reply:
            return Answer(reply.status, reply.headers, await reply.read())

    async def post(self, rest: str, body: Json) -> Json:
        """A POST that succeeds: its reply."""
        answer = await self.send("POST", rest, body)
        assert answer.status in (200, 201), answer.body
        return answer.json()

    async def get(self, rest: str) -> Json:
        """A GET that succeeds: its reply."""
        answer = await self.send("GET", rest)
        assert answer.status == 200, answer.body
        return answer.json()

    async def store(self, text: str, **fields: Json) -> Json:
        """Store a memory; returns it."""
        return (await self.post("memories", {"text": text, **fields}))["memory"]

    async def find(self, query: str, **fields: Json) -> list[str]:
        """The texts that a search finds, best first."""
        reply = await self.post("memories:search", {"query": query, **fields})
        return [result["memory"]["text"] for result in reply["results"]]

    async def texts(self) -> list[str]:
        """The texts of all current memories, in the order in which they were made."""
        return [memory["text"] for memory in (await self.get("memories?limit=1000"))["memories"]]

    async def indexed(self) -> None:
        """Wait until every passage has its vector."""
        async with asyncio.timeout(60):
            while (await self.get("stats"))["num_without_vector"] != 0:
                await asyncio.sleep(0.05)

    async def refused(self, method: str, rest: str, body: Json = None, **headers: str) -> tuple[int, Json]:
        """A request that is refused: its status and error."""
        answer = await self.send(method, rest, body, headers)
        assert answer.status >= 400, answer.body
        return answer.status, answer.json()["error"]


@contextlib.asynccontextmanager
async def remembering(data_dir: Path, **settings: Json) -> AsyncIterator[Served]:
    """A gateway whose memory waits for its embedder: a busy test machine is not what these tests are about."""
    patient = {"memory__embedder_timeout": "20s"}
    async with served(data_dir, [NOBODY], **{**patient, **settings}) as running:
        yield running


@contextlib.asynccontextmanager
async def without_vectors(data_dir: Path, **settings: Json) -> AsyncIterator[Served]:
    """A gateway whose memory has no embedder: quick, and finds by words and time."""
    async with served(data_dir, [NOBODY], **{"memory__embedder": None, **settings}) as running:
        yield running


def error_of(answer: Answer) -> tuple[int, str | None, str | None]:
    """Status, code and field of an error."""
    error = answer.json()["error"]
    return answer.status, error["code"], error["param"]
