"""Writes to the store that no request waits for."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

from openclaw_cache.errors import StoreError
from openclaw_cache.result.memory import entry_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from openclaw_cache.result.entry import EntryCodec
    from openclaw_cache.result.key import Keyer
    from openclaw_cache.store.store import Store
    from openclaw_cache.types import CacheKey, Entry

# A batch is encoded in one go: at most this much, so that requests get their turn within a millisecond or two.
_BATCH: Final = 64
_BATCH_BYTES: Final = 1 << 20


class _Waiting(NamedTuple):
    entry: Entry
    size_bytes: int


class WriteBehind:
    """Entries on their way to the store, in the order in which their keys came, many in one round trip.

    One batch is under way at a time; there is no task while nothing waits. An entry that is added while an
    older one of its key still waits takes its place.

    Args:
        store: where they go.
        keyer: names them there.
        codec: writes them.
        on_failure: called once for each entry that the store did not take.
        clock: unix seconds.
        delay_s: how long the first of a batch waits for company.
        max_bytes: bound on what the entries that wait take in memory.
    """

    def __init__(
        self,
        store: Store,
        keyer: Keyer,
        codec: EntryCodec,
        *,
        on_failure: Callable[[StoreError], None],
        clock: Callable[[], float],
        delay_s: float,
        max_bytes: int,
    ) -> None:
        self._store = store
        self._keyer = keyer
        self._codec = codec
        self._on_failure = on_failure
        self._clock = clock
        self._delay_s = delay_s
        self._max_bytes = max_bytes
        self._waiting: dict[CacheKey, _Waiting] = {}
        self._num_added = 0
        self._num_ended = 0
        self._timer: asyncio.TimerHandle | None = None
        self._batch: asyncio.Task[None] | None = None
        self.pending_bytes = 0
        """What the entries that wait or are being written take in memory."""

    @property
    def num_pending(self) -> int:
        """How many entries wait or are being written."""
        return self._num_added - self._num_ended

    def add(self, key: CacheKey, entry: Entry) -> bool:
        """Take an entry to be written soon. Returns False where too much waits already.

        Cost: 3 µs, whatever its size: it is encoded later.
        """
        size_bytes = entry_bytes(entry)
        older = self._waiting.get(key)
        added_bytes = size_bytes - older.size_bytes if older else size_bytes
        if self.pending_bytes + added_bytes > self._max_bytes:
            return False
        self.pending_bytes += added_bytes
        self._waiting[key] = _Waiting(entry, size_bytes)
        if older is None:
            self._num_added += 1
        if self._timer is None and self._batch is None:
            self._start_timer(self._delay_s)
        return True

    async def settle(self) -> None:
        """Wait until the writes that are pending now have ended; what is added meanwhile may stay pending."""
        last = self._num_added
        while self._num_ended < last:
            await asyncio.wait({self._batch or self._start_batch()})

    def _start_timer(self, delay_s: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._start_batch)

    def _start_batch(self) -> asyncio.Task[None]:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._batch = asyncio.create_task(self._write(self._take()), name="result-writes")
        return self._batch

    def _take(self) -> dict[CacheKey, _Waiting]:
        """Take the oldest entries that make one batch: at least one."""
        batch: dict[CacheKey, _Waiting] = {}
        batch_bytes = 0
        for key, waiting in self._waiting.items():
            batch_bytes += waiting.size_bytes
            if batch and (len(batch) == _BATCH or batch_bytes > _BATCH_BYTES):
                break
            batch[key] = waiting
        if len(batch) == len(self._waiting):
            self._waiting = {}
        else:
            for key in batch:
                del self._waiting[key]
        return batch

    async def _write(self, batch: dict[CacheKey, _Waiting]) -> None:
        try:
            writes = [self._write_one(key, waiting.entry) for key, waiting in batch.items()]
            if len(writes) == 1:
                await writes[0]
            else:  # the store sends what is asked of it in one turn of the event loop together
                await asyncio.gather(*writes)
        finally:
            self._num_ended += len(batch)
            self.pending_bytes -= sum(waiting.size_bytes for waiting in batch.values())
            self._batch = None
            if self._waiting:
                self._start_timer(0 if len(self._waiting) >= _BATCH else self._delay_s)

    async def _write_one(self, key: CacheKey, entry: Entry) -> None:
        ttl_s = entry.expires_at - self._clock()
        if ttl_s <= 0:
            return
        store_key = self._keyer.store_key(entry.namespace, key)
        try:
            await self._store.put(store_key, self._codec.encode(store_key, entry), ttl_s)
        except StoreError as error:
            self._on_failure(error)
