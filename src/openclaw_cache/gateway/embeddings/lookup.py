"""Looking up many keys at once, within the one time that the store may cost a request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from openclaw_cache.errors import CorruptEntryError, StoreError
from openclaw_cache.result.cache import ResultCache
from openclaw_cache.types import CacheKey, Entry, Namespace

NUM_AT_ONCE: Final = 256
"""Questions to the store in the air: a batch of 2,048 takes eight round trips, and no task for each key."""


async def look_up(
    cache: ResultCache,
    namespace: Namespace,
    keys: Sequence[CacheKey],
    now: float,
    *,
    timeout_s: float,
    on_failure: Callable[[], None],
) -> tuple[dict[CacheKey, Entry], dict[CacheKey, str]]:
    """The entries that there are, from memory, then from the store, and why others cannot be known.

    What has come in time counts. Of a key that the store did not answer that is `store`, of one whose entry cannot be
    read `corrupt` (two of `record.MISSES`).

    Args:
        cache: where to look.
        namespace: of the keys.
        keys: distinct keys.
        now: unix seconds.
        timeout_s: the most that the store may take.
        on_failure: called where it takes longer, and for each question that it does not answer.
    """
    found = {key: entry for key in keys if (entry := cache.peek(key, now)) is not None}
    left = [key for key in keys if key not in found]
    unread = dict.fromkeys(left, "store")  # until it has answered

    async def ask(some: Sequence[CacheKey]) -> None:
        for key in some:
            try:
                entry = await cache.find(namespace, key)
            except StoreError:
                on_failure()
                continue
            except CorruptEntryError:
                unread[key] = "corrupt"
                continue
            del unread[key]
            if entry is not None:
                found[key] = entry

    if left:
        num_tasks = min(len(left), NUM_AT_ONCE)
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.gather(*(ask(left[i::num_tasks]) for i in range(num_tasks)))
        except TimeoutError:
            on_failure()
    # While the store was asked, a call for the same input may have landed in memory.
    for key in left:
        if key not in found and (entry := cache.peek(key, now)) is not None:
            found[key] = entry
    return found, unread
