"""Open many streams at once and time every event of them.

    python -m benchmarks.gateway.streams HOST PORT PATH ORDER

ORDER is a file: how many streams, what each asks, and how far apart they begin. The stub writes into each event when
it was written (see `stub`), on the clock that this process reads too. Prints one line of JSON.
"""

from __future__ import annotations

import asyncio
import functools
import json
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import uvloop

TIMEOUT_S = 120.0
_WRITTEN = re.compile(rb" t=(\d+);")
_DONE = b"data: [DONE]"
_MOST_KEPT = 64
"""Bytes of a chunk's end that may be the beginning of what is looked for."""


@dataclass(frozen=True, slots=True)
class Order:
    """What to ask. `@N@` in `body` becomes a number that no other stream has."""

    body: str
    headers: dict[str, str]
    num_streams: int
    num_events: int
    apart_s: float
    """Time between the beginnings of two streams, so that their events do not come all at once."""
    serial: int


@dataclass(frozen=True, slots=True)
class Seen:
    """What the client saw."""

    num_events: int
    p50_us: float
    """Between an event's being written by the stub and its being read here."""
    seconds: float


class _Stream(asyncio.Protocol):
    """One connection with one stream."""

    def __init__(self, request: bytes) -> None:
        self.request = request
        self.took_ns: list[int] = []
        self.ended = asyncio.get_running_loop().create_future()
        self._kept = b""
        self._status = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        now = time.monotonic_ns()
        if not self._status:
            self._status = data[:12]
        data = self._kept + data
        at = 0
        for found in _WRITTEN.finditer(data):
            at = found.end()
            self.took_ns.append(now - int(found[1]))
        if _DONE in data:
            self._end(None)
        self._kept = data[at:][-_MOST_KEPT:]

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(RuntimeError(f"a stream ended early; it began with {self._status!r}"))

    def _end(self, failure: Exception | None) -> None:
        if not self.ended.done():
            if failure is None:
                self.ended.set_result(None)
            else:
                self.ended.set_exception(failure)
        self.transport.close()


def _same(stream: _Stream) -> _Stream:
    return stream


async def _run(host: str, port: int, path: str, order: Order) -> Seen:
    loop, streams = asyncio.get_running_loop(), []
    head = [f"POST {path} HTTP/1.1", f"host: {host}:{port}", "content-type: application/json"]
    head += [f"{name}: {value}" for name, value in order.headers.items()]
    began = time.monotonic()
    for number in range(order.num_streams):
        body = order.body.replace("@N@", str(order.serial * 10**6 + number)).encode()
        request = "\r\n".join([*head, f"content-length: {len(body)}", "", ""]).encode() + body
        stream = _Stream(request)
        await loop.create_connection(functools.partial(_same, stream), host, port)
        streams.append(stream)
        await asyncio.sleep(began + (number + 1) * order.apart_s - time.monotonic())
    async with asyncio.timeout(TIMEOUT_S):
        await asyncio.gather(*(stream.ended for stream in streams))
    seconds = time.monotonic() - began
    took = [ns for stream in streams for ns in stream.took_ns]
    if len(took) != order.num_streams * order.num_events:
        raise RuntimeError(f"{len(took)} events came of {order.num_streams} × {order.num_events}")
    return Seen(len(took), statistics.median(took) / 1e3, seconds)


@contextmanager
def streaming(target: str, order: Order, file: Path, *, core: int) -> Iterator[subprocess.Popen[str]]:
    """Run an order in a process on one core; `seen` waits for its end."""
    file.write_text(json.dumps(asdict(order)))
    parts = urlsplit(target)
    command = ["taskset", "-c", str(core), sys.executable, "-m", "benchmarks.gateway.streams"]
    command += [str(parts.hostname), str(parts.port), parts.path, str(file)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def seen(process: subprocess.Popen[str]) -> Seen:
    """What it saw. Raises RuntimeError where a stream was not what was asked for."""
    out, errors = process.communicate()
    if process.returncode:
        raise RuntimeError(f"the streams failed: {errors[-2000:]}")
    return Seen(**json.loads(out))


if __name__ == "__main__":
    ordered = Order(**json.loads(Path(sys.argv[4]).read_text()))
    print(json.dumps(asdict(uvloop.run(_run(sys.argv[1], int(sys.argv[2]), sys.argv[3], ordered)))))
