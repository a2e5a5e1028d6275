"""Ids of what an agent's store keeps: they sort by the time at which they were made."""

from __future__ import annotations

import secrets
import threading
from typing import Final

_SEQUENCE_BITS: Final = 12
"""Ids that one millisecond has room for; more of them run ahead of the clock."""
_RANDOM_BYTES: Final = 6


class _Stamps:
    """Numbers that only grow, from a clock that may stand still or go back."""

    __slots__ = ("_last", "_lock")

    def __init__(self) -> None:
        self._last = 0
        self._lock = threading.Lock()

    def next(self, now: float) -> int:
        with self._lock:
            self._last = max(int(now * 1000) << _SEQUENCE_BITS, self._last + 1)
            return self._last


_stamps: Final = _Stamps()


def new_id(prefix: str, now: float) -> str:
    """A new id such as `mem_0019f2c4a5b60001d3e8a91b7c42`. In one process, each sorts after those made before it.

    Args:
        prefix: What it names: `mem`, `turn`, `rec`.
        now: Unix time.
    """
    return f"{prefix}_{_stamps.next(now):016x}{secrets.token_hex(_RANDOM_BYTES)}"
