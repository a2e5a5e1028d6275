"""A real gateway process for tests: started on a free port, stopped and cleaned up after."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Self

START_TIMEOUT_S = 180.0


class RunningGateway:
    """`openclaw-cache serve` as its own process.

    Use as a context manager. `config` is written as YAML (JSON is YAML); the port is a free one, a new one at each
    start, unless `port` says which.
    """

    def __init__(
        self, data_dir: Path, config: dict[str, Any], env: dict[str, str] | None = None, *, port: int = 0
    ) -> None:
        self.data_dir = data_dir
        self.port = port
        # The default bound of 50 ms is for users; on a busy test machine it would open the circuit for nothing.
        self.config = config | {"store": {"timeout": "5s"} | config.get("store", {})}
        self.env = env or {}
        self.process: subprocess.Popen[bytes] | None = None
        self.url = ""
        self.log_file = data_dir.with_name(data_dir.name + ".log")

    def start(self, *, wait_ready: bool = True) -> Self:
        """Start the process; returns once it is ready (with `wait_ready`), else once it listens."""
        file = self.data_dir.with_name(self.data_dir.name + ".yaml")
        file.write_text(json.dumps(self.config))
        (self.data_dir / "server.json").unlink(missing_ok=True)
        command = [sys.executable, "-m", "openclaw_cache", "serve", "--config", str(file)]
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--port", str(self.port), "--data-dir", str(self.data_dir)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={k: v for k, v in os.environ.items() if not k.startswith("OPENCLAW_CACHE_")} | self.env,
            )
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise RuntimeError(f"the gateway ended with {self.process.returncode}:\n{self.log()}")
            if self._is_up(wait_ready=wait_ready):
                return self
            time.sleep(0.05)
        raise TimeoutError(f"the gateway is not up after {START_TIMEOUT_S:g} s:\n{self.log()}")

    def _is_up(self, *, wait_ready: bool) -> bool:
        try:
            found = json.loads((self.data_dir / "server.json").read_bytes())
            if self.process is None or found["pid"] != self.process.pid:
                return False
            self.url = found["url"]
            with urllib.request.urlopen(f"{self.url}/{'readyz' if wait_ready else 'healthz'}", timeout=5):
                return True
        except (OSError, ValueError, urllib.error.URLError):
            return False

    def stop(self, number: int = signal.SIGTERM, *, timeout_s: float = 60.0) -> int:
        """Send a signal and wait for the end; returns the exit code."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(timeout_s)

    def log(self) -> str:
        """Everything that the process has printed."""
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    def requests_logged(self) -> list[dict[str, Any]]:
        """The request log lines written so far."""
        lines = [json.loads(line) for line in self.log().splitlines() if line.startswith("{")]
        return [line for line in lines if line.get("event") == "request"]

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        if self.process is not None and self.process.poll() is None:
            try:
                self.stop()
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        end_leftover_store(self.data_dir)


def end_leftover_store(data_dir: Path) -> None:
    """End the Valkey that a killed gateway has left behind; it would wait for the next start."""
    for pid_file in (data_dir / "valkey").glob("*.pid"):
        try:
            os.kill(int(pid_file.read_text()), signal.SIGKILL)
        except (OSError, ValueError):
            continue
