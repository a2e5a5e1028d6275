"""What an exact hit costs in our own code: the ASGI application in a loop, without sockets and without a server.

    python -m benchmarks.gateway.in_process [--profile] 2>/dev/null

Prints the CPU of one hit in microseconds: the least of many short batches, since whatever else runs only adds, and
their median. The request is that of the case `hit`. Log lines go to stderr.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import pstats
import statistics
import sys
import tempfile
import time
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import uvloop
from benchmarks.gateway.cases import write_bodies
from benchmarks.gateway.servers import stub

from openclaw_cache.app import App
from openclaw_cache.config import load
from openclaw_cache.observe import logs

NUM_BATCHES = 150
BATCH = 200


class Asker:
    """Sends one and the same request to an application."""

    def __init__(self, app: App, body: bytes) -> None:
        self._asgi = app.asgi
        self._is_sent = False
        self._message = {"type": "http.request", "body": body, "more_body": False}
        self._head = [
            (b"host", b"127.0.0.1:8080"),
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
        ]
        self.headers: list[tuple[bytes, bytes]] = []

    async def ask(self) -> None:
        """Send it; its reply's headers are kept."""
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/v1/chat/completions",
            "query_string": b"",
            "headers": list(self._head),
            "client": ("127.0.0.1", 40000),
        }
        self._is_sent = False
        await self._asgi(scope, self._receive, self._send)

    async def _receive(self) -> dict[str, Any]:
        if self._is_sent:  # the client stays
            await asyncio.Event().wait()
        self._is_sent = True
        return self._message

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.headers = message["headers"]


async def measure(folder: Path, upstream: str, *, profiled: bool) -> list[float]:
    """CPU of one hit in µs, batch by batch."""
    config = folder / "config.yaml"
    config.write_text(f"upstreams: [{{name: stub, kind: openai, urls: ['{upstream}']}}]\n")
    settings = load(config, env={}, overrides={"server.data_dir": str(folder / "data")}).settings
    logs.configure()
    app = App(settings, lambda _line: None, {})
    await app.start()
    try:
        asker = Asker(app, write_bodies(folder)["plain"].read_bytes())
        await asker.ask()
        await asker.ask()
        if dict(asker.headers)[b"cache-status"] != b"openclaw-cache; hit; detail=exact":
            raise RuntimeError("the second request was no hit")
        profile = cProfile.Profile()
        spent = []
        for _ in range(NUM_BATCHES):
            if profiled:
                profile.enable()
            began = time.process_time()
            for _ in range(BATCH):
                await asker.ask()
            spent.append((time.process_time() - began) / BATCH * 1e6)
            profile.disable()
            await asyncio.sleep(0.001)  # what waits behind the requests has its turn, uncounted
        if profiled:
            pstats.Stats(profile, stream=sys.stdout).sort_stats("tottime").print_stats(60)
        return spent[1:]
    finally:
        await app.stop()


def main() -> None:
    """Parse the command line, measure, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gateway.in_process", description=__doc__)
    parser.add_argument("--profile", action="store_true", help="print where the time goes too")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="openclaw-cache-bench-") as name:
        folder = Path(name)
        with stub(folder, core=1) as server:
            spent = uvloop.run(measure(folder, server.url, profiled=options.profile))
    print(f"a hit in process: {min(spent):.1f} µs at least, {statistics.median(spent):.1f} in the median")


if __name__ == "__main__":
    main()
