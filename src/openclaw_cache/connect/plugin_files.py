"""Our OpenClaw plugin: where its files are, and the copy that OpenClaw loads.

OpenClaw refuses a plugin whose files are hard links, as some Python installers make them, or that others may write. So
it gets a copy of its own, in our data directory.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from importlib.resources import files as package_files
from pathlib import Path
from typing import Final

from openclaw_cache.errors import ConfigError

FOLDER_NAME: Final = "openclaw-plugin"
MANIFEST: Final = "openclaw.plugin.json"
_PUBLISHED: Final = ("package.json", MANIFEST, "README.md", "LICENSE", "dist")
"""What the plugin consists of, as its package.json publishes it."""


def packaged() -> Path:
    """The plugin that came with this package, or the one of the checkout that it runs from.

    Raises:
        ConfigError: it is in neither place.
    """
    installed = Path(str(package_files(__package__))) / "plugin"
    checkout = Path(__file__).parents[3] / "integrations" / "openclaw"
    for folder in (installed, checkout):
        if (folder / MANIFEST).is_file():
            return folder
    raise ConfigError(
        "this installation has no OpenClaw plugin: install openclaw-cache again, or use --no-plugin"
    )


def version(folder: Path) -> str | None:
    """The version of the plugin in a folder; None where there is none."""
    try:
        return str(json.loads((folder / "package.json").read_bytes())["version"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def is_same(source: Path, copy: Path) -> bool:
    """Whether a copy is what a fresh one would be. Reads all files."""
    try:
        return _contents(source) == _contents(copy)
    except OSError:
        return False


def place_copy(source: Path, copy: Path) -> None:
    """Make `copy` a copy of the plugin, at once and with files of its own.

    Raises:
        ConfigError: it cannot be written.
    """
    new, old = copy.with_name(f".{copy.name}.new"), copy.with_name(f".{copy.name}.old")
    try:
        for stale in (new, old):
            shutil.rmtree(stale, ignore_errors=True)
        new.mkdir(parents=True, mode=0o755)
        for path in _files(source):
            target = new / path.relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
        for folder, _, names in os.walk(new):  # whatever the umask: OpenClaw refuses what others may write
            Path(folder).chmod(0o755)
            for name in names:
                (Path(folder) / name).chmod(0o644)
        if copy.exists():
            copy.rename(old)
        new.rename(copy)
        shutil.rmtree(old, ignore_errors=True)
    except OSError as e:
        raise ConfigError(f"the plugin cannot be copied to {copy}: {e.strerror}") from None


def remove_copy(copy: Path) -> None:
    """Remove a copy; nothing happens where there is none, or where it is no plugin."""
    if (copy / MANIFEST).is_file():
        shutil.rmtree(copy, ignore_errors=True)


def _files(folder: Path) -> Iterator[Path]:
    for name in _PUBLISHED:
        path = folder / name
        if path.is_dir():
            yield from sorted(p for p in path.rglob("*") if p.is_file())
        elif path.is_file():
            yield path


def _contents(folder: Path) -> dict[str, bytes]:
    found = {str(path.relative_to(folder)): path.read_bytes() for path in _files(folder)}
    return {name: content for name, content in found.items() if not name.endswith(".map")}
