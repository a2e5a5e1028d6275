"""Under which names a model was asked for: `gpt-x` may be answered by `gpt-x-2026-05-01`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openclaw_cache.result.key import RESULT_PREFIX
from openclaw_cache.result.scan import stored_entries

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
    async for batch in stored_entries(store, codec, RESULT_PREFIX):
        # What cannot be read is never served.
        names |= {s.entry.requested_model for s in batch if s.entry is not None and s.entry.model == model}
    return names - {""}
