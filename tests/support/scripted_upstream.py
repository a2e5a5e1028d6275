"""An OpenAI-compatible upstream that misbehaves on demand: a script decides every byte and every close.

It speaks HTTP/1.1 over raw transports, so it can also do what no decent server does: stop in the middle of a
header, cut a character, close as the next request comes.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import struct
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

Json = Any
Script = Callable[["Exchange"], Awaitable[None]]

EVENT_STREAM = {"content-type": "text/event-stream"}


@dataclass(slots=True)
class Call:
    """One request as it arrived, byte for byte."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes
    arrived_at: float
    connection: int
    """Number of the connection that carried it, from 0."""
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once the caller has closed the connection before the script was done with it."""
    closed_at: float | None = None

    def header(self, name: str) -> str | None:
        """The first value of a header, None where it is absent."""
        return next((value for key, value in self.headers if key == name), None)

    def names(self) -> set[str]:
        """The names of all headers, in lower case."""
        return {name for name, _ in self.headers}

    def json(self) -> Json:
        """The decoded body."""
        return json.loads(self.body)


class Exchange:
    """What a script works with: the call, and the wire."""

    def __init__(self, call: Call, connection: _Connection, number: int) -> None:
        self.call = call
        self.number = number
        """Which call this is, from 1."""
        self.sent_bytes = 0
        self._connection = connection

    async def send(self, raw: bytes) -> None:
        """Write bytes as they are. Waits while the peer does not read. Raises ConnectionError when it is gone."""
        transport = self._connection.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError("the caller closed the connection")
        transport.write(raw)
        self.sent_bytes += len(raw)
        await self._connection.writable()

    async def head(self, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        """Write a status line and headers."""
        await self.send(head(status, headers or {}))

    async def chunk(self, data: bytes) -> None:
        """Write one chunk of a chunked body."""
        await self.send(b"%x\r\n%b\r\n" % (len(data), data))

    async def last_chunk(self) -> None:
        """End a chunked body."""
        await self.send(b"0\r\n\r\n")

    async def json(self, value: Json, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        """Answer with a JSON body."""
        await self.whole(
            json.dumps(value).encode(), status, {"content-type": "application/json", **(headers or {})}
        )

    async def whole(self, body: bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        """Answer with one body, framed by its length."""
        await self.send(head(status, {**(headers or {}), "content-length": str(len(body))}) + body)

    async def start_stream(self, headers: Mapping[str, str] | None = None) -> None:
        """Write the head of an event stream."""
        await self.head(200, {**EVENT_STREAM, "transfer-encoding": "chunked", **(headers or {})})

    async def stream(self, parts: Iterable[bytes], headers: Mapping[str, str] | None = None) -> None:
        """Answer with an event stream, one chunk for each part."""
        await self.start_stream(headers)
        for part in parts:
            await self.chunk(part)
        await self.last_chunk()

    def close(self) -> None:
        """Close the connection after what has been written."""
        if self._connection.transport is not None:
            self._connection.transport.close()

    def reset(self) -> None:
        """Break the connection with a TCP reset."""
        transport = self._connection.transport
        if transport is not None:
            sock = transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            transport.abort()

    async def until_closed(self, timeout_s: float = 30.0) -> None:
        """Wait until the caller closes. Raises TimeoutError."""
        async with asyncio.timeout(timeout_s):
            await self.call.closed.wait()


class ScriptedUpstream:
    """The server. `script` answers every call; those in `next_scripts` go first, one call each.

    Use as an async context manager. `calls` holds every chat call in order, `others` the rest (GET), which
    `get_script` answers. With `tls` it speaks TLS, as `localhost`.
    """

    def __init__(
        self,
        script: Script | None = None,
        *,
        send_buffer_bytes: int | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.script: Script = script or answer
        self.get_script: Script = models
        self.next_scripts: list[Script] = []
        self.calls: list[Call] = []
        self.others: list[Call] = []
        self.exchanges: list[Exchange] = []
        self.failures: list[BaseException] = []
        """Exceptions of scripts, apart from a caller that left."""
        self.num_connections = 0
        self.url = ""
        self._send_buffer_bytes = send_buffer_bytes
        self._tls = tls
        self._connections: set[_Connection] = set()
        self._server: asyncio.Server | None = None

    @property
    def num_calls(self) -> int:
        """How many chat calls came in."""
        return len(self.calls)

    async def called(self, number: int = 1, timeout_s: float = 30.0) -> Call:
        """Wait for the `number`-th chat call, from 1."""
        async with asyncio.timeout(timeout_s):
            while len(self.calls) < number:
                await asyncio.sleep(0.005)
        return self.calls[number - 1]

    async def start(self, port: int = 0) -> Self:
        """Listen on loopback."""
        listener = socket.create_server(("127.0.0.1", port))
        if self._send_buffer_bytes is not None:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._send_buffer_bytes)
        self._server = await asyncio.get_running_loop().create_server(
            lambda: _Connection(self), sock=listener, ssl=self._tls
        )
        port = listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}" if self._tls is None else f"https://localhost:{port}"
        return self

    async def stop(self) -> None:
        """Close the listener and all connections."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for connection in list(self._connections):
            connection.abort()
        await asyncio.sleep(0)

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def run(self, call: Call, connection: _Connection) -> None:
        """Carry out the script of one call."""
        if call.method == "GET":
            self.others.append(call)
            await self.get_script(Exchange(call, connection, 0))
            return
        self.calls.append(call)
        exchange = Exchange(call, connection, len(self.calls))
        self.exchanges.append(exchange)
        script = self.next_scripts.pop(0) if self.next_scripts else self.script
        await script(exchange)


class _Connection(asyncio.Protocol):
    """Reads requests one after the other and runs their scripts."""

    def __init__(self, upstream: ScriptedUpstream) -> None:
        self._upstream = upstream
        self.transport: asyncio.Transport | None = None
        self._number = upstream.num_connections
        upstream.num_connections += 1
        self._received = bytearray()
        self._call: Call | None = None
        self._task: asyncio.Task[None] | None = None
        self._can_write = asyncio.Event()
        self._can_write.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._upstream._connections.add(self)

    def data_received(self, data: bytes) -> None:
        self._received += data
        if self._task is None:
            self._take_request()

    def eof_received(self) -> bool:
        self._caller_left()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._caller_left()
        self._can_write.set()
        self._upstream._connections.discard(self)

    def pause_writing(self) -> None:
        self._can_write.clear()

    def resume_writing(self) -> None:
        self._can_write.set()

    async def writable(self) -> None:
        await self._can_write.wait()

    def abort(self) -> None:
        if self._task is not None:
            self._task.cancel()
        if self.transport is not None:
            self.transport.abort()

    def _caller_left(self) -> None:
        call = self._call
        if call is not None and not call.closed.is_set():
            call.closed_at = time.monotonic()
            call.closed.set()

    def _take_request(self) -> None:
        taken = _parse_request(bytes(self._received))
        if taken is None:
            return
        (method, target, headers, body), size = taken
        del self._received[:size]
        self._call = Call(method, target, headers, body, time.monotonic(), self._number)
        self._task = asyncio.get_running_loop().create_task(self._answer(self._call))

    async def _answer(self, call: Call) -> None:
        try:
            await self._upstream.run(call, self)
        except ConnectionError:
            pass
        except Exception as e:  # noqa: BLE001 - the test asserts that there are none
            self._upstream.failures.append(e)
            self.abort()
        self._task = self._call = None
        if self._received and self.transport is not None and not self.transport.is_closing():
            self._take_request()


def _parse_request(raw: bytes) -> tuple[tuple[str, str, list[tuple[str, str]], bytes], int] | None:
    """One whole request and its size in bytes; None while it is incomplete."""
    top, blank, rest = raw.partition(b"\r\n\r\n")
    if not blank:
        return None
    first, *lines = top.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ")
    headers = [(name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]
    by_name = dict(headers)
    if by_name.get("transfer-encoding") == "chunked":
        raise NotImplementedError("the gateway sends bodies with their length")
    size = int(by_name.get("content-length", "0"))
    if len(rest) < size:
        return None
    return (method, target, headers, rest[:size]), len(top) + 4 + size


# The usual things to say.


def head(status: int, headers: Mapping[str, str]) -> bytes:
    """A status line and headers."""
    lines = [f"HTTP/1.1 {status} Status", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def reply(text: str = "Paris.", *, finish: str | None = "stop", **fields: Json) -> dict[str, Json]:
    """A whole chat completion, shaped as OpenAI's; `fields` replace or add top-level ones."""
    message = {"role": "assistant", "content": text, "refusal": None}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1700000000,
        "model": "pod-model",
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": finish}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12},
        **fields,
    }


def event(value: Json, end: bytes = b"\n") -> bytes:
    """One server-sent event."""
    data = value if isinstance(value, bytes) else json.dumps(value, ensure_ascii=False).encode()
    return b"data: " + data + end + end


def chunk(delta: Json, *, finish: str | None = None, **fields: Json) -> dict[str, Json]:
    """One chunk object of a streamed chat completion."""
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1700000000,
        "model": "pod-model",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        **fields,
    }


USAGE = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
DONE = event(b"[DONE]")


def stream_events(
    *texts: str, finish: str | None = "stop", usage: bool = False, done: bool = True, end: bytes = b"\n"
) -> list[bytes]:
    """The events of a streamed reply with this content."""
    events = [event(chunk({"role": "assistant", "content": ""}), end)]
    events += [event(chunk({"content": text}), end) for text in texts]
    if finish is not None:
        events.append(event(chunk({}, finish=finish), end))
    if usage:
        events.append(event({**chunk({}), "choices": [], "usage": USAGE}, end))
    if done:
        events.append(event(b"[DONE]", end))
    return events


def wants_usage(call: Call) -> bool:
    """Whether a streaming request asks for the usage event."""
    return bool((call.json().get("stream_options") or {}).get("include_usage"))


async def answer(exchange: Exchange) -> None:
    """What a good pod does. The text names the call, so that a test sees which call a reply comes from."""
    text = f"answer {exchange.number}"
    if exchange.call.json().get("stream"):
        await exchange.stream(stream_events(text[:3], text[3:], usage=wants_usage(exchange.call)))
    else:
        await exchange.json(reply(text))


async def models(exchange: Exchange) -> None:
    """`GET /v1/models`."""
    await exchange.json({"object": "list", "data": [{"id": "pod-model", "object": "model"}]})


def says(value: Json, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Script:
    """Always this JSON reply."""

    async def script(exchange: Exchange) -> None:
        await exchange.json(value, status, headers)

    return script


def sends(*parts: bytes, headers: Mapping[str, str] | None = None) -> Script:
    """Always this event stream, one chunk for each part."""

    async def script(exchange: Exchange) -> None:
        await exchange.stream(parts, headers)

    return script


def sends_raw(raw: bytes, *, reset: bool = False) -> Script:
    """These bytes, then the end of the connection."""

    async def script(exchange: Exchange) -> None:
        if raw:
            await exchange.send(raw)
        if reset:
            exchange.reset()
        else:
            exchange.close()

    return script


class Gate:
    """A script that holds back its reply until it is opened; counts who waits."""

    def __init__(self, then: Script = answer, *, first: bytes = b"") -> None:
        self.opened = asyncio.Event()
        self._then = then
        self._first = first

    def open(self) -> None:
        """Let every held call go on."""
        self.opened.set()

    async def __call__(self, exchange: Exchange) -> None:
        """Hold this call, but notice when the caller leaves."""
        if self._first:
            await exchange.send(self._first)
        left = asyncio.ensure_future(exchange.call.closed.wait())
        opened = asyncio.ensure_future(self.opened.wait())
        _, pending = await asyncio.wait((left, opened), return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        if self.opened.is_set():
            await self._then(exchange)
