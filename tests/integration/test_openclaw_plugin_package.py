"""The plugin's package: what is committed in `dist` is what its sources say, and its own tests hold."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from support.real_openclaw import PLUGIN, node, npm

_SOURCES = ("src", "test", "package.json", "package-lock.json", "tsconfig.json", "openclaw.plugin.json")


def run(*command: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    program = node()
    env = os.environ | {"PATH": f"{program.parent}:{os.environ['PATH']}"}
    return subprocess.run(
        [str(part) for part in (program, *command)],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources with the compiler of the lock file; skips where the registry cannot be reached."""
    folder = tmp_path_factory.mktemp("plugin")
    for name in _SOURCES:
        source = PLUGIN / name
        (shutil.copytree if source.is_dir() else shutil.copyfile)(source, folder / name)
    ran = run(npm(node()), "ci", "--omit=peer", "--ignore-scripts", "--no-audit", "--no-fund", cwd=folder)
    if ran.returncode:
        reason = next((line for line in ran.stderr.splitlines() if "npm error" in line), "no reason given")
        pytest.skip(f"TypeScript cannot be installed: {reason}")
    return folder


def test_dist_is_what_the_compiler_makes_of_the_sources(checkout: Path) -> None:
    ran = run("node_modules/typescript/bin/tsc", "--project", "tsconfig.json", cwd=checkout)
    assert ran.returncode == 0, ran.stdout
    built = {file.name: file.read_text() for file in (checkout / "dist").iterdir()}
    committed = {file.name: file.read_text() for file in (PLUGIN / "dist").iterdir()}
    assert built == committed


def test_its_own_tests_hold(checkout: Path) -> None:
    files = sorted((checkout / "test").glob("*.test.ts"))
    ran = run("--test", *files, cwd=checkout)
    assert ran.returncode == 0, ran.stdout


def test_the_package_holds_what_openclaw_needs_and_nothing_else(tmp_path: Path) -> None:
    ran = run(npm(node()), "pack", PLUGIN, "--dry-run", "--json", "--ignore-scripts", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    (packed,) = json.loads(ran.stdout)
    names = {file["path"] for file in packed["files"]}
    scripts = {f"dist/{file.name}" for file in (PLUGIN / "dist").iterdir()}
    assert names == scripts | {"README.md", "openclaw.plugin.json", "package.json"}


def test_package_and_manifest_agree_on_version_and_entry() -> None:
    package = json.loads((PLUGIN / "package.json").read_text())
    manifest = json.loads((PLUGIN / "openclaw.plugin.json").read_text())
    assert manifest["version"] == package["version"]
    assert [PLUGIN / entry for entry in package["openclaw"]["extensions"]] == [PLUGIN / "dist" / "index.js"]
