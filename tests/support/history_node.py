"""A gateway's history over a store, at a time that a test sets."""

from __future__ import annotations

from openclaw_cache.history.archive import Archive
from openclaw_cache.history.coding import Codec
from openclaw_cache.history.durations import Durations
from openclaw_cache.history.figures import Figures
from openclaw_cache.history.history import History
from openclaw_cache.history.keeping import Keeping
from openclaw_cache.history.rollup import Rollup
from openclaw_cache.history.shelf import Shelf
from openclaw_cache.history.sweeping import Sweeper
from openclaw_cache.history_part import written_as
from openclaw_cache.observe.metrics import Metrics
from openclaw_cache.result.encryption import EntryCipher
from openclaw_cache.store.store import Store
from support.records import NOON

SECRET = b"s" * 32
HERE, THERE = "a" * 16, "b" * 16


class Clock:
    """Wall and monotonic time that a test moves."""

    def __init__(self) -> None:
        self.now = NOON
        self.moment = 1000.0

    def wall(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.moment

    def pass_by(self, seconds: float) -> None:
        self.now += seconds
        self.moment += seconds


class Node:
    """A gateway's history."""

    def __init__(
        self, store: Store, clock: Clock, name: str = HERE, cipher: EntryCipher | None = None
    ) -> None:
        self.degraded: list[str] = []
        self.may_use = True
        shelf, codec = Shelf(name, written_as(name, cipher)), Codec(SECRET, cipher)
        self.archive = Archive(
            store,
            codec,
            shelf,
            may_use=lambda: self.may_use,
            wall=clock.wall,
            clock=clock.monotonic,
        )
        self.history = History(
            shelf,
            self.archive,
            on_degraded=self.degraded.append,
            wall=clock.wall,
            clock=clock.monotonic,
        )
        self.sweeper = Sweeper(store, self.archive.nodes, wall=clock.wall, clock=clock.monotonic)
        self.durations = Durations()
        self.keeping = Keeping(
            self.history,
            self.archive,
            self.sweeper,
            Figures(Metrics()),
            self.durations,
            store,
            codec,
            name,
            on_degraded=self.degraded.append,
            wall=clock.wall,
            clock=clock.monotonic,
        )

    async def last(self, seconds: float, clock: Clock) -> Rollup:
        return await self.history.between(clock.now - seconds, clock.now)
