"""What a server holds while many streams are open: memory for each of them, and its sockets' options."""

from __future__ import annotations

import subprocess
import time
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.gateway import load, sockets, streams
from benchmarks.gateway.cases import Entrant
from benchmarks.gateway.paced import ENTRANTS, PacedCase
from benchmarks.gateway.servers import Server

NAME = "open streams"
MEASURED = tuple(e for e in ENTRANTS if e.server != "stub")
_WARM, _OPEN = PacedCase(10, 20), PacedCase(200, 100)
_WARM_S, _OPEN_S = 1, 4
_SAMPLE_S = 0.1


@dataclass(frozen=True, slots=True)
class OpenStreams:
    """One server, started anew, its first `num_streams` streams at once."""

    label: str
    num_streams: int
    rss_before_bytes: int
    """All its processes, after ten streams."""
    rss_open_bytes: int
    """The most while the streams were open."""
    nodelay: sockets.NoDelay

    @property
    def rss_per_stream_bytes(self) -> float:
        return (self.rss_open_bytes - self.rss_before_bytes) / self.num_streams

    def as_json(self) -> dict[str, object]:
        return {**asdict(self), "rss_per_stream_bytes": self.rss_per_stream_bytes}


def measure(
    entrant: Entrant, starting: AbstractContextManager[Server], stub: Server, body: Path, *, core: int
) -> OpenStreams:
    """Start a server and open the streams. Raises RuntimeError where they were not what was asked for."""
    file = body.with_name("order.json")
    with starting as server:
        warm = _WARM.order(body, entrant.headers, _WARM_S, serial=1)
        with streams.streaming(server.target, warm, file, core=core) as process:
            streams.seen(process)
        before = _rss_bytes(server)
        order = _OPEN.order(body, entrant.headers, _OPEN_S, serial=2)
        with streams.streaming(server.target, order, file, core=core) as process:
            most, nodelay = _watch(process, server, stub)
            streams.seen(process)
    return OpenStreams(entrant.label, _OPEN.num_streams, before, most, nodelay)


def _watch(process: subprocess.Popen[str], server: Server, stub: Server) -> tuple[int, sockets.NoDelay]:
    """Sample memory until the streams end; look at the sockets when most of them were open."""
    most = 0
    nodelay = sockets.NoDelay(0, 0, 0, 0)
    ports = [urlsplit(one.url).port or 0 for one in (server, stub)]
    looked_at = 0.0
    while process.poll() is None:
        most = max(most, _rss_bytes(server))
        if time.monotonic() - looked_at > 1.0:
            looked_at = time.monotonic()
            now = sockets.nodelay(load.tree(server.pid), *ports)
            if now.num_accepted + now.num_upstream > nodelay.num_accepted + nodelay.num_upstream:
                nodelay = now
        time.sleep(_SAMPLE_S)
    return most, nodelay


def _rss_bytes(server: Server) -> int:
    return sum(map(load.rss_bytes, load.tree(server.pid)))
