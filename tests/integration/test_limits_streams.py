"""Memory under many clients that are slow: it has a bound, per stream and over all.

`OPENCLAW_CACHE_TEST_STREAMS=1000 pytest -s tests/integration/test_limits_streams.py` runs it with 1,000 streams at
once, and prints what each costs.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest

from support.fault_scripts import CHAT, TEXT, answers
from support.running import RunningGateway
from support.scripted_upstream import Exchange, ScriptedUpstream, chunk, event

NUM_STREAMS = int(os.environ.get("OPENCLAW_CACHE_TEST_STREAMS", "300"))
NUM_MUTE = NUM_STREAMS // 4
MOST_KB_PER_STREAM = 150
MOST_KB_PER_MUTE = 800
"""Of what a client does not read: one piece, its copy that is being sent, and what was read ahead."""
MAX_INFLIGHT = 10_000_000
NO_STORE = {"cache-control": "no-store"}


def rss_kb(gateway: RunningGateway) -> int:
    """Resident memory of the gateway's process; its Valkey is another one."""
    assert gateway.process is not None
    status = Path(f"/proc/{gateway.process.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0])


@pytest.fixture
async def gateway(tmp_path: Path, upstream: ScriptedUpstream) -> AsyncIterator[RunningGateway]:
    config: dict[str, Any] = {
        "server": {"max_inflight": MAX_INFLIGHT, "write_timeout": "120s"},
        "upstreams": [{"name": "pods", "kind": "openai", "urls": [upstream.url]}],
    }
    running = RunningGateway(tmp_path / "data", config)
    await asyncio.to_thread(running.__enter__)
    yield running
    await asyncio.to_thread(running.__exit__)


async def opened(gateway: RunningGateway, prompt: str, *, buffer_bytes: int | None = None) -> socket.socket:
    """A client that has asked for a stream."""
    body = json.dumps(CHAT.body(prompt, stream=True)).encode()
    place = urlsplit(gateway.url)
    client = socket.socket()
    if buffer_bytes is not None:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
    client.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(client, (place.hostname, place.port))
    head = f"POST {CHAT.path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {len(body)}\r\n\r\n"
    await loop.sock_sendall(client, head.encode() + body)
    return client


async def warm_up(gateway: RunningGateway, num_streams: int = 200) -> None:
    """What is made once, or kept for reuse, is no part of what a stream costs."""
    async with aiohttp.ClientSession() as session:
        for i in range(num_streams):
            body = CHAT.body(f"warm {i % 7}", stream=True)
            async with session.post(gateway.url + CHAT.path, json=body, headers=NO_STORE) as response:
                await response.read()


async def test_what_many_slow_streams_hold_is_bounded_and_all_of_them_are_served(
    gateway: RunningGateway, upstream: ScriptedUpstream
) -> None:
    """Each is an agent that reads along while its model writes 4 kB over some seconds."""
    upstream.script = answers(CHAT, TEXT)
    await warm_up(gateway)
    go_on = asyncio.Event()
    piece = event(chunk({"content": "x" * 40}))

    async def writes_slowly(exchange: Exchange) -> None:
        first, *_, finish, done = CHAT.events(TEXT)
        await exchange.start_stream()
        await exchange.chunk(first)
        for _ in range(20):
            await exchange.chunk(piece)
            await asyncio.sleep(0.1)
        await go_on.wait()
        await exchange.chunk(finish + done)
        await exchange.last_chunk()

    upstream.script = writes_slowly
    before_kb = rss_kb(gateway)
    loop = asyncio.get_running_loop()
    clients = [await opened(gateway, f"slow {i}") for i in range(NUM_STREAMS)]

    async def read(client: socket.socket) -> bytes:
        got = bytearray()
        while not got.endswith(b"0\r\n\r\n"):
            got += await loop.sock_recv(client, 65_536)
        client.close()
        return bytes(got)

    reading = [asyncio.create_task(read(client)) for client in clients]
    async with asyncio.timeout(120):
        while len(upstream.calls) < 200 + NUM_STREAMS:
            await asyncio.sleep(0.05)
        await asyncio.sleep(3)
        held_kb = rss_kb(gateway) - before_kb
        go_on.set()
        for got in await asyncio.gather(*reading):
            assert got.count(b"x" * 40) == 20
            assert b"data: [DONE]" in got
    print(f"\n{NUM_STREAMS} streams: {held_kb / NUM_STREAMS:.0f} kB each, {before_kb} kB before")
    assert held_kb < NUM_STREAMS * MOST_KB_PER_STREAM


async def test_what_is_kept_for_many_clients_that_read_nothing_is_bounded_over_all(
    gateway: RunningGateway, upstream: ScriptedUpstream
) -> None:
    """Their upstreams write without end; the gateway takes no more than it has room for."""
    upstream.script = answers(CHAT, TEXT)
    await warm_up(gateway)
    piece = event(chunk({"content": "x" * 8_000}))

    async def floods(exchange: Exchange) -> None:
        await exchange.start_stream()
        while True:
            await exchange.chunk(piece)
            await asyncio.sleep(0.001)

    upstream.script = floods
    before_kb = rss_kb(gateway)
    clients = [await opened(gateway, f"mute {i}", buffer_bytes=4096) for i in range(NUM_MUTE)]
    sent, held_kb = -1, 0
    async with asyncio.timeout(200):
        while sent != (sent := sum(exchange.sent_bytes for exchange in upstream.exchanges)):
            await asyncio.sleep(2)
            held_kb = max(held_kb, rss_kb(gateway) - before_kb)
    print(f"\n{NUM_MUTE} mute clients: {held_kb} kB, after {sent // 1000} kB came")
    # What is kept for others to join, as bytes and as events, and what each stream has under way.
    assert held_kb < 2 * MAX_INFLIGHT // 1000 + NUM_MUTE * MOST_KB_PER_MUTE
    async with aiohttp.ClientSession() as session, asyncio.timeout(30):
        async with session.get(gateway.url + "/healthz") as response:
            assert response.status == 200
        for client in clients:
            client.close()
        while await held_bytes(session, gateway):
            await asyncio.sleep(0.05)
    await asyncio.gather(*(exchange.until_closed() for exchange in upstream.exchanges[-NUM_MUTE:]))


async def held_bytes(session: aiohttp.ClientSession, gateway: RunningGateway) -> int:
    async with session.get(gateway.url + "/admin/status") as response:
        held: int = (await response.json())["inflight"]["held_bytes"]
        return held


async def test_memory_is_flat_over_many_streams(gateway: RunningGateway, upstream: ScriptedUpstream) -> None:
    """A leak of some kB for each stream would show: seen in a peer over days (BerriAI/litellm#12685)."""
    upstream.script = answers(CHAT, TEXT)

    async def rounds(number: int) -> int:
        await asyncio.gather(*(warm_up(gateway, number // 10) for _ in range(10)))
        return rss_kb(gateway)

    await rounds(500)
    before_kb = await rounds(500)
    after_kb = await rounds(1000)
    assert after_kb - before_kb < 4_000
