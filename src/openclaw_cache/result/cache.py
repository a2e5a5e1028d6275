"""The exact result cache: this process's memory before a store that outlives it.

A failure of the store fails no write; who reads is told, and makes it a counted miss. Entries never change
and no hit lengthens a life.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, Protocol

from openclaw_cache.errors import CorruptEntryError, StoreError, StoreFullError
from openclaw_cache.result import aliases, eviction
from openclaw_cache.result.encryption import ENCRYPTED_MAGIC, UnknownKeyError
from openclaw_cache.result.entry import packed
from openclaw_cache.result.key import RESULT_PREFIX
from openclaw_cache.result.rekey import RekeyReport, rekey
from openclaw_cache.result.scan import stored_entries
from openclaw_cache.result.screen import INLINE_CHARS
from openclaw_cache.result.stored_keys import StoredKeys
from openclaw_cache.result.write_behind import WriteBehind

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from openclaw_cache.result.entry import EntryCodec
    from openclaw_cache.result.eviction import EvictReport
    from openclaw_cache.result.key import Keyer
    from openclaw_cache.result.memory import MemoryTier
    from openclaw_cache.result.screen import Screen, Verdict
    from openclaw_cache.store.store import Store
    from openclaw_cache.types import CacheKey, Entry, Namespace

_INLINE_CHARS: Final = 1 << 20
"""Packing this much takes 10 ms: more must not hold up the event loop."""

_GATHER_S: Final = 0.005
"""How long writes to a store of our own wait for others: one round trip, one append to its log for them all."""

Degraded = Literal["store_unavailable", "store_full", "entry_corrupt", "entry_key_unknown", "write_overflow"]
"""What became a miss, or was not stored; the label of `openclaw_cache_degraded_total`."""


@dataclass(frozen=True, slots=True)
class ResultStats:
    """What the cache holds at this moment; `num_evictions` since the start."""

    num_entries: int
    memory_bytes: int
    capacity_bytes: int
    num_evictions: int
    num_pending_writes: int
    pending_bytes: int


class Follower(Protocol):
    """Who is told which entries the cache has, as far as this process knows."""

    def kept(self, key: CacheKey, entry: Entry) -> None:
        """It has this entry, or has got it from another node."""
        ...

    def gone(self, key: CacheKey) -> None:
        """It has no entry of this key any more."""
        ...


class ResultCache:
    """Replies by key, in memory and in the store.

    Args:
        memory: the first tier.
        store: the second; shared by the nodes of a fleet.
        keyer: names entries in the store.
        codec: writes and reads them.
        on_degraded: called once for each failure.
        exclusive: whether only this process writes the store (embedded). Then it is not asked for what it
            certainly does not hold, and writes wait for company, since no other node waits for them.
        clock: unix seconds.
        max_pending_bytes: bound on entries that wait to be written; more are kept in memory only.
        screen: looks through what is to be kept; None = nothing is looked for.
        on_screened: called with each kind that was found, and what became of the entry.
    """

    def __init__(
        self,
        memory: MemoryTier,
        store: Store,
        keyer: Keyer,
        codec: EntryCodec,
        *,
        on_degraded: Callable[[Degraded], None],
        exclusive: bool = False,
        clock: Callable[[], float] = time.time,
        max_pending_bytes: int = 32 << 20,
        screen: Screen | None = None,
        on_screened: Callable[[str, Verdict], None] = lambda _what, _verdict: None,
    ) -> None:
        self._follower: Follower | None = None
        self._memory = memory
        self._store = store
        self._keyer = keyer
        self._codec = codec
        self._on_degraded = on_degraded
        self._clock = clock
        self._screen = screen
        self._on_screened = on_screened
        self._writes = WriteBehind(
            store,
            keyer,
            codec,
            on_failure=self._count,
            clock=clock,
            delay_s=_GATHER_S if exclusive else 0,
            max_bytes=max_pending_bytes,
        )
        self._stored = StoredKeys(store, self._writes.settle) if exclusive else None
        self._packing: set[asyncio.Task[None]] = set()
        self._num_evicts = 0
        self._num_evicting = 0

    def follow(self, follower: Follower) -> None:
        """Have it told of each entry that comes, or goes by order, from now on.

        One that leaves for want of room, or by its age, goes silently: who looks for it finds nothing.
        """
        self._follower = follower

    @property
    def is_encrypted(self) -> bool:
        """Whether the store gets entries encrypted."""
        return self._codec.encrypts

    @property
    def is_screened(self) -> bool:
        """Whether entries are looked through before they are kept."""
        return self._screen is not None

    def peek(self, key: CacheKey, now: float) -> Entry | None:
        """Look into memory only. Cost: 0.3 µs; never waits."""
        return self._memory.get(key, now)

    async def find(self, namespace: Namespace, key: CacheKey) -> Entry | None:
        """Look into the store, keeping what is found in memory. Never waits where the store certainly lacks the key.

        Raises:
            StoreError: It is not known whether the store has an entry.
            CorruptEntryError: It has one that cannot be read. That is counted, and the entry is removed, unless it may
                be the fault of our keys.
        """
        if self._stored is not None and not self._stored.may_hold(key):
            return None
        store_key = self._keyer.store_key(namespace, key)
        num_evicts = self._num_evicts
        stored = await self._store.get(store_key)
        if stored is None:
            return None
        entry = await self._decoded(store_key, key, stored)
        now = self._clock()
        if entry.expires_at <= now:
            return None
        # What was read may have been evicted or replaced in the meantime: then memory must not get it back.
        is_settled = num_evicts == self._num_evicts and not self._num_evicting
        if is_settled and self._memory.get(key, now) is None:
            self._memory.put(key, entry)
            if self._follower is not None:
                self._follower.kept(key, entry)
        return entry

    def put(self, key: CacheKey, entry: Entry) -> bool:
        """Keep a complete reply: in memory at once, in the store soon after, in the order of the calls.

        One that is large to pack, or to look through, is kept a moment later: a thread does that first. Returns whether
        it is kept already.
        """
        is_small = len(entry.prompt) <= _INLINE_CHARS
        if self._screen is not None:
            is_small = is_small and len(entry.prompt) + len(entry.reply) <= INLINE_CHARS
        if not is_small:
            packing = asyncio.create_task(self._pack_and_keep(key, entry), name="result-packing")
            self._packing.add(packing)
            packing.add_done_callback(self._packing.discard)
            return False
        if self._screen is not None and not self._passes(self._screen.find(_texts(entry))):
            return False
        self._keep(key, packed(entry))
        return True

    async def flush(self, timeout_s: float) -> bool:
        """Wait for the writes that are pending now. Returns whether all of them came to an end in time."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._settle()
        except TimeoutError:
            return False
        return True

    async def aclose(self, timeout_s: float) -> bool:
        """Flush, and end what runs in the background. Returns what `flush` does. Idempotent."""
        if self._stored is not None:
            await self._stored.aclose()
        return await self.flush(timeout_s)

    async def drop(self, namespace: Namespace, key: CacheKey) -> None:
        """Remove one entry from both tiers. Raises StoreError: memory has let go of it, the store has not."""
        self._num_evicts += 1
        self._num_evicting += 1
        try:
            await self._settle()
            self._forget(key)
            await self._store.delete(self._keyer.store_key(namespace, key))
        finally:
            self._num_evicting -= 1

    async def stored(self) -> AsyncIterator[tuple[CacheKey, Entry]]:
        """Yield what the store holds, in steps that let requests in between. Raises StoreError."""
        await self._settle()
        async for batch in stored_entries(self._store, self._codec, RESULT_PREFIX):
            for stored in batch:
                if stored.entry is not None:
                    yield stored.key, stored.entry

    async def evict(
        self,
        pattern: str,
        *,
        namespace: Namespace | None = None,
        dry_run: bool = False,
        only_likeness: bool = False,
    ) -> EvictReport:
        """Remove every entry whose model, namespace or prompt text matches `pattern`, or what others find it by.

        See `eviction.evict`. Entries that are put while it runs may stay.

        Raises:
            StoreUnavailableError: memory is done, the store is not, or not to the end.
        """
        self._num_evicts += 1
        self._num_evicting += 1
        try:
            await self._settle()  # so that the scan of the store sees what was put before
            report = await eviction.evict(
                self._memory,
                self._store,
                self._keyer,
                self._codec,
                pattern,
                namespace=namespace,
                dry_run=dry_run,
                now=self._clock(),
                only_likeness=only_likeness,
            )
        finally:
            self._num_evicting -= 1
        if self._follower is not None and not dry_run:
            for key in report.keys:
                self._follower.gone(key)
        for _ in range(report.num_corrupt):
            self._on_degraded("entry_corrupt")
        return report

    async def rekey(self) -> RekeyReport:
        """Rewrite what is stored in the current form (`rekey.rekey`). Raises StoreError."""
        await self._settle()
        return await rekey(self._store, self._codec, on_progress=lambda _report: None, clock=self._clock)

    async def requested_as(self, model: str) -> set[str]:
        """The names under which `model` has answered what is stored; see `aliases.requested_as`."""
        await self._settle()  # so that the scan of the store sees what was put before
        return await aliases.requested_as(self._memory, self._store, self._codec, model)

    def stats(self) -> ResultStats:
        """What the cache holds."""
        return ResultStats(
            num_entries=len(self._memory),
            memory_bytes=self._memory.used_bytes,
            capacity_bytes=self._memory.capacity_bytes,
            num_evictions=self._memory.num_evictions,
            num_pending_writes=len(self._packing) + self._writes.num_pending,
            pending_bytes=self._writes.pending_bytes,
        )

    async def _pack_and_keep(self, key: CacheKey, entry: Entry) -> None:
        if self._screen is not None and not self._passes(await self._screen.look(_texts(entry))):
            return
        self._keep(key, await asyncio.to_thread(packed, entry))

    def _passes(self, found: frozenset[str]) -> bool:
        """Whether an entry in which this was found may be kept."""
        verdict = "store" if self._screen is None else self._screen.verdict(found)
        for what in found:
            self._on_screened(what, verdict)
        return verdict != "skip"

    def _keep(self, key: CacheKey, entry: Entry) -> None:
        self._memory.put(key, entry)
        if self._follower is not None:
            self._follower.kept(key, entry)
        if self._stored is not None:
            self._stored.add(key)
        if not self._writes.add(key, entry):
            self._on_degraded("write_overflow")

    async def _settle(self) -> None:
        """Wait until what was put before is in the store, or has failed to get there."""
        if self._packing:
            await asyncio.wait(self._packing)
        await self._writes.settle()

    async def _decoded(self, store_key: bytes, key: CacheKey, stored: bytes) -> Entry:
        """Read stored bytes. Raises CorruptEntryError, counted, where that cannot be."""
        try:
            return self._codec.decode(store_key, stored)
        except UnknownKeyError:  # another node may know it
            self._on_degraded("entry_key_unknown")
            raise
        except CorruptEntryError:
            self._on_degraded("entry_corrupt")
            if not stored.startswith(
                ENCRYPTED_MAGIC
            ):  # that may be our key's fault; its next reply replaces it
                await self._drop(store_key, key)
            raise

    def _forget(self, key: CacheKey) -> None:
        self._memory.remove(key)
        if self._follower is not None:
            self._follower.gone(key)

    async def _drop(self, store_key: bytes, key: CacheKey) -> None:
        self._forget(key)
        try:
            await self._store.delete(store_key)
        except StoreError as error:
            self._count(error)

    def _count(self, error: StoreError) -> None:
        self._on_degraded("store_full" if isinstance(error, StoreFullError) else "store_unavailable")


def _texts(entry: Entry) -> tuple[str, str]:
    """All that an entry says."""
    return entry.prompt, entry.reply.decode(errors="replace")
