"""A TLS terminator before a real server that speaks no TLS, as stunnel or a load balancer would be."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator


@contextlib.asynccontextmanager
async def tls_front(server_port: int, context: ssl.SSLContext, *, port: int = 0) -> AsyncIterator[int]:
    """Terminate TLS on a port of 127.0.0.1 (any free one, unless named) and pass all on to `server_port`."""
    writers: set[asyncio.StreamWriter] = set()
    connections: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connections.add(task)
        task.add_done_callback(connections.discard)
        writers.add(writer)
        with contextlib.suppress(OSError):
            below_reader, below_writer = await asyncio.open_connection("127.0.0.1", server_port)
            writers.add(below_writer)
            await asyncio.gather(_pump(reader, below_writer), _pump(below_reader, writer))
            writers.discard(below_writer)
        writers.discard(writer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", port, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for writer in writers:
            with contextlib.suppress(AttributeError):  # asyncio's own, on one that is closed already
                writer.transport.abort()
        await asyncio.gather(*connections, return_exceptions=True)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()
