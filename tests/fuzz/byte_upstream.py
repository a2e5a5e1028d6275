"""An upstream that answers with the very bytes it is told to, piece by piece, and ends as it is told to."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Self

Ending = Literal["keep", "close", "reset", "stall"]

STALL_S = 60.0


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that came in."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Plan:
    """What is sent, in which pieces, and what becomes of the connection then."""

    pieces: Sequence[bytes]
    ending: Ending = "keep"


Answer = Callable[[Asked], Awaitable[Plan] | Plan]


class ByteUpstream:
    """Listens on a free port. Use as an async context manager.

    Args:
        answer: what is sent for a request.
    """

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.num_calls = 0
        self.failures: list[BaseException] = []
        self.url = ""
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=2**20)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while await self._serve_one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        except asyncio.CancelledError:
            pass
        except Exception as e:  # noqa: BLE001 - the test asserts that there are none
            self.failures.append(e)
        finally:
            self._tasks.discard(task)
            writer.transport.abort() if writer.transport.is_closing() else writer.close()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One exchange; returns whether another may follow."""
        top = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = top.split("\r\n")
        method, path, _ = first.split(" ")
        headers = {n.lower(): v.strip() for n, _, v in (line.partition(":") for line in lines if line)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        if path == "/health":
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
            return True
        self.num_calls += 1
        found = self._answer(Asked(method, path, headers, body))
        plan = found if isinstance(found, Plan) else await found
        for piece in plan.pieces:
            writer.write(piece)
            await writer.drain()
            if len(plan.pieces) > 1:
                await asyncio.sleep(0)
        if plan.ending == "keep":
            return True
        if plan.ending == "stall":
            await asyncio.wait_for(reader.read(), STALL_S)
        if plan.ending == "reset":
            sock = writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
        return False
