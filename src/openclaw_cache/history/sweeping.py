"""Removing what is older than it is kept. The store does not: keys that expire are those that it may evict."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Final

from openclaw_cache.history.buckets import (
    DAY_S,
    DAYS,
    HOUR_S,
    PREFIX,
    RESOLUTIONS,
    Bucket,
    Resolution,
    floor,
)
from openclaw_cache.history.nodes import Nodes
from openclaw_cache.store.store import Store

EVERY_S: Final = HOUR_S
_STEADY_S: Final = 600.0
_LEAP_S: Final = 60.0
_BACK_S: Final = DAYS.keep_s + 30 * DAY_S
"""So far back it is looked where nobody knows what has been removed already."""
_BATCH: Final = 256


class Sweeper:
    """Removes old buckets of all gateways, dead ones too. Any gateway may, and several may at once.

    A clock that leaps forward makes everything look old: nothing is removed until it has gone on steadily for ten
    minutes. That is time to set it right again, not a promise.

    Args:
        store: Where they are.
        nodes: Whose they are.
        wall: Unix seconds.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        store: Store,
        nodes: Nodes,
        *,
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._nodes = nodes
        self._wall = wall
        self._clock = clock
        self._offset_s = wall() - clock()
        self._steady_from = clock()
        self._due_at = 0.0

    async def sweep(self) -> int:
        """Remove what is too old, at most once an hour; returns how many keys went. To be called often.

        Raises:
            StoreError: not everything was removed; next time, then.
        """
        now, moment = self._wall(), self._clock()
        offset_s = now - moment
        if abs(offset_s - self._offset_s) > _LEAP_S:
            self._steady_from = moment
        self._offset_s = offset_s
        if moment < max(self._due_at, self._steady_from + _STEADY_S):
            return 0
        num_removed = 0
        for resolution in RESOLUTIONS:
            num_removed += await self._sweep(resolution, now)
        self._due_at = moment + EVERY_S
        return num_removed

    async def _sweep(self, resolution: Resolution, now: float) -> int:
        until = floor(now - resolution.keep_s, resolution.sweep_s) + resolution.sweep_s
        marker = b"%bs:%b" % (PREFIX, resolution.letter)
        done = await self._store.get(marker)
        begin = int(done) if done is not None and done.isdigit() and int(done) <= until else 0
        begin = max(begin, floor(now - _BACK_S, resolution.sweep_s))
        num_removed = 0
        days = range(begin // DAY_S, -(-until // DAY_S))
        for day, nodes in (await self._nodes.of(days)).items() if days else ():
            if not nodes:
                continue
            keys = [
                Bucket(resolution, at).key(node)
                for at in range(max(begin, day * DAY_S), min(until, (day + 1) * DAY_S), resolution.span_s)
                for node in nodes
            ]
            for batch in _batches(keys):
                num_removed += await self._store.delete(*batch)
            if resolution == DAYS:
                await self._nodes.forget(day)
        await self._store.put(marker, b"%d" % until)
        return num_removed


def _batches(keys: list[bytes]) -> Iterator[list[bytes]]:
    for i in range(0, len(keys), _BATCH):
        yield keys[i : i + _BATCH]
