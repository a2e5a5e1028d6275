"""The folders of the disk tier: their names, who holds one, and their bound together."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from typing import TYPE_CHECKING, Final

from blake3 import blake3

from openclaw_cache.kv.tiers import TierError

if TYPE_CHECKING:
    from pathlib import Path

_NAME: Final = re.compile(r"[0-9a-f]{16}")
_SECTOR_BYTES: Final = 512


def folder_name(header: bytes) -> str:
    """16 hex digits that stand for a header: a model and a codec, never a prompt."""
    return blake3(header).hexdigest()[:16]


def lock_folder(folder: Path) -> int:
    """Make the folder (0700) if need be and hold it until the returned descriptor is closed or we die.

    Raises:
        TierError: another process holds it.
        OSError: it cannot be made.
    """
    while True:
        folder.mkdir(mode=0o700, exist_ok=True)
        path = folder / "lock"
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(fd, 20, 0).decode(errors="replace").strip() or "another process"
            os.close(fd)
            raise TierError(f"{folder} is held by process {holder}") from error
        if _is_still(path, fd):
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
            return fd
        os.close(fd)  # it was pruned between our open and our lock


def prune(parent: Path, max_bytes: int, *, keep: Path) -> int:
    """Remove folders beside `keep` until all together fit; the one whose last use is longest ago goes first.

    Folders that a process holds stay, and what is no folder of ours is not touched. Returns how many were
    removed. Cost: a few stat calls per folder.

    Raises:
        OSError: one could not be removed; it stays, perhaps in part, and its blocks are misses.
    """
    sizes = {
        folder: _allocated_bytes(folder)
        for folder in parent.iterdir()
        if _NAME.fullmatch(folder.name) and folder.is_dir() and not folder.is_symlink()
    }
    total_bytes, num_removed = sum(sizes.values()), 0
    for folder in sorted(sizes, key=_used_at):
        if total_bytes <= max_bytes:
            break
        if folder != keep and _remove(folder):
            total_bytes -= sizes[folder]
            num_removed += 1
    return num_removed


def _remove(folder: Path) -> bool:
    """Remove a folder unless a process holds it."""
    try:
        fd = lock_folder(folder)
    except TierError:
        return False
    try:
        shutil.rmtree(folder)
    finally:
        os.close(fd)
    return True


def _is_still(path: Path, fd: int) -> bool:
    """Whether the file that we have open is the one at this path."""
    try:
        return os.path.samestat(path.stat(), os.fstat(fd))
    except FileNotFoundError:
        return False


def _used_at(folder: Path) -> float:
    try:
        return (folder / "lock").stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _allocated_bytes(folder: Path) -> int:
    """What the files take on the disk: holes take nothing."""
    return sum(path.lstat().st_blocks * _SECTOR_BYTES for path in folder.iterdir())
