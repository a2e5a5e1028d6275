"""A gateway's process under fuzzing, and what must hold of it however its peers behave."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

from fuzz.wire import Connection
from support.running import RunningGateway

MAX_GROWTH_BYTES = 150 * 2**20


class Watched:
    """The process.

    Args:
        gateway: runs already.
        secret: stands in every prompt and reply: it must be found in no log.
        max_growth_bytes: by so much the process may grow after its first cases: its caches fill, and its pools.
    """

    def __init__(
        self, gateway: RunningGateway, secret: str, *, max_growth_bytes: int = MAX_GROWTH_BYTES
    ) -> None:
        self.gateway = gateway
        self.host, port = gateway.url.removeprefix("http://").split(":")
        self.port = int(port)
        self._secret = secret
        self._max_growth_bytes = max_growth_bytes
        self._settled_bytes: int | None = None
        self.most_bytes = 0

    def connection(self) -> Connection:
        """A connection to it."""
        return Connection(self.host, self.port)

    def rss_bytes(self) -> int:
        """Its resident memory."""
        assert self.gateway.process is not None
        text = Path(f"/proc/{self.gateway.process.pid}/status").read_text()
        return next(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("VmRSS"))

    def visit(self, number: int, num_to_settle: int) -> None:
        """Look after it now and then: after the first `num_to_settle` cases it must not grow any more."""
        if number == num_to_settle:
            self._settled_bytes = self.rss_bytes()
        if number % 200 == 0:
            self.check_alive()

    def check_alive(self) -> None:
        """It runs, and has not grown out of bounds."""
        assert self.gateway.process is not None
        assert self.gateway.process.poll() is None, f"the gateway has ended:\n{self.gateway.log()[-4000:]}"
        rss = self.rss_bytes()
        self.most_bytes = max(self.most_bytes, rss)
        if self._settled_bytes is not None:
            assert rss < self._settled_bytes + self._max_growth_bytes, f"{rss >> 20} MiB resident"

    def warnings(self) -> str:
        """What its log says beside requests, the last of it."""
        lines = [line for line in self.gateway.log().splitlines() if '"event":"request"' not in line]
        return "\n".join(lines)[-4000:]

    def last_traceback(self) -> str:
        """The last traceback in its log; empty where there is none."""
        lines = [line for line in self.gateway.log().splitlines() if "Traceback" in line]
        return lines[-1].replace("\\n", "\n")[-6000:] if lines else ""

    async def check_at_rest(self) -> None:
        """Nothing is in the air once nobody asks, and its log tells of no failure nor of anybody's text."""
        self.check_alive()
        ends_at = time.monotonic() + 20
        while True:
            status = await self.status()
            if status["flights"] == 0 and status["inflight"]["held_bytes"] == 0:
                break
            assert time.monotonic() < ends_at, f"left: {status['flights']} flights, {status['inflight']}"
            await asyncio.sleep(0.05)
        log = self.gateway.log()
        assert "Traceback" not in log, log[log.index("Traceback") :][:6000]
        assert '"internal_error"' not in log
        assert self._secret not in log, "the log has text of a prompt or reply"

    async def status(self) -> dict[str, Any]:
        """`/admin/status`."""
        async with self.connection() as connection:
            reply = await connection.exchange("GET", "/admin/status", [])
        assert reply.status == 200, self.last_traceback()
        found: dict[str, Any] = json.loads(reply.body)
        return found
