"""Removal of entries by pattern, from both tiers. What an operator uses when stored text must go."""

from __future__ import annotations

import asyncio
import fnmatch
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import msgspec

from openclaw_cache.result.entry import prompt_text
from openclaw_cache.result.key import RESULT_PREFIX
from openclaw_cache.result.scan import BATCH, stored_entries

if TYPE_CHECKING:
    from collections.abc import Callable

    from openclaw_cache.result.entry import EntryCodec
    from openclaw_cache.result.key import Keyer
    from openclaw_cache.result.memory import MemoryTier
    from openclaw_cache.store.store import Store
    from openclaw_cache.types import CacheKey, Entry, Namespace

_MAX_SAMPLE: Final = 20


@dataclass(frozen=True, slots=True)
class Sample:
    """One matched entry, without any of its text."""

    model: str
    namespace: Namespace
    created_at: float
    size_bytes: int


@dataclass(slots=True)
class EvictReport:
    """What an evict removed, or would remove under `dry_run`.

    An entry in both tiers counts once in `num_matched`. `num_corrupt` entries could not be read, so whether
    they match is unknown; they are removed as well.
    """

    dry_run: bool
    num_matched: int = 0
    num_corrupt: int = 0
    memory_bytes: int = 0
    store_bytes: int = 0
    num_by_model: Counter[str] = field(default_factory=Counter)
    sample: list[Sample] = field(default_factory=list)
    keys: set[CacheKey] = field(default_factory=set)
    """Of the matched entries."""


async def evict(
    memory: MemoryTier,
    store: Store,
    keyer: Keyer,
    codec: EntryCodec,
    pattern: str,
    *,
    namespace: Namespace | None,
    dry_run: bool,
    now: float,
    only_likeness: bool = False,
) -> EvictReport:
    """Remove every entry whose model, namespace or prompt text matches `pattern` as a whole.

    With `only_likeness` an entry stays for the very same request, but no longer answers others that mean the same.

    `pattern` is a shell GLOB (`*`, `?`, `[...]`), case-sensitive; `*` spans lines. `namespace` limits where
    to look. Cost: O(everything stored in the namespace, or at all), in short steps that let requests in.

    Raises:
        StoreUnavailableError: memory is done, the store is not, or not to the end.
    """
    tally, matches = _Tally(EvictReport(dry_run)), matcher(pattern, only_likeness=only_likeness)

    def is_meant(entry: Entry) -> bool:
        return namespace in (None, entry.namespace) and matches(entry)

    await _evict_memory(memory, tally, is_meant, only_likeness=only_likeness)
    prefix = RESULT_PREFIX if namespace is None else keyer.namespace_prefix(namespace)
    async for batch in stored_entries(store, codec, prefix):
        doomed: dict[bytes, Entry | None] = {}
        for stored in batch:
            if stored.entry is None:
                tally.report.num_corrupt += 1
            elif matches(stored.entry):
                tally.report.store_bytes += stored.size_bytes
                tally.note(stored.key, stored.entry, stored.size_bytes)
            else:
                continue
            doomed[stored.store_key] = stored.entry if only_likeness else None
        if not dry_run:
            await _remove(store, codec, doomed, now)
    return tally.report


async def _evict_memory(
    memory: MemoryTier, tally: _Tally, is_meant: Callable[[Entry], bool], *, only_likeness: bool
) -> None:
    for number, (key, entry, size_bytes) in enumerate(memory.items()):
        if number % BATCH == 0:
            await asyncio.sleep(0)
        if not is_meant(entry):
            continue
        tally.report.memory_bytes += size_bytes
        tally.note(key, entry, size_bytes)
        if not tally.report.dry_run:
            memory.remove(key)
            if only_likeness:
                memory.put(key, _without_likeness(entry))


async def _remove(store: Store, codec: EntryCodec, doomed: dict[bytes, Entry | None], now: float) -> None:
    """Delete what has no entry here, and write the others anew without their likeness."""
    if gone := [store_key for store_key, entry in doomed.items() if entry is None]:
        await store.delete(*gone)
    for store_key, entry in doomed.items():
        if entry is not None and entry.expires_at > now:
            bare = codec.encode(store_key, _without_likeness(entry))
            await store.put(store_key, bare, ttl_s=entry.expires_at - now)


def _without_likeness(entry: Entry) -> Entry:
    return msgspec.structs.replace(entry, likeness=None)


def matcher(pattern: str, *, only_likeness: bool = False) -> Callable[[Entry], bool]:
    """Whether an entry's model (by either name), namespace or prompt text matches a GLOB, case-sensitively.

    With `only_likeness` the entry must have one.
    """
    match = re.compile(fnmatch.translate(pattern)).match

    def matches(entry: Entry) -> bool:
        if only_likeness and entry.likeness is None:
            return False
        names = (entry.model, entry.requested_model, entry.namespace)
        return any(map(match, names)) or match(prompt_text(entry)) is not None

    return matches


@dataclass(slots=True)
class _Tally:
    """A report in the making; counts an entry once, however often it is met."""

    report: EvictReport

    def note(self, key: CacheKey, entry: Entry, size_bytes: int) -> None:
        if key in self.report.keys:
            return
        self.report.keys.add(key)
        self.report.num_matched += 1
        self.report.num_by_model[entry.model] += 1
        if len(self.report.sample) < _MAX_SAMPLE:
            self.report.sample.append(Sample(entry.model, entry.namespace, entry.created_at, size_bytes))
