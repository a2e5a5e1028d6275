"""The tokens of the last day of each key, kept in a file: a restart gives no key a new day."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Collection
from pathlib import Path
from typing import Annotated

import msgspec
import structlog

from openclaw_cache.api.budget import day_count
from openclaw_cache.api.sliding_count import SlidingCount

SAVE_INTERVAL_S = 5.0
MOST_FILE_BYTES = 64 * 10**6

_log = structlog.get_logger()

_MOST_AMOUNT = (
    10**15
)  # of a quarter of an hour; a file that says more is damaged, and sums stay within 64 bits
_Digest = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
_Amount = Annotated[int, msgspec.Meta(ge=0, le=_MOST_AMOUNT)]


class _Saved(msgspec.Struct, forbid_unknown_fields=True):
    """The file: SHA-256 of a key → quarter of an hour since 1970 → tokens."""

    tokens_per_day: dict[_Digest, dict[int, _Amount]]


class DayCounts:
    """One count per key, by the key's SHA-256. They are this node's own: a fleet of N nodes counts N times.

    Args:
        path: The file, mode 0600. It is read by `load` and replaced as a whole by `save`.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._counts: dict[bytes, SlidingCount] = {}
        self._num_saved = 0
        self._fault: str | None = None
        self._writing = threading.Lock()  # a save that was cancelled goes on in its thread

    def of(self, digest: bytes) -> SlidingCount:
        """The count of a key, from 0 where it is new."""
        return self._counts.setdefault(digest, day_count())

    def keep_only(self, digests: Collection[bytes], now: float) -> None:
        """Forget the keys that are none of these, once their day has passed."""
        gone = [d for d, count in self._counts.items() if d not in digests and not count.sum(now)]
        for digest in gone:
            del self._counts[digest]

    def load(self, now: float) -> None:
        """Add what an earlier process has saved. A file that cannot be used is logged and counts as none."""
        try:
            with self._path.open("rb") as file:
                saved = msgspec.json.decode(file.read(MOST_FILE_BYTES), type=_Saved)
        except FileNotFoundError:
            return
        except (OSError, msgspec.MsgspecError, RecursionError) as e:
            reason = e.strerror if isinstance(e, OSError) else "it is damaged"
            effect = "tokens_per_day counts from 0"
            _log.warning("budgets: cannot use the file", file=str(self._path), reason=reason, effect=effect)
            return
        for digest, buckets in saved.tokens_per_day.items():
            self.of(bytes.fromhex(digest)).restore(now, buckets)

    async def save(self, now: float) -> None:
        """Write the file where something was added since; a failure is logged once and tried again next time."""
        num_added = sum(count.num_added for count in self._counts.values())
        if num_added == self._num_saved:
            return
        held = {d.hex(): count.buckets(now) for d, count in self._counts.items()}
        saved = _Saved({digest: buckets for digest, buckets in held.items() if buckets})
        try:
            await asyncio.to_thread(self._replace, saved)
        except OSError as e:
            if self._fault != str(e):
                self._fault = str(e)
                _log.warning("budgets: cannot write the file", file=str(self._path), reason=e.strerror)
            return
        self._num_saved, self._fault = num_added, None

    async def keep_saving(self, interval_s: float = SAVE_INTERVAL_S) -> None:
        """Save again and again, until cancelled."""
        while True:
            await asyncio.sleep(interval_s)
            await self.save(time.time())

    def _replace(self, saved: _Saved) -> None:
        """The file appears whole or not at all."""
        draft = self._path.with_name(f"{self._path.name}.new")
        with self._writing:
            draft.unlink(missing_ok=True)  # of a process that was killed here
            handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(msgspec.json.encode(saved))
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self._path)
