"""The gateway or its Valkey ends in the middle of its work: no wrong answer, no hang, entries complete or absent."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from openclaw_cache.result.entry import prompt_text
from support.admin import metric, status
from support.answering_upstream import AnsweringUpstream, answer_text
from support.entries import embedded_valkey, stored_entries
from support.raw_http import RawReply, encoded, post_chat
from support.running import RunningGateway

NUM_REQUESTS = 1000
NUM_PROMPTS = 200
NUM_CLIENTS = 16
LONGEST_S = 60.0
"""No request may take longer, tries and the gateway's restart included."""


def prompt(number: int) -> dict[str, Any]:
    return {
        "model": "peer-1",
        "messages": [
            {"role": "system", "content": "You are terse. " * 50},
            {"role": "user", "content": f"Question {number}: 为什么?"},
        ],
    }


def schedule() -> list[dict[str, Any]]:
    """The requests in order: new prompts all along the way, so that some are in flight at any moment.

    Every other request streams, so half of the hits are replies that came the other way.
    """
    draw = random.Random(20)
    order = []
    for i in range(NUM_REQUESTS):
        body = prompt(draw.randrange(1 + i * NUM_PROMPTS // NUM_REQUESTS))
        order.append(body | {"stream": True, "stream_options": {"include_usage": True}} if i % 2 else body)
    return order


@dataclass(slots=True)
class Clients:
    """Sends the schedule through `NUM_CLIENTS` workers; a try without a complete reply is repeated."""

    gateway: RunningGateway
    replies: list[tuple[dict[str, Any], RawReply]] = field(default_factory=list)
    num_broken: int = 0

    async def run(self, kill: Callable[[], None], kill_after: int) -> None:
        todo = iter(schedule())
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector) as session:

            async def work() -> None:
                for body in todo:
                    async with asyncio.timeout(LONGEST_S):
                        self.replies.append((body, await self._ask(session, body)))
                    if len(self.replies) == kill_after:
                        await asyncio.to_thread(kill)

            async with asyncio.TaskGroup() as group:
                for _ in range(NUM_CLIENTS):
                    group.create_task(work())

    async def _ask(self, session: aiohttp.ClientSession, body: dict[str, Any]) -> RawReply:
        while True:
            try:
                async with session.post(f"{self.gateway.url}/v1/chat/completions", json=body) as response:
                    raw = await response.read()
                    headers = {name.lower(): value for name, value in response.headers.items()}
                    return RawReply(response.status, headers, raw)
            except (aiohttp.ClientError, OSError):
                self.num_broken += 1
                await asyncio.sleep(0.05)

    @property
    def num_different(self) -> int:
        """How many different prompts were asked."""
        return len({json.dumps(body["messages"]) for body, _ in self.replies})

    def check(self) -> None:
        """Every request has one complete, right answer."""
        assert len(self.replies) == NUM_REQUESTS
        for body, reply in self.replies:
            assert reply.status == 200
            assert reply.text == answer_text(body)


@pytest.fixture
def upstream() -> Iterator[AnsweringUpstream]:
    with AnsweringUpstream(delay_s=0.05) as running:
        yield running


@pytest.fixture
def gateway(tmp_path: Path, upstream: AnsweringUpstream) -> Iterator[RunningGateway]:
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    config = {
        "upstreams": [{"name": "peer", "kind": "openai", "urls": [upstream.url]}],
        "store": {
            "timeout": "5s"
        },  # a busy machine is not the fault under test; a dead store answers at once
    }
    with RunningGateway(data_dir, config) as running:
        yield running


def checked_entries(gateway: RunningGateway) -> set[bytes]:
    """The keys of what lies in Valkey; each entry is whole and the answer to its own prompt."""
    answers = {f"Question {number}: 为什么?": answer_text(prompt(number)) for number in range(NUM_PROMPTS)}
    with embedded_valkey(gateway.data_dir) as client:
        entries = stored_entries(client, gateway.data_dir / "secret")
    for entry in entries.values():
        question = prompt_text(entry).rpartition("\n")[2]
        assert json.loads(entry.reply)["choices"][0]["message"]["content"] == answers[question]
    return set(entries)


async def settled(gateway: RunningGateway) -> dict[str, Any]:
    """Wait until the store is up and nothing waits to be written; returns the store's status."""
    async with asyncio.timeout(30):
        while True:
            shown = status(gateway.url)
            if shown["store"]["up"] and not shown["result_cache"]["memory"]["num_pending_writes"]:
                store: dict[str, Any] = shown["store"]
                return store
            await asyncio.sleep(0.05)


async def test_the_gateway_killed_in_the_middle_of_1000_requests(
    gateway: RunningGateway, upstream: AnsweringUpstream
) -> None:
    clients = Clients(gateway)
    kept: set[bytes] = set()

    def kill() -> None:
        gateway.stop(signal.SIGKILL)
        kept.update(checked_entries(gateway))
        gateway.start()

    await clients.run(kill, kill_after=NUM_REQUESTS // 2)
    clients.check()
    assert clients.num_broken > 0, "the kill should have broken some replies"
    assert len(kept) > NUM_PROMPTS // 4
    # What was stored before is hit after: only what was on its way, one request a client, is asked twice.
    assert clients.num_different <= len(upstream.calls) <= clients.num_different + NUM_CLIENTS
    await settled(gateway)
    stored = checked_entries(gateway)
    assert kept <= stored
    assert len(stored) == clients.num_different
    assert metric(gateway.url, 'openclaw_cache_degraded_total{what="entry_corrupt"}') == 0
    assert status(gateway.url)["requests"]["exact"] > 0


async def test_valkey_killed_in_the_middle_of_1000_requests(
    gateway: RunningGateway, upstream: AnsweringUpstream
) -> None:
    killed = status(gateway.url)["store"]["pid"]
    clients = Clients(gateway)
    kept: set[bytes] = set()

    def kill() -> None:
        kept.update(checked_entries(gateway))
        os.kill(killed, signal.SIGKILL)

    await clients.run(kill, kill_after=NUM_REQUESTS // 2)
    clients.check()
    assert clients.num_broken == 0, "the store's end is nothing that a client may notice"
    assert len(upstream.calls) == clients.num_different, "memory and flights do not need the store"
    assert (await settled(gateway))["pid"] != killed
    stored = checked_entries(gateway)
    assert len(kept) > NUM_PROMPTS // 4
    assert kept <= stored, "what was stored outlives the store's process"

    # The next gateway knows only what Valkey kept: that much is hit, the rest is computed anew.
    gateway.stop()
    gateway.start()
    assert status(gateway.url)["result_cache"]["memory"]["num_entries"] == 0
    again = Clients(gateway)
    await again.run(lambda: None, kill_after=NUM_REQUESTS)
    again.check()
    assert len(upstream.calls) - clients.num_different == clients.num_different - len(stored)


async def test_a_gateway_that_is_stopped_finishes_what_it_has_begun(
    gateway: RunningGateway, upstream: AnsweringUpstream
) -> None:
    upstream.delay_s = 1.0
    body = prompt(0) | {"stream": True}
    in_flight = asyncio.create_task(asyncio.to_thread(post_chat, gateway.url, encoded(body)))
    async with asyncio.timeout(10):
        while not upstream.calls:
            await asyncio.sleep(0.01)
    assert await asyncio.to_thread(gateway.stop, signal.SIGTERM) == 0
    assert (await in_flight).text == answer_text(body)
    gateway.start()
    assert post_chat(gateway.url, encoded(body)).cache_status == "openclaw-cache; hit; detail=exact"
    assert len(upstream.calls) == 1
