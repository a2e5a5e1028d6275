"""Rewriting what is stored in the current form: what an operator does after a key was added or replaced."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from openclaw_cache.errors import CorruptEntryError
from openclaw_cache.result.key import RESULT_PREFIX, key_of
from openclaw_cache.result.scan import BATCH

if TYPE_CHECKING:
    from collections.abc import Callable

    from openclaw_cache.result.entry import EntryCodec
    from openclaw_cache.store.store import Store


@dataclass(frozen=True, slots=True)
class RekeyReport:
    """What a rekey has done so far.

    `num_rewritten` values were plain or under an older key and are under the current one now, `num_current`
    already were, `num_unreadable` are corrupt or under a key that this node does not have: they stay as they are.
    One that expired or changed meanwhile is none of them.
    """

    num_rewritten: int = 0
    num_current: int = 0
    num_unreadable: int = 0

    def __add__(self, other: RekeyReport) -> RekeyReport:
        """What both have done."""
        return RekeyReport(
            self.num_rewritten + other.num_rewritten,
            self.num_current + other.num_current,
            self.num_unreadable + other.num_unreadable,
        )


class Kind(Protocol):
    """One kind of what is stored encrypted."""

    @property
    def prefix(self) -> bytes:
        """What its store keys begin with."""
        ...

    def is_ours(self, store_key: bytes) -> bool:
        """Whether this place is one of its kind; others are not to be touched."""
        ...

    def is_current(self, stored: bytes) -> bool:
        """Whether it would be written in this form and under this key today."""
        ...

    def rewritten(self, store_key: bytes, stored: bytes) -> tuple[bytes, float | None]:
        """What was stored for a place, as it is written today, and when it expires. Raises CorruptEntryError."""
        ...


class StoredReplies:
    """The kind of result entries, with what finds them by meaning.

    Args:
        codec: reads all forms, writes the current one.
    """

    prefix = RESULT_PREFIX

    def __init__(self, codec: EntryCodec) -> None:
        self._codec = codec

    def is_ours(self, store_key: bytes) -> bool:
        """Whether it has the shape of an entry's key."""
        return key_of(store_key) is not None

    def is_current(self, stored: bytes) -> bool:
        """Whether it is in the current form."""
        return self._codec.is_current(stored)

    def rewritten(self, store_key: bytes, stored: bytes) -> tuple[bytes, float]:
        """The same entry in the current form, with its own end. Raises CorruptEntryError."""
        entry = self._codec.decode(store_key, stored)
        return self._codec.encode(store_key, entry), entry.expires_at


async def rekey(
    store: Store,
    codec: EntryCodec,
    *,
    on_progress: Callable[[RekeyReport], None],
    clock: Callable[[], float] = time.time,
) -> RekeyReport:
    """Rewrite every stored entry (`rewrite`, of `StoredReplies`)."""
    return await rewrite(store, StoredReplies(codec), on_progress=on_progress, clock=clock)


async def rewrite(
    store: Store,
    kind: Kind,
    *,
    on_progress: Callable[[RekeyReport], None] = lambda _report: None,
    clock: Callable[[], float] = time.time,
) -> RekeyReport:
    """Rewrite every stored value of a kind that would be written otherwise today. No life gets longer.

    Every node must have the current key before, and the older keys may go after a rekey of every kind that left
    none unreadable. It may be broken off and run again: what is done is current then.

    A value is written only if the store still holds the same bytes when asked just before. The store cannot do
    both in one step, so one round trip is left in which another writer may be first: an entry that was evicted in
    it comes back, one that was replaced by a newer reply to the same request is replaced by the older one. So
    evict anew what was evicted meanwhile; nothing is ever lost or served wrong by it.

    Cost: O(everything stored), in short steps that let requests in between; three round trips for 16 values.

    Args:
        store: what to go through.
        kind: what to rewrite.
        on_progress: called with the report so far, after every few values.
        clock: unix seconds.

    Raises:
        StoreError: the store was not read to its end, or refused a write; what was done stays done.
    """
    report = RekeyReport()
    places: list[bytes] = []
    async for store_key in store.scan(kind.prefix):
        if kind.is_ours(store_key):
            places.append(store_key)
        if len(places) == BATCH:
            report += await _rewrite(store, kind, places, clock)
            on_progress(report)
            places = []
    if places:
        report += await _rewrite(store, kind, places, clock)
        on_progress(report)
    return report


@dataclass(frozen=True, slots=True)
class _Rewrite:
    store_key: bytes
    older: bytes
    newer: bytes
    expires_at: float | None

    def ttl_s(self, now: float) -> float | None:
        return None if self.expires_at is None else self.expires_at - now


async def _rewrite(store: Store, kind: Kind, places: list[bytes], clock: Callable[[], float]) -> RekeyReport:
    """Rewrite what stands at these places where needed."""
    num_current = num_unreadable = 0
    rewrites: list[_Rewrite] = []
    for store_key, stored in zip(places, await store.get_many(places), strict=True):
        if stored is None:  # it went between the two commands
            continue
        if kind.is_current(stored):
            num_current += 1
            continue
        try:
            newer, expires_at = kind.rewritten(store_key, stored)
        except CorruptEntryError:
            num_unreadable += 1
            continue
        rewrites.append(_Rewrite(store_key, stored, newer, expires_at))
        await asyncio.sleep(0)  # a large one takes half a millisecond: requests go first
    num_rewritten = await _write(store, rewrites, clock) if rewrites else 0
    return RekeyReport(num_rewritten, num_current, num_unreadable)


async def _write(store: Store, rewrites: list[_Rewrite], clock: Callable[[], float]) -> int:
    """Write those that are still stored as they were read; returns how many."""
    found = await store.get_many([rewrite.store_key for rewrite in rewrites])
    now = clock()
    writes = [
        store.put(rewrite.store_key, rewrite.newer, ttl_s)
        for rewrite, stored in zip(rewrites, found, strict=True)
        if stored == rewrite.older and ((ttl_s := rewrite.ttl_s(now)) is None or ttl_s > 0)
    ]
    await asyncio.gather(*writes)
    return len(writes)
