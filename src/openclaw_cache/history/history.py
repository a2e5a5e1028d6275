"""The sums of a time, from memory and the store."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Sequence
from typing import Final

from openclaw_cache.history.archive import Archive
from openclaw_cache.history.buckets import MINUTE_S, Bucket, cover, floor, points
from openclaw_cache.history.rollup import Rollup
from openclaw_cache.history.shelf import Shelf
from openclaw_cache.observe.record import RequestRecord

_MOST_RECORDS: Final = 32
_MOST_PENDING: Final = 8
_KEPT_S: Final = 60.0
_MOST_SUMS: Final = 512
_BATCH: Final = 16


class History:
    """Adds records to rollups; reads them back, of all gateways that share the store.

    A request counts in the minute in which it ended, by this machine's clock. Days are days of UTC. A clock that
    goes back adds to minutes that were over: sums stay right, only their time is wrong.

    Args:
        shelf: This gateway's sums.
        archive: What is stored.
        own_engines: Names of the upstreams that are embedded engines.
        on_degraded: Told, in a word, where sums were given up because the store was down for too long.
        wall: Unix seconds.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        shelf: Shelf,
        archive: Archive,
        own_engines: Collection[str] = (),
        *,
        on_degraded: Callable[[str], None] = lambda _what: None,
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._shelf = shelf
        self._archive = archive
        self._own_engines = frozenset(own_engines)
        self._on_degraded = on_degraded
        self._wall = wall
        self._clock = clock
        self._sums: dict[tuple[int, int], tuple[float, Rollup]] = {}
        self._records: list[RequestRecord] = []
        self._pending: dict[int, Rollup] = {}

    @property
    def is_complete(self) -> bool:
        """Whether answers have everything. Without the store they have what is in memory here.

        False too once a stored bucket could not be read: which times it is missing in is not told.
        """
        return self._archive.is_complete and not self._archive.num_unreadable

    def add(self, record: RequestRecord) -> None:
        """Count one request, soon. O(1), no I/O: 0.1 µs, and after each 32 requests 0.15 ms for all."""
        records = self._records
        records.append(record)
        if len(records) >= _MOST_RECORDS:
            self._roll_up()

    def at(self, moment: float) -> Rollup:
        """The rollup to which something that happened at this moment is to be added, at once."""
        start_at = floor(moment, MINUTE_S)
        found = self._pending.get(start_at)
        if found is None:
            if len(self._pending) >= _MOST_PENDING:
                self._put_away()
            found = self._pending[start_at] = Rollup(start_at, MINUTE_S)
        return found

    def settle(self) -> None:
        """Add what came since the last time to its minute, hour and day. Cost: 0.3 ms for each minute."""
        self._roll_up()
        self._put_away()

    def _roll_up(self) -> None:
        own = self._own_engines
        # First: a record that cannot be added must not come again and again.
        records, self._records = self._records, []
        for record in records:
            self.at(record.at + record.duration_s).add(record, is_own_engine=record.upstream in own)

    def _put_away(self) -> None:
        pending, self._pending = self._pending, {}
        if sum(map(self._shelf.take, pending.values())):
            self._on_degraded("history")

    async def between(self, start_at: float, end_at: float) -> Rollup:
        """One rollup of a time, over all gateways that share the store, to the minute where minutes are kept."""
        self.settle()
        buckets = list(cover(start_at, end_at, self._wall()))
        if not buckets:
            return Rollup(floor(start_at, MINUTE_S), 0)
        return await self._sum(buckets, buckets[0].start_at, buckets[-1].end_at)

    async def series(self, start_at: float, end_at: float, num_points: int) -> Sequence[Rollup]:
        """The same in at most `num_points` equal steps, in order, empty ones included.

        Steps are round (1 minute to 1 day, or whole days) and begin at multiples of themselves in UTC. They are to be
        read only: those that are over are kept for a minute, so that asking again costs little.
        """
        self.settle()
        now, moment = self._wall(), self._clock()
        found = []
        for start, end in points(start_at, end_at, num_points, now):
            kept = self._sums.get((start, end))
            if kept is None or kept[0] < moment:
                kept = moment + _KEPT_S, await self._sum(list(cover(start, end, now)), start, end)
                if end + _KEPT_S < now:
                    self._keep((start, end), kept)
            found.append(kept[1])
        return found

    async def _sum(self, buckets: Sequence[Bucket], start_at: int, end_at: int) -> Rollup:
        total = await added_up(await self._archive.read(buckets), start_at, end_at - start_at)
        # The bucket that now lies in may reach further: what is still to come is empty.
        total.start_at, total.span_s = start_at, end_at - start_at
        return total

    def _keep(self, span: tuple[int, int], kept: tuple[float, Rollup]) -> None:
        """Keep a point that is over for the next who asks: a dashboard asks every two seconds."""
        if not self._archive.is_complete:
            return
        self._sums[span] = kept
        if len(self._sums) > _MOST_SUMS:
            del self._sums[next(iter(self._sums))]


async def added_up(rollups: Sequence[Rollup], start_at: int, span_s: int) -> Rollup:
    """The sum of rollups, over at least this stretch of time; in steps that let requests in between."""
    total = Rollup(start_at, span_s)
    for i, rollup in enumerate(rollups, start=1):
        total.absorb(rollup)
        if i % _BATCH == 0:
            await asyncio.sleep(0)
    return total
