"""Writing what came to the store every few seconds, and at the end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
import structlog

from openclaw_cache.errors import CorruptEntryError, StoreError
from openclaw_cache.history.archive import Archive
from openclaw_cache.history.buckets import PREFIX
from openclaw_cache.history.coding import Codec
from openclaw_cache.history.durations import Durations
from openclaw_cache.history.figures import Figures
from openclaw_cache.history.history import History
from openclaw_cache.history.sweeping import Sweeper
from openclaw_cache.observe.aside import Aside
from openclaw_cache.store.store import Store

FLUSH_S: Final = 4.0
"""A gateway that is killed loses what came in this time, and what the store takes to answer."""
DURATIONS_KEY: Final = PREFIX + b"t"
"""Where what was learnt of upstreams lies."""
_FIGURES_EVERY_S: Final = 15.0
_FIGURES_APART_S: Final = 1.0
_DURATIONS_EVERY_S: Final = 60.0
_END_TIMEOUT_S: Final = 5.0

_log = structlog.get_logger()


class Keeping:
    """The task behind the requests that keeps history.

    Args:
        history: What is to be kept.
        archive: Where to.
        sweeper: Removes what is too old.
        figures: What only the metrics know.
        durations: What was learnt of upstreams; it is kept too.
        store: Where they are kept.
        codec: Their form.
        node: What this gateway is called.
        on_degraded: Told, in a word, of each failure.
        wall: Unix seconds.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        history: History,
        archive: Archive,
        sweeper: Sweeper,
        figures: Figures,
        durations: Durations,
        store: Store,
        codec: Codec,
        node: str,
        *,
        on_degraded: Callable[[str], None],
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._history = history
        self._archive = archive
        self._sweeper = sweeper
        self._figures = figures
        self._durations = durations
        self._store = store
        self._codec = codec
        self._node = node
        self._refresh: Callable[[], Awaitable[None]] | None = None
        self._on_degraded = on_degraded
        self._aside = Aside("history", on_degraded)
        self._wall = wall
        self._clock = clock
        self._task: asyncio.Task[None] | None = None
        self._flushing = asyncio.Lock()
        self._figures_at = -_FIGURES_EVERY_S
        self._durations_due_at = 0.0

    def start(self, refresh: Callable[[], Awaitable[None]]) -> None:
        """Begin. `refresh` brings the metrics up to date before they are read."""
        self._refresh = refresh
        self._task = asyncio.get_running_loop().create_task(self._run(), name="history")

    async def aclose(self) -> None:
        """End, with a last flush. Idempotent."""
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.wait({self._task})
        self._task = None
        self._figures_at, self._durations_due_at = -_FIGURES_EVERY_S, 0.0
        self._refresh = None  # what it would ask may be gone by now
        with self._aside:  # TimeoutError among others: nothing of it may keep the process from its end
            async with asyncio.timeout(_END_TIMEOUT_S):
                await self.flush()

    async def refresh(self) -> None:
        """Take in what the metrics know now; at most once a second. For whoever wants to see what was just done."""
        if self._refresh is not None and self._clock() >= self._figures_at + _FIGURES_APART_S:
            await self._take_figures(self._refresh)

    async def flush(self) -> None:
        """Write what came since the last time. A store that fails is counted, and tried again next time."""
        async with self._flushing:
            if self._clock() >= self._figures_at + _FIGURES_EVERY_S:
                await self._take_figures(self._refresh)
            self._history.settle()
            try:
                if await self._archive.write():
                    await self._keep_durations(self._clock())
                    await self._sweeper.sweep()
            except StoreError:
                self._on_degraded("history")

    async def _take_figures(self, refresh: Callable[[], Awaitable[None]] | None) -> None:
        self._figures_at = self._clock()
        if refresh is not None:
            await refresh()
        at = self._wall()
        self._figures.take(self._history.at(at), self._node, at)

    async def _run(self) -> None:
        while True:
            with self._aside:  # what fails once must not be the end of all that follows
                await self.flush()
            await asyncio.sleep(FLUSH_S)

    async def _keep_durations(self, now: float) -> None:
        """Once a minute: take in what others, or an earlier process, have learnt, and add what was learnt here.

        One key for all gateways: what they learn of an upstream is alike, and names of dead ones fill up nothing.
        """
        if now < self._durations_due_at:
            return
        self._durations_due_at = now + _DURATIONS_EVERY_S
        stored = await self._store.get(DURATIONS_KEY)
        if stored is not None:
            try:
                self._durations.restore(self._codec.unpack(DURATIONS_KEY, stored))
            except (CorruptEntryError, msgspec.MsgspecError) as e:
                _log.warning("durations of upstreams cannot be read", reason=str(e))
                if self._codec.is_sealed(stored):
                    return  # a key may be missing here: others know more of them than this gateway does
        if self._durations.is_changed:
            packed = self._durations.packed()
            await self._store.put(DURATIONS_KEY, self._codec.pack(DURATIONS_KEY, packed))
