"""A file lock that ends with its holder, whatever ends the holder (flock(2))."""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class FileLock:
    """An exclusive lock on a file, which names the holder's process id.

    The lock belongs to the open file, so a child that inherits `fd` holds it too, for as long as it
    lives: a held lock proves a living holder, which a process id alone (it may be reused) does not.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None

    @property
    def fd(self) -> int:
        """The file descriptor, to be inherited by a child; only while held."""
        if self._fd is None:
            raise RuntimeError(f"{self._path} is not locked")
        return self._fd

    def try_acquire(self) -> bool:
        """Take the lock unless somebody holds it; never waits. True also when it is ours already."""
        if self._fd is not None:
            return True
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return False
        except OSError:
            os.close(fd)
            raise
        self._fd = fd
        return True

    def name_holder(self, pid: int) -> None:
        """Write the holder's process id into the file; only while held."""
        os.ftruncate(self.fd, 0)
        os.pwrite(self.fd, b"%d\n" % pid, 0)

    def holder(self) -> int | None:
        """The process id last written. Meaningful only while the lock is held."""
        with contextlib.suppress(FileNotFoundError, ValueError):
            return int(self._path.read_bytes())
        return None

    def let_go(self) -> None:
        """Close our descriptor: frees the lock, unless a child inherited it and now holds it."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
