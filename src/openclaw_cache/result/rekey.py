"""Rewriting what is stored in the current form: what an operator does after a key was added or replaced."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

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

    `num_rewritten` entries were plain or under an older key and are under the current one now, `num_current`
    already were, `num_unreadable` are corrupt or under a key that this node does not have: they stay as they are.
    An entry that expired or changed meanwhile is none of them.
    """

    num_rewritten: int = 0
    num_current: int = 0
    num_unreadable: int = 0


async def rekey(
    store: Store,
    codec: EntryCodec,
    *,
    on_progress: Callable[[RekeyReport], None],
    clock: Callable[[], float] = time.time,
) -> RekeyReport:
    """Rewrite every stored entry that `codec` would write otherwise today. No entry's life gets longer.

    Every node must have the current key before, and the older keys may go after a rekey that left none
    unreadable. It may be broken off and run again: what is done is current then.

    An entry is written only if the store still holds the same bytes when asked just before. The store cannot do
    both in one step, so one round trip is left in which another writer may be first: an entry that was evicted in
    it comes back, one that was replaced by a newer reply to the same request is replaced by the older one. So
    evict anew what was evicted meanwhile; nothing is ever lost or served wrong by it.

    Cost: O(everything stored), in short steps that let requests in between; three round trips for 16 entries.

    Args:
        store: what to go through.
        codec: reads all forms, writes the current one.
        on_progress: called with the report so far, after every few entries.
        clock: unix seconds.

    Raises:
        StoreError: the store was not read to its end, or refused a write; what was done stays done.
    """
    report = RekeyReport()
    places: list[bytes] = []
    async for store_key in store.scan(RESULT_PREFIX):
        if key_of(store_key) is not None:  # keys of another shape are not ours to touch
            places.append(store_key)
        if len(places) == BATCH:
            report = await _rewrite(store, codec, places, clock, report)
            on_progress(report)
            places = []
    if places:
        report = await _rewrite(store, codec, places, clock, report)
        on_progress(report)
    return report


@dataclass(frozen=True, slots=True)
class _Rewrite:
    store_key: bytes
    older: bytes
    newer: bytes
    expires_at: float


async def _rewrite(
    store: Store,
    codec: EntryCodec,
    places: list[bytes],
    clock: Callable[[], float],
    report: RekeyReport,
) -> RekeyReport:
    """Rewrite what stands at these places where needed; returns the report with them counted in."""
    num_current = num_unreadable = 0
    rewrites: list[_Rewrite] = []
    for store_key, stored in zip(places, await store.get_many(places), strict=True):
        if stored is None:  # it went between the two commands
            continue
        if codec.is_current(stored):
            num_current += 1
            continue
        try:
            entry = codec.decode(store_key, stored)
        except CorruptEntryError:
            num_unreadable += 1
            continue
        rewrites.append(_Rewrite(store_key, stored, codec.encode(store_key, entry), entry.expires_at))
        await asyncio.sleep(0)  # a large one takes half a millisecond: requests go first
    num_rewritten = await _write(store, rewrites, clock) if rewrites else 0
    return RekeyReport(
        report.num_rewritten + num_rewritten,
        report.num_current + num_current,
        report.num_unreadable + num_unreadable,
    )


async def _write(store: Store, rewrites: list[_Rewrite], clock: Callable[[], float]) -> int:
    """Write those that are still stored as they were read; returns how many."""
    found = await store.get_many([rewrite.store_key for rewrite in rewrites])
    now = clock()
    writes = [
        store.put(rewrite.store_key, rewrite.newer, rewrite.expires_at - now)
        for rewrite, stored in zip(rewrites, found, strict=True)
        if stored == rewrite.older and rewrite.expires_at > now
    ]
    await asyncio.gather(*writes)
    return len(writes)
