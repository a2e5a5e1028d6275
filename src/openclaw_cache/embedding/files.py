"""Hashes of model files: they tell one model from another, and an untouched file from a changed one."""

from __future__ import annotations

import hashlib
import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

from openclaw_cache.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

FIELD = "semantic_cache.embedder"
"""The setting that all messages of this package name."""


def sha256_of(file: Path) -> str:
    """SHA-256 of a file's bytes, in hex. About 0.1 s per 100 MB."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def fingerprint_of(name: str, hashes: Mapping[str, str], preparation: int) -> str:
    """A model's fingerprint from the hashes of its files, in whatever order they stand."""
    whole = hashlib.sha256()
    for file, digest in sorted(hashes.items()):
        whole.update(f"{len(file)}:{file}={digest}\n".encode())
    return f"{name}:{whole.hexdigest()[:24]}:{preparation}"


def hashes_of(folder: Path, files: Iterable[Path]) -> dict[str, str]:
    """Hash by the file's name below `folder`."""
    return {file.relative_to(folder).as_posix(): sha256_of(file) for file in files}


def package_folder(package: str, project: str) -> Path:
    """Where an installed package lies, without importing it.

    Raises:
        ConfigError: it is not installed.
    """
    spec = importlib.util.find_spec(package)
    for place in (spec.submodule_search_locations or []) if spec else []:
        return Path(place)
    raise ConfigError(f"{FIELD}: {project} is not installed: pip install {project}")


def pinned(folder: Path, pins: Mapping[str, str], release: str) -> dict[str, str]:
    """The hashes of files that must be the ones we know.

    Raises:
        ConfigError: one is missing or another; a changed model would give vectors that mean something else.
    """
    for name, expected in pins.items():
        file = folder / name
        found = sha256_of(file) if file.is_file() else "no such file"
        if found != expected:
            raise ConfigError(
                f"{FIELD}: {file} is not the file of {release} (sha256 {found}, not {expected}): "
                f"pip install --force-reinstall {release}"
            )
    return dict(pins)
