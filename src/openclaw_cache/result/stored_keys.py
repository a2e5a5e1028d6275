"""What this process knows about a store that nobody else writes: which keys it certainly does not hold."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

from openclaw_cache.errors import StoreError
from openclaw_cache.result.key import RESULT_PREFIX, key_of
from openclaw_cache.result.presence import PresenceFilter

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from openclaw_cache.store.store import Store
    from openclaw_cache.types import CacheKey

MIN_CAPACITY: Final = 1 << 18
"""Keys that a filter is made for at least: 330 kB."""

_SCAN_APART_S: Final = 5.0


class StoredKeys:
    """Spares the store most questions about keys that it does not hold.

    Nothing is known until a scan of the store, started by the first question, has ended: until then every key
    may be there. Keys that expire or are evicted stay known, which costs a question each; when more keys were
    added than the filter was made for, another scan makes a new one, while the old one stays in use. Between
    two scans at least as many keys are added as the store held, so scans cost O(1) for each put. What the
    store loses changes nothing. A key that comes by another way than `add` may be missed: that is a miss of
    the cache, and its reply is then stored anew.

    Memory: 20 bits for each key the store holds, at least 330 kB; twice that during a scan.

    Args:
        store: written by this process only.
        settle: waits until the writes of keys added so far have ended, so that a scan sees them.
        clock: monotonic seconds.
        min_capacity: keys to make a filter for at least.
    """

    def __init__(
        self,
        store: Store,
        settle: Callable[[], Awaitable[None]],
        *,
        clock: Callable[[], float] = time.monotonic,
        min_capacity: int = MIN_CAPACITY,
    ) -> None:
        self._store = store
        self._settle = settle
        self._clock = clock
        self._min_capacity = min_capacity
        self._known: PresenceFilter | None = None
        self._next: PresenceFilter | None = None
        self._scan: asyncio.Task[None] | None = None
        self._scan_at = float("-inf")

    def may_hold(self, key: CacheKey) -> bool:
        """Whether the store must be asked. Cost: 0.6 µs. Effects: starts a scan where one is due."""
        known = self._known
        if known is None:
            self._start_scan()
            return True
        if known.num_added > known.capacity:
            self._start_scan()
        return key in known

    def add(self, key: CacheKey) -> None:
        """Note a key; to be called before its write begins. Cost: 1.4 µs."""
        if self._known is not None:
            self._known.add(key)
        if self._next is not None:
            self._next.add(key)

    async def aclose(self) -> None:
        """Give up a scan that is under way. Idempotent."""
        if self._scan is not None:
            self._scan.cancel()
            await asyncio.wait({self._scan})

    def _start_scan(self) -> None:
        now = self._clock()
        if now < self._scan_at or (self._scan is not None and not self._scan.done()):
            return
        self._scan_at = now + _SCAN_APART_S
        self._scan = asyncio.create_task(self._make(), name="stored-keys-scan")

    async def _make(self) -> None:
        """Read the keys of the store into a new filter, and use it when it is complete.

        A store that fails is tried again later; meanwhile what was known stays known.
        """
        try:
            num_keys = (await self._store.info()).num_keys
            found = self._next = PresenceFilter(max(self._min_capacity, 2 * num_keys))
            await self._settle()
            async for store_key in self._store.scan(RESULT_PREFIX):
                key = key_of(store_key)
                if key is not None:
                    found.add(key)
            self._known = found
        except StoreError:
            return
        finally:
            self._next = None
