"""Emptying a range of a file: what was there can no longer be read, and its place on the disk is given back."""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Final

_KEEP_SIZE, _PUNCH_HOLE = 1, 2  # linux/falloc.h
_ZEROS: Final = bytes(1 << 20)


def punch(fd: int, offset: int, num_bytes: int) -> None:
    """Make these bytes zeros, by a hole where the system and its file system can (fallocate(2)).

    Cost: a change of metadata; where there are no holes, a write of `num_bytes`.

    Raises:
        OSError: they could not be written.
    """
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        mode = ctypes.c_int(_KEEP_SIZE | _PUNCH_HOLE)
        if libc.fallocate64(fd, mode, ctypes.c_int64(offset), ctypes.c_int64(num_bytes)) == 0:
            return
    while num_bytes > 0:
        num_written = os.pwrite(fd, _ZEROS[: min(num_bytes, len(_ZEROS))], offset)
        offset, num_bytes = offset + num_written, num_bytes - num_written
