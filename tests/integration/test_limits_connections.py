"""Connections that are slow on purpose: they are dropped, and what they held is let go."""

from __future__ import annotations

import asyncio
import os
import select
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import uvicorn
import uvloop
from uvicorn.server import ServerState

from openclaw_cache.api.connection import BoundedConnection
from support.fault_scripts import CHAT, STREAMING, Wire, answers, ask, is_stored, text_in, wired
from support.scripted_upstream import Exchange, Gate, ScriptedUpstream, answer, event, sends
from support.served import Json, Served

each_stream = pytest.mark.parametrize("wire", STREAMING, ids=lambda wire: wire.name)


@pytest.fixture
async def gateway(tmp_path: Path, upstream: ScriptedUpstream) -> AsyncIterator[Served]:
    async with wired(tmp_path, upstream.url, server__write_timeout="300ms") as running:
        yield running


async def connect(gateway: Served, wire: Wire, *, stream: bool, buffer_bytes: int = 4096) -> socket.socket:
    """A client that has sent its request and reads nothing."""
    body = (
        str(wire.body(stream=stream))
        .replace("'", '"')
        .replace("True", "true")
        .replace("False", "false")
        .encode()
    )
    host, port = gateway.url.removeprefix("http://").split(":")
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
    client.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(client, (host, int(port)))
    head = f"POST {wire.path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {len(body)}\r\n\r\n"
    await loop.sock_sendall(client, head.encode() + body)
    return client


async def floods(exchange: Exchange) -> None:
    """Events without end, as fast as they are taken."""
    await exchange.start_stream()
    while True:
        await exchange.chunk(event({"type": "ping", "choices": [], "padding": "x" * 60_000}))


async def is_dropped(client: socket.socket) -> None:
    """The connection ends though its client has not read what was sent."""
    poll = select.poll()
    poll.register(client, select.POLLHUP | select.POLLERR)
    async with asyncio.timeout(20):
        while not poll.poll(0):
            await asyncio.sleep(0.01)
    client.close()


@each_stream
async def test_a_client_that_reads_nothing_of_a_stream_is_dropped_and_its_upstream_let_go(
    gateway: Served, upstream: ScriptedUpstream, wire: Wire
) -> None:
    upstream.script = floods
    client = await connect(gateway, wire, stream=True)
    call = await upstream.called()
    await asyncio.wait_for(call.closed.wait(), 20)
    await is_dropped(client)
    door = gateway.app.asgi._door
    async with asyncio.timeout(20):
        while door.slots.running() or door.inflight.held_bytes or gateway.num_flights:
            await asyncio.sleep(0.01)


async def test_a_client_that_reads_nothing_of_a_whole_reply_is_dropped(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    text = "x" * 8_000_000
    upstream.script = answers(CHAT, text)
    client = await connect(gateway, CHAT, stream=False)
    door = gateway.app.asgi._door
    await upstream.called()
    async with asyncio.timeout(20):
        while door.slots.running():
            await asyncio.sleep(0.01)
    await is_dropped(client)
    assert await is_stored(gateway, CHAT)  # the upstream had answered whole: others need not ask again
    hit = await ask(gateway, CHAT)
    assert text_in(CHAT, hit) == text


async def test_a_client_that_reads_nothing_of_a_stored_reply_is_dropped(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    upstream.script = answers(CHAT, "x" * 8_000_000)
    await ask(gateway, CHAT)
    for stream in (True, False):
        client = await connect(gateway, CHAT, stream=stream)
        door = gateway.app.asgi._door
        await asyncio.sleep(0.05)
        async with asyncio.timeout(20):
            while door.slots.running():
                await asyncio.sleep(0.01)
        await is_dropped(client)
    assert upstream.num_calls == 1


async def test_a_client_that_reads_slowly_is_served_to_the_end(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    """Some bytes now and then are enough: the time runs anew with each of them."""
    text = "x" * 12_000_000  # more than the kernel keeps for it
    upstream.script = sends(*CHAT.events(text))
    client = await connect(gateway, CHAT, stream=True, buffer_bytes=65_536)
    loop, got = asyncio.get_running_loop(), bytearray()
    async with asyncio.timeout(60):
        while not got.endswith(b"0\r\n\r\n"):
            part = await loop.sock_recv(client, 200_000)
            assert part, "it was dropped"
            got += part
            await asyncio.sleep(0.015)
    client.close()
    assert got.count(b"x") >= len(text)


async def test_a_reader_of_a_shared_stream_that_is_dropped_disturbs_no_other(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    events = CHAT.events("x" * 8_000_000)
    gate = Gate(sends(*events))
    upstream.script = gate
    client = await connect(gateway, CHAT, stream=True)
    await upstream.called()
    others = [asyncio.create_task(ask(gateway, CHAT, stream=True)) for _ in range(2)]
    await asyncio.sleep(0.2)
    gate.open()
    for other in others:
        assert (await other).body == b"".join(events)
    await is_dropped(client)
    assert upstream.num_calls == 1


async def test_what_a_silent_connection_sends_later_is_served(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    """An idle connection is none that reads slowly: keep-alive outlasts the write timeout."""
    upstream.script = answer
    async with gateway.send(CHAT.body("first")) as response:
        await response.read()
        connection = response.connection
    await asyncio.sleep(0.6)
    async with gateway.send(CHAT.body("second")) as response:
        await response.read()
    assert connection is None or upstream.num_calls == 2


async def ok(_scope: Json, _receive: Json, send: Json) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@pytest.mark.parametrize(
    "new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"]
)
def test_accepted_sockets_send_small_packets_at_once(new_loop: Json) -> None:
    """Without TCP_NODELAY an event waits for the acknowledgement of the one before it: 40 ms, seen in a peer."""

    async def has_nodelay() -> bool:
        config, state = uvicorn.Config(ok, lifespan="off", log_config=None), ServerState()
        server = await asyncio.get_running_loop().create_server(
            lambda: BoundedConnection(config, state, {}), "127.0.0.1", 0
        )
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
        await reader.readuntil(b"ok")
        [connection] = state.connections
        with socket.socket(fileno=os.dup(connection.transport.get_extra_info("socket").fileno())) as accepted:
            nodelay = accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        writer.close()
        server.close()
        return nodelay != 0

    loop = new_loop()
    try:
        assert loop.run_until_complete(has_nodelay())
    finally:
        loop.close()
