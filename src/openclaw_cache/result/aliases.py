"""Under which names a model was asked for: `gpt-x` may be answered by `gpt-x-2026-05-01`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openclaw_cache.errors import CorruptEntryError
from openclaw_cache.result.eviction import batches
from openclaw_cache.result.key import RESULT_PREFIX

if TYPE_CHECKING:
    from openclaw_cache.result.entry import EntryCodec
    from openclaw_cache.result.memory import MemoryTier
    from openclaw_cache.store.store import Store


async def requested_as(memory: MemoryTier, store: Store, codec: EntryCodec, model: str) -> set[str]:
    """The names under which `model` has answered the replies that are stored now.

    Cost: O(everything stored), in short steps that let requests in between.

    Raises:
        StoreError: the store was not searched, or not to its end.
    """
    names = {entry.requested_model for _, entry, _ in memory.items() if entry.model == model}
    async for keys in batches(store, RESULT_PREFIX):
        for store_key, stored in zip(keys, await store.get_many(list(keys)), strict=True):
            if stored is None:
                continue
            try:
                entry = codec.decode(store_key, stored)
            except CorruptEntryError:
                continue  # unreadable, so it is never served
            if entry.model == model:
                names.add(entry.requested_model)
    return names - {""}
