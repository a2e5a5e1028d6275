"""Programs of Debian packages, unpacked beside the virtual environment: nothing is installed, nothing needs root."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_CACHE = Path(sys.prefix) / ".openclaw-cache-clients"
_TIMEOUT_S = 170.0


def debian_program(package: str, path: str) -> Path:
    """A program of a package, downloaded once; skips the test where it cannot be had.

    Args:
        package: Its name.
        path: Where the package has the program, such as `usr/bin/promtool`.
    """
    folder = _CACHE / f"debian-{package}"
    program = folder / path
    if not program.exists():
        _unpack(package, folder)
    if not program.exists():
        pytest.skip(f"Debian's package {package} has no {path}")
    return program


def _unpack(package: str, folder: Path) -> None:
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        pytest.skip(f"no apt-get and dpkg here, which would bring {package}")
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)  # half a package would look like a whole one
    partial.mkdir(parents=True)
    if not _ran(["apt-get", "download", package], partial) and os.geteuid() == 0:
        _ran(["apt-get", "update"], partial)  # a new machine has no list of packages yet
    if not list(partial.glob("*.deb")):
        _run(["apt-get", "download", package], partial, package)
    [archive] = partial.glob("*.deb")
    _run(["dpkg", "-x", archive, partial], partial, package)
    archive.unlink()
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)


def _ran(command: list[str | Path], cwd: Path) -> bool:
    try:
        return (
            subprocess.run(command, cwd=cwd, capture_output=True, timeout=_TIMEOUT_S, check=False).returncode
            == 0
        )
    except subprocess.TimeoutExpired:
        return False


def _run(command: list[str | Path], cwd: Path, package: str) -> None:
    try:
        ran = subprocess.run(
            command, cwd=cwd, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"Debian's package {package} did not come within {_TIMEOUT_S:g} s")
    if ran.returncode:
        reason = next(iter(ran.stderr.strip().splitlines()[-1:]), "no reason given")
        pytest.skip(f"Debian's package {package} cannot be had: {reason}")
