"""What SQLite complains of, in words that say what to do."""

from __future__ import annotations

import errno
from typing import Final

import apsw

from openclaw_cache.errors import MemoryStoreError, MemoryStoreFault

NO_SPACE: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""What the system says where nothing more can be written."""


_RESTORE: Final = "is damaged: move it away and restore it from a backup or an export"
_GIVE_ACCESS: Final = "give this user write access to the file and its folder"
_MEANINGS: Final[tuple[tuple[type[Exception], MemoryStoreFault, str], ...]] = (
    (
        apsw.NotADBError,
        "wrong_key",
        "cannot be read with this encryption key, or without one: set memory.encryption_key_env to the key that it "
        "was written with; if that is the one, the file is damaged: restore it from a backup or an export",
    ),
    (apsw.CorruptError, "damaged", _RESTORE),
    (UnicodeDecodeError, "damaged", _RESTORE),  # it gave a text that is none
    # Linux has memory for whatever is asked for in earnest: this is a length that was damaged.
    (apsw.NoMemError, "damaged", f"asks for more memory than there is, so it probably {_RESTORE}"),
    (apsw.FullError, "full", "cannot be written, the disk is full: make room"),
    (apsw.BusyError, "busy", "is held by another process for too long: see what it does, then try again"),
    (apsw.LockedError, "busy", "is in use by another call: try again"),
    (apsw.ReadOnlyError, "read_only", f"cannot be written: {_GIVE_ACCESS}"),
    (apsw.PermissionsError, "read_only", f"cannot be written: {_GIVE_ACCESS}"),
    (apsw.CantOpenError, "read_only", f"cannot be opened: {_GIVE_ACCESS}"),
    (apsw.ConnectionClosedError, "removed", "is closed: it was removed, or the server is stopping"),
    (apsw.ConstraintError, "failed", "already has something else under this id"),
    (apsw.TooBigError, "failed", "takes no record of more than 1 GB"),
    (UnicodeEncodeError, "failed", "takes no half of a surrogate pair: send well-formed Unicode"),
)


def described(error: Exception, place: str, system_error: int = 0) -> MemoryStoreError:
    """The error of this package for one of SQLite's; `system_error` is what the system said last (errno).

    The message never repeats a statement, or anything that was to be stored.
    """
    code, what = _meaning(error, system_error)
    return MemoryStoreError(f"memory store {place} {what}", code=code)


def _meaning(error: Exception, system_error: int) -> tuple[MemoryStoreFault, str]:
    if isinstance(error, apsw.IOError) and system_error in NO_SPACE:
        return "full", "cannot be written, the disk or a limit on files is full: make room"
    for kind, code, what in _MEANINGS:
        if isinstance(error, kind):
            return code, what
    return "failed", f"failed ({type(error).__name__}, errno {system_error}): see its file system"
