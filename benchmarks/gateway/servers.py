"""The servers under test and what they need, each started on its core and stopped in the end."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openclaw_cache.store.process import find_binary

REPOSITORY = Path(__file__).resolve().parents[2]
START_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class Server:
    """A running server."""

    pid: int
    url: str
    path: str = "/v1/chat/completions"

    @property
    def target(self) -> str:
        """Where the requests go."""
        return self.url + self.path


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


@contextlib.contextmanager
def running(
    command: list[str],
    *,
    core: int,
    log: Path,
    is_up: Callable[[], object],
    env: dict[str, str] | None = None,
) -> Iterator[int]:
    """Run a command on one core until the block ends; gives its pid once `is_up`."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("OPENCLAW_CACHE_")}
    with log.open("wb") as file:
        process = subprocess.Popen(
            ["taskset", "-c", str(core), *command],
            cwd=REPOSITORY,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            env=own | (env or {}),
        )
    try:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not is_up():
            if process.poll() is not None or time.monotonic() > deadline:
                tail = log.read_text(errors="replace")[-2000:]
                raise RuntimeError(f"{' '.join(command[:4])} did not start:\n{tail}")
            time.sleep(0.1)
        yield process.pid
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.contextmanager
def stub(folder: Path, core: int) -> Iterator[Server]:
    """The upstream (see `stub`)."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "benchmarks.gateway.stub", str(port)]
    with running(command, core=core, log=folder / "stub.log", is_up=lambda: answers(f"{url}/count")) as pid:
        yield Server(pid, url)


@contextlib.contextmanager
def baseline(folder: Path, core: int, upstream: str) -> Iterator[Server]:
    """The bare server (see `baseline`): `/hit` and `/relay`."""
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.gateway.baseline", str(port), upstream]
    is_up = lambda: post(f"http://127.0.0.1:{port}/hit", b"{}")  # noqa: E731
    with running(command, core=core, log=folder / "baseline.log", is_up=is_up) as pid:
        yield Server(pid, f"http://127.0.0.1:{port}")


@contextlib.contextmanager
def gateway(
    folder: Path, core: int, upstream: str, name: str, *, store: dict[str, Any], result_cache: dict[str, Any]
) -> Iterator[Server]:
    """Our gateway with an embedded Valkey, its log lines written to a file."""
    port, data = free_port(), folder / name
    config = folder / f"{name}.yaml"
    config.write_text(  # JSON is YAML
        json.dumps(
            {
                "upstreams": [{"name": "stub", "kind": "openai", "urls": [upstream]}],
                "store": store,
                "result_cache": {"tools": "cache", **result_cache},
            }
        )
    )
    command = [sys.executable, "-m", "openclaw_cache", "serve", "--config", str(config)]
    command += ["--port", str(port), "--data-dir", str(data)]
    url = f"http://127.0.0.1:{port}"
    is_up = lambda: answers(f"{url}/readyz")  # noqa: E731
    with running(command, core=core, log=folder / f"{name}.log", is_up=is_up) as pid:
        yield Server(pid, url)


@contextlib.contextmanager
def valkey(folder: Path, core: int) -> Iterator[int]:
    """A Valkey on a TCP port for a peer; gives the port. Persistence off: the fastest that it can be."""
    port = free_port()
    command = [str(find_binary()), "--port", str(port), "--save", "", "--appendonly", "no"]
    command += ["--bind", "127.0.0.1"]

    def is_up() -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return True
        return False

    with running(command, core=core, log=folder / "valkey.log", is_up=is_up):
        yield port


@contextlib.contextmanager
def litellm(
    folder: Path, core: int, upstream: str, venv: Path, name: str, cache: dict[str, Any]
) -> Iterator[Server]:
    """LiteLLM's proxy, one worker, set up as its production guide says: quiet, no spend logs, fixed port."""
    port = free_port()
    config = folder / f"{name}.yaml"
    model = {"model": "openai/bench", "api_base": f"{upstream}/v1", "api_key": "sk-none"}
    paced = {"model_name": "bench-*", "litellm_params": {**model, "model": "openai/bench-*"}}
    config.write_text(
        json.dumps(
            {
                "model_list": [{"model_name": "bench", "litellm_params": model}, paced],
                "litellm_settings": {
                    "cache": True,
                    "cache_params": {"ttl": 86400, "supported_call_types": ["acompletion"], **cache},
                    "set_verbose": False,
                    "json_logs": False,
                    "num_retries": 0,
                    "request_timeout": 600,
                    "telemetry": False,
                },
                "general_settings": {"disable_spend_logs": True, "disable_error_logs": True},
            }
        )
    )
    command = [str(venv / "bin" / "litellm"), "--config", str(config), "--host", "127.0.0.1"]
    command += ["--port", str(port), "--num_workers", "1"]
    url = f"http://127.0.0.1:{port}"
    env = {"LITELLM_MODE": "PRODUCTION", "LITELLM_LOG": "ERROR", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    env["LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY"] = "true"  # nobody has keys here
    is_up = lambda: answers(f"{url}/health/readiness")  # noqa: E731
    with running(command, core=core, log=folder / f"{name}.log", is_up=is_up, env=env) as pid:
        yield Server(pid, url)


@contextlib.contextmanager
def sglang_router(folder: Path, core: int, upstream: str, venv: Path) -> Iterator[Server]:
    """SGLang's router before one worker, without retries."""
    port = free_port()
    command = [str(venv / "bin" / "python"), "-m", "sglang_router.launch_router", "--worker-urls", upstream]
    command += ["--host", "127.0.0.1", "--port", str(port), "--prometheus-port", str(free_port())]
    command += ["--policy", "round_robin", "--disable-retries", "--log-level", "warn"]
    url = f"http://127.0.0.1:{port}"
    body = json.dumps({"model": "bench", "messages": [{"role": "user", "content": "hello"}]}).encode()
    is_up = lambda: post(f"{url}/v1/chat/completions", body)  # noqa: E731 - it listens before it has its worker
    with running(command, core=core, log=folder / "sglang-router.log", is_up=is_up) as pid:
        yield Server(pid, url)


def answers(url: str) -> bytes | None:
    """The body of a GET, None where there is no good answer."""
    try:
        with urllib.request.urlopen(url, timeout=5) as reply:
            body: bytes = reply.read()
            return body
    except (OSError, http.client.HTTPException):
        return None


def post(url: str, body: bytes, headers: dict[str, str] | None = None) -> bool:
    """Whether a POST is answered with 200 within a minute."""
    sent = urllib.request.Request(url, body, {"content-type": "application/json", **(headers or {})})
    try:
        with urllib.request.urlopen(sent, timeout=60) as reply:
            reply.read()
            return bool(reply.status == 200)
    except (OSError, http.client.HTTPException):
        return False
