"""A real Prometheus for tests: Debian's, which scrapes a server that the test has started."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from support.debian import debian_program

Json = Any
_START_TIMEOUT_S = 60.0


def promtool() -> Path:
    """Prometheus's own checker; skips the test where it cannot be had."""
    return debian_program("prometheus", "usr/bin/promtool")


class RealPrometheus:
    """A running Prometheus. Made by `running_prometheus`."""

    def __init__(self, url: str) -> None:
        self.url = url

    def query(self, expr: str) -> list[Json]:
        """The series that an expression gives now. Raises AssertionError where it is no expression."""
        answer = self._get("query", query=expr)
        assert answer["status"] == "success", f"{expr}: {answer.get('error')}"
        result = answer["data"]["result"]
        return result if answer["data"]["resultType"] in ("vector", "matrix") else [result]

    def rules(self) -> list[Json]:
        """Every rule with its health."""
        groups = self._get("rules")["data"]["groups"]
        return [rule for group in groups for rule in group["rules"]]

    def targets(self) -> list[Json]:
        """What it scrapes."""
        found: list[Json] = self._get("targets")["data"]["activeTargets"]
        return found

    def _get(self, what: str, **query: str) -> Json:
        asked = f"{self.url}/api/v1/{what}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(asked, timeout=30) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as e:
            return json.loads(e.read())


@contextlib.contextmanager
def running_prometheus(config: Path, data: Path) -> Iterator[RealPrometheus]:
    """Run Prometheus on a free port of loopback with this configuration."""
    program = debian_program("prometheus", "usr/bin/prometheus")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    log = data.with_name(f"{data.name}.log")
    with log.open("wb") as file:
        process = subprocess.Popen(
            [
                program,
                f"--config.file={config}",
                f"--storage.tsdb.path={data}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
        )
    prometheus = RealPrometheus(f"http://127.0.0.1:{port}")
    try:
        _wait(prometheus, process, log)
        yield prometheus
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(prometheus: RealPrometheus, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"Prometheus ended with {process.returncode}:\n{log.read_text()[-2000:]}")
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{prometheus.url}/-/ready", timeout=5):
            return
        time.sleep(0.1)
    raise TimeoutError(f"Prometheus is not ready:\n{log.read_text()[-2000:]}")
