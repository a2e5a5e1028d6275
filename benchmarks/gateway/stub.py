"""The upstream of every server under test: answers at once, with the same 2 kB, for as little CPU as Python allows.

    python -m benchmarks.gateway.stub PORT

`POST` (any path): a chat completion of 2 kB, or 200 events where the body asks for a stream. Each event is a
write of its own. A model called `bench-20ms` writes one each 20 ms, as many as `max_tokens` says, and each of them
tells when it was written (` t=…;`, nanoseconds of the machine's monotonic clock).
`GET /count`: how many requests were answered, so that a run can tell what was a hit. Any other `GET`: that it is well.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from collections.abc import Iterator
from itertools import islice
from typing import cast

import uvloop

NUM_EVENTS = 200
REPLY_BYTES = 2048
HEALTHY = b'{"status":"ok"}'
_PACE = re.compile(rb'"bench-(\d+)ms"')
_MAX_TOKENS = re.compile(rb'"max_(?:completion_)?tokens": ?(\d+)')


def _completion(content: str) -> bytes:
    return json.dumps(
        {
            "id": "chatcmpl-benchmark0000000000000000000",
            "object": "chat.completion",
            "created": 1764500000,
            "model": "bench",
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": content},
                    "finish_reason": "stop",
                }
            ],
            "usage": {"prompt_tokens": 200, "completion_tokens": 400, "total_tokens": 600},
        },
        separators=(",", ":"),
    ).encode()


def reply_body() -> bytes:
    """A non-streaming reply of `REPLY_BYTES`."""
    missing = REPLY_BYTES - len(_completion(""))
    return _completion(("The quick brown fox jumps over the lazy dog. " * 64)[:missing])


def events() -> list[bytes]:
    """The `NUM_EVENTS` payloads of a streamed reply, `[DONE]` included."""
    words = [_event(_chunk({"content": " word"}))] * (NUM_EVENTS - 4)
    return [_event(_chunk({"role": "assistant", "content": ""})), *words, *last_events(len(words))]


def last_events(num_tokens: int) -> list[bytes]:
    """The end of a streamed reply: why it ended, its usage, `[DONE]`."""
    usage = {"prompt_tokens": 200, "completion_tokens": num_tokens, "total_tokens": 200 + num_tokens}
    end = {**_HEAD, "choices": [], "usage": usage}
    return [_event(_chunk({}, "stop")), _event(end), b"data: [DONE]\n\n"]


_HEAD = {
    "id": "chatcmpl-benchmark0000000000000000000",
    "object": "chat.completion.chunk",
    "created": 1764500000,
    "model": "bench",
}


def _chunk(delta: dict[str, str], finish: str | None = None) -> dict[str, object]:
    return {**_HEAD, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], "usage": None}


def _event(chunk: dict[str, object]) -> bytes:
    return b"data: " + json.dumps(chunk, separators=(",", ":")).encode() + b"\n\n"


def _framed(part: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(part), part)


WHOLE = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (
    REPLY_BYTES,
    reply_body(),
)
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
STREAM = [HEAD, *map(_framed, events()), b"0\r\n\r\n"]
TIMED = _event(_chunk({"content": " t=%d;"}))  # a template: nothing else in it is a percent sign


class Stub(asyncio.Protocol):
    """One connection. Requests come one after another, with a Content-Length."""

    num_answered = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's has another base
        self.received = b""

    def data_received(self, data: bytes) -> None:
        data = self.received = self.received + data
        end = data.find(b"\r\n\r\n")
        if end < 0:
            return
        if data.startswith(b"GET "):
            text = b"%d" % Stub.num_answered if data.startswith(b"GET /count") else HEALTHY
            self.transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(text), text))
            self.received = b""
            return
        at = data.lower().find(b"content-length:", 0, end)
        size = int(data[at + 15 : data.find(b"\r\n", at)])
        if len(data) < end + 4 + size:
            return
        self.received = b""
        Stub.num_answered += 1
        if b'"stream":true' not in data and b'"stream": true' not in data:
            self.transport.write(WHOLE)
        elif (pace := _PACE.search(data)) is not None:
            asked = _MAX_TOKENS.search(data)
            self._paced(int(asked[1]) if asked else NUM_EVENTS, int(pace[1]) / 1e3)
        else:
            self._next(iter(STREAM))

    def _next(self, parts: Iterator[bytes]) -> None:
        """Write one part; the loop sends it before the next, so that each leaves in a packet of its own."""
        part = next(islice(parts, 1), None)
        if part is None or self.transport.is_closing():
            return
        self.transport.write(part)
        asyncio.get_running_loop().call_soon(self._next, parts)

    def _paced(self, num_events: int, pace_s: float) -> None:
        """Write an event at each beat of a clock of its own: one that is late delays no other."""
        loop = asyncio.get_running_loop()
        begin = loop.time()
        self.transport.write(HEAD)

        def beat(number: int) -> None:
            if self.transport.is_closing():
                return
            if number == num_events:
                ending = b"".join(map(_framed, last_events(num_events)))
                self.transport.write(ending + b"0\r\n\r\n")
                return
            self.transport.write(_framed(TIMED % time.monotonic_ns()))
            loop.call_at(begin + (number + 1) * pace_s, beat, number + 1)

        beat(0)


async def serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Stub, "127.0.0.1", port, backlog=1024)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
