"""One HTTP connection under a hostile client: bounded in time, and gone when it is gone."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from openclaw_cache.api import connection
from openclaw_cache.api.connection import BoundedConnection

REQUEST = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


async def greet(_scope: Any, _receive: Any, send: Callable[[dict[str, Any]], Awaitable[None]]) -> None:
    await asyncio.sleep(0.2)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"hi"})


@contextlib.asynccontextmanager
async def listening() -> AsyncIterator[int]:
    config = uvicorn.Config(greet, lifespan="off", log_config=None, timeout_keep_alive=75)
    state = ServerState()
    server = await asyncio.get_running_loop().create_server(
        lambda: BoundedConnection(config, state, {}), "127.0.0.1", 0
    )
    yield server.sockets[0].getsockname()[1]
    server.close()
    for one in list(state.connections):
        one.transport.abort()
    await asyncio.gather(*state.tasks, return_exceptions=True)


def alive() -> int:
    gc.collect()
    return sum(type(one) is BoundedConnection for one in gc.get_objects())


async def test_a_connection_that_was_reset_after_its_reply_is_forgotten() -> None:
    """Left to its keep-alive timer it would stay for more than a minute: a leak while clients keep coming."""
    async with listening() as port:
        for _ in range(5):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(REQUEST)
            assert (await reader.read(100)).startswith(b"HTTP/1.1 200")
            sock: socket.socket = writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
        del reader, writer, sock
        async with asyncio.timeout(10):
            while alive():
                await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("sent", "answer"), [(b"", b""), (REQUEST[:-2], b"HTTP/1.1 408 "), (b"G", b"HTTP/1.1 408 ")]
)
async def test_a_head_that_does_not_come_ends_the_connection(
    monkeypatch: pytest.MonkeyPatch, sent: bytes, answer: bytes
) -> None:
    monkeypatch.setattr(connection, "HEAD_TIMEOUT_S", 0.05)
    async with listening() as port, asyncio.timeout(10):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        received = await reader.read()
        assert received.startswith(answer)
        assert bool(received) is bool(answer)
        writer.close()


async def test_a_reply_may_take_longer_than_a_head(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "HEAD_TIMEOUT_S", 0.05)
    async with listening() as port, asyncio.timeout(10):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(2):  # kept alive in between
            writer.write(REQUEST)
            assert (await reader.readuntil(b"hi")).startswith(b"HTTP/1.1 200")
            await asyncio.sleep(0.1)
        writer.close()


@pytest.mark.parametrize(
    ("num_bytes", "answer"), [(65_536, b"HTTP/1.1 200 "), (65_537, b"HTTP/1.1 431 ")], ids=["64 kiB", "more"]
)
async def test_a_head_that_comes_at_once_is_bounded_as_one_that_comes_in_pieces(
    num_bytes: int, answer: bytes
) -> None:
    """Up to the blank line that ends it. The event loop may hand over 256 kB in one piece."""
    start = REQUEST[:-2] + b"x: "
    head = start + b"a" * (num_bytes - len(start))
    async with listening() as port, asyncio.timeout(10):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head + b"\r\n\r\n")
        assert (await reader.read(100)).startswith(answer)
        writer.close()
