"""Sums in the store: this gateway's are written, everybody's are read."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from itertools import groupby
from typing import Final, NamedTuple

import structlog

from openclaw_cache.errors import CorruptEntryError, StoreError
from openclaw_cache.history.buckets import DAY_S, Bucket
from openclaw_cache.history.coding import Codec
from openclaw_cache.history.nodes import Nodes
from openclaw_cache.history.rollup import Rollup
from openclaw_cache.history.shelf import Held, Shelf
from openclaw_cache.store.store import Store

_BATCH: Final = 16
"""Buckets read in one step: about a millisecond, then requests get their turn."""
_CLOSED_S: Final = 60.0
"""So long after its end a bucket may still be written by others in the ordinary way."""
_KEPT_S: Final = 60.0
_KEPT_BYTES: Final = 8 << 20
_TODAY_KEPT_S: Final = 5.0

_log = structlog.get_logger()


class _Kept(NamedTuple):
    until: float
    size_bytes: int
    rollup: Rollup | None


class Archive:
    """What is kept of past times.

    What was read of closed buckets is kept for a minute (at most 8 MB, as stored), so that a dashboard that asks
    every two seconds costs little.

    Args:
        store: Where it is kept.
        codec: Its form.
        shelf: What of this gateway is in memory.
        may_use: Whether the store is known to be our fleet's.
        wall: Unix seconds.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        store: Store,
        codec: Codec,
        shelf: Shelf,
        *,
        may_use: Callable[[], bool] = lambda: True,
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.nodes = Nodes(store)
        self.num_unreadable = 0
        """Stored buckets that could not be read: damaged, or under a key that this node does not have."""
        self.is_complete = True
        """Whether the store has answered the last time that something was read."""
        self._store = store
        self._codec = codec
        self._shelf = shelf
        self._may_use = may_use
        self._wall = wall
        self._clock = clock
        self._kept: dict[bytes, _Kept] = {}
        self._kept_bytes = 0
        self._known_nodes: dict[int, tuple[float, Sequence[str]]] = {}
        self._has_written = False

    async def write(self) -> bool:
        """Write what the store has not got; returns whether it may. What it does not take is tried again next time.

        Raises:
            StoreError: it took not everything. Of a cluster, one node may be away: what the others take is written.
        """
        if not self._may_use():
            return False
        dirty = self._shelf.dirty()
        if dirty and not self._has_written:
            await self._look_at([bucket for bucket, _ in dirty])
        failure: StoreError | None = None
        for day, of_day in groupby(dirty, lambda item: item[0].day):
            try:
                await self.nodes.claim(day, self._shelf.written_as)
            except StoreError as e:  # who is not on the list of a day is not found
                failure = e
                continue
            for bucket, held in of_day:
                try:
                    await self._write_one(bucket, held)
                except StoreError as e:
                    failure = e
        if failure is not None:
            raise failure
        return True

    async def _look_at(self, buckets: Sequence[Bucket]) -> None:
        """Before the first write: what is there and does not open is not overwritten, as a key may be missing or wrong.

        This run then writes under a name of its own. Of a cluster, a node that is away is not waited for.
        """
        for key in [bucket.key(self._shelf.written_as) for bucket in buckets]:
            with suppress(StoreError):
                stored = await self._store.get(key)
                if stored is not None and self._is_shut(stored, self._decoded(key, stored)):
                    self._shelf.written_as = secrets.token_hex(8)
                    return

    async def _write_one(self, bucket: Bucket, held: Held) -> None:
        key = bucket.key(self._shelf.written_as)
        if not held.is_whole:
            stored = await self._store.get(key)
            if stored is not None:
                earlier = self._decoded(key, stored)
                if self._is_shut(
                    stored, earlier
                ):  # found too late for another name: what is new stays in memory
                    held.is_dirty = False
                    return
                if earlier is not None:
                    held.rollup.absorb(earlier).trim(bucket.resolution.num_lines)
            held.is_whole = True
        held.is_dirty = False  # what is added while the store works makes it dirty again
        try:
            await self._store.put(key, self._codec.encode(key, held.rollup))
        except BaseException:  # also a flush that is cut off: what was not written stays to be written
            held.is_dirty = True
            raise
        self._has_written = True

    def _is_shut(self, stored: bytes, read: Rollup | None) -> bool:
        """Whether it may be the fault of our keys that this could not be read."""
        return read is None and self._codec.is_sealed(stored)

    async def read(self, buckets: Sequence[Bucket]) -> list[Rollup]:
        """All gateways' sums of some buckets, in any order. Where the store is down: what is in memory here.

        Cost: some 50 µs for each bucket of each gateway, the first time; in steps that let requests in between.
        """
        found: list[Rollup] = []
        own: set[Bucket] = set()
        for bucket in buckets:
            held = self._shelf.find(bucket)
            if held is not None:
                found.append(held.rollup)
                if held.is_whole:
                    own.add(bucket)
        self.is_complete = self._may_use()
        if not self.is_complete:
            return found
        try:
            nodes = await self._nodes_of({bucket.day for bucket in buckets})
            wanted = [
                (bucket, bucket.key(node))
                for bucket in buckets
                for node in {*nodes[bucket.day], self._shelf.written_as}
                if node != self._shelf.written_as or bucket not in own
            ]
            for i in range(0, len(wanted), _BATCH):
                found += await self._read(wanted[i : i + _BATCH])
        except StoreError:
            self.is_complete = False
        return found

    async def _read(self, wanted: Sequence[tuple[Bucket, bytes]]) -> list[Rollup]:
        now = self._clock()
        found: dict[bytes, Rollup | None] = {}
        for _, key in wanted:
            kept = self._kept.get(key)
            if kept is not None and kept.until > now:
                found[key] = kept.rollup
        missing = [(bucket, key) for bucket, key in wanted if key not in found]
        if missing:
            values = await self._store.get_many([key for _, key in missing])
            for (bucket, key), stored in zip(missing, values, strict=True):
                found[key] = None if stored is None else self._decoded(key, stored)
                if bucket.end_at + _CLOSED_S < self._wall():
                    self._keep(key, _Kept(now + _KEPT_S, len(stored or b"") + len(key), found[key]))
            await asyncio.sleep(0)
        return [rollup for rollup in found.values() if rollup is not None]

    def _keep(self, key: bytes, kept: _Kept) -> None:
        older = self._kept.pop(key, None)
        self._kept[key] = kept
        self._kept_bytes += kept.size_bytes - (older.size_bytes if older is not None else 0)
        while self._kept_bytes > _KEPT_BYTES:
            oldest = next(iter(self._kept))
            self._kept_bytes -= self._kept.pop(oldest).size_bytes

    async def _nodes_of(self, days: Collection[int]) -> dict[int, Sequence[str]]:
        now, today = self._clock(), int(self._wall() // DAY_S)
        known = {day: self._known_nodes[day] for day in days if day in self._known_nodes}
        fresh = {day: nodes for day, (until, nodes) in known.items() if until > now}
        asked = await self.nodes.of([day for day in days if day not in fresh])
        for day, nodes in asked.items():
            self._known_nodes[day] = (now + (_TODAY_KEPT_S if day >= today else _KEPT_S), nodes)
        if len(self._known_nodes) > 2000:
            self._known_nodes.clear()
        return fresh | asked

    def _decoded(self, key: bytes, stored: bytes) -> Rollup | None:
        try:
            return self._codec.decode(key, stored)
        except CorruptEntryError as e:
            if not self.num_unreadable:
                _log.warning("history cannot be read", reason=str(e), effect="its time counts as empty")
            self.num_unreadable += 1
            return None
