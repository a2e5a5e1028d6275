"""The dashboard's modules: their syntax, and the tests of the pure ones, which Node runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.node import DASHBOARD, run_node

MODULES = sorted(DASHBOARD.rglob("*.js"))
TESTS = sorted((Path(__file__).parent / "dashboard").glob("*.test.mjs"))


@pytest.mark.node
def test_every_module_is_valid_javascript(tmp_path: Path) -> None:
    faults = []
    for module in MODULES:
        copy = tmp_path / f"{module.stem}.mjs"  # by its name Node knows that it is a module
        copy.write_bytes(module.read_bytes())
        ran = run_node(["--check", str(copy)])
        if ran.returncode:
            faults.append(f"{module}: {ran.stderr}")
    assert MODULES
    assert faults == []


@pytest.mark.node
@pytest.mark.parametrize("file", TESTS, ids=lambda file: file.name.removesuffix(".test.mjs"))
def test_the_pure_modules_do_what_their_own_tests_say(file: Path) -> None:
    ran = run_node(["--test", "--test-reporter=spec", str(file)])
    assert ran.returncode == 0, ran.stdout[-4000:]


def test_modules_are_short() -> None:
    assert {str(m): n for m in MODULES if (n := len(m.read_text().splitlines())) > 400} == {}
