"""The upstream of every server under test: answers at once, with the same 2 kB, for as little CPU as Python allows.

    python -m benchmarks.gateway.stub PORT

`POST` (any path): a chat completion of 2 kB, or 200 events where the body asks for a stream. Each event is a
write of its own; where the model's name ends in `-paced`, one comes every `PACE_S`, as from a fast model.
`GET /count`: how many requests were answered, so that a run can tell what was a hit.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from itertools import islice
from typing import cast

import uvloop

NUM_EVENTS = 200
PACE_S = 0.002
REPLY_BYTES = 2048


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
    head = {
        "id": "chatcmpl-benchmark0000000000000000000",
        "object": "chat.completion.chunk",
        "created": 1764500000,
        "model": "bench",
    }

    def chunk(delta: dict[str, str], finish: str | None = None) -> dict[str, object]:
        return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], "usage": None}

    words = [chunk({"content": " word"})] * (NUM_EVENTS - 4)
    usage = {"prompt_tokens": 200, "completion_tokens": len(words), "total_tokens": 200 + len(words)}
    chunks = [
        chunk({"role": "assistant", "content": ""}),
        *words,
        chunk({}, "stop"),
        {**head, "choices": [], "usage": usage},
    ]
    payloads = [json.dumps(one, separators=(",", ":")).encode() for one in chunks]
    return [b"data: " + payload + b"\n\n" for payload in [*payloads, b"[DONE]"]]


WHOLE = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (
    REPLY_BYTES,
    reply_body(),
)
STREAM = [
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n",
    *(b"%x\r\n%b\r\n" % (len(event), event) for event in events()),
    b"0\r\n\r\n",
]


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
        if data.startswith(b"GET /count"):
            text = b"%d" % Stub.num_answered
            self.transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(text), text))
            self.received = b""
            return
        at = data.lower().find(b"content-length:", 0, end)
        size = int(data[at + 15 : data.find(b"\r\n", at)])
        if len(data) < end + 4 + size:
            return
        self.received = b""
        Stub.num_answered += 1
        if b'"stream":true' in data or b'"stream": true' in data:
            pace_s = PACE_S if b"-paced" in data else 0.0
            self._next(iter(STREAM), pace_s)
        else:
            self.transport.write(WHOLE)

    def _next(self, parts: Iterator[bytes], pace_s: float) -> None:
        """Write one part; the loop sends it before the next, so that each leaves in a packet of its own."""
        part = next(islice(parts, 1), None)
        if part is None or self.transport.is_closing():
            return
        self.transport.write(part)
        loop = asyncio.get_running_loop()
        if pace_s:
            loop.call_later(pace_s, self._next, parts, pace_s)
        else:
            loop.call_soon(self._next, parts, pace_s)


async def serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Stub, "127.0.0.1", port, backlog=1024)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
