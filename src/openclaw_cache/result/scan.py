"""Reading what a store holds, in steps short enough to let requests in between."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from openclaw_cache.errors import CorruptEntryError
from openclaw_cache.result.key import key_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from openclaw_cache.result.entry import EntryCodec
    from openclaw_cache.store.store import Store
    from openclaw_cache.types import CacheKey, Entry

BATCH: Final = 16
"""Entries read in one step."""


class Stored(NamedTuple):
    """One place of the store and what it holds: `entry` is None where the bytes cannot be read."""

    store_key: bytes
    key: CacheKey
    entry: Entry | None
    size_bytes: int


async def stored_entries(store: Store, codec: EntryCodec, prefix: bytes) -> AsyncIterator[list[Stored]]:
    """Yield the result entries whose store keys begin with `prefix`, a batch at a time.

    Keys of another shape are not ours to touch. Cost: O(everything stored there).

    Raises:
        StoreError: the store was not read, or not to its end.
    """
    batch: dict[bytes, CacheKey] = {}
    async for store_key in store.scan(prefix):
        key = key_of(store_key)
        if key is not None:
            batch[store_key] = key
        if len(batch) >= BATCH:
            yield await _read(store, codec, batch)
            batch = {}
    if batch:
        yield await _read(store, codec, batch)


async def _read(store: Store, codec: EntryCodec, keys: dict[bytes, CacheKey]) -> list[Stored]:
    found = []
    for store_key, stored in zip(keys, await store.get_many(list(keys)), strict=True):
        if stored is None:  # it went between the two commands
            continue
        try:
            entry = codec.decode(store_key, stored)
        except CorruptEntryError:
            entry = None
        found.append(Stored(store_key, keys[store_key], entry, len(stored)))
    return found
