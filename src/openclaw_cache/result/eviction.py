"""Removal of entries by pattern, from both tiers. What an operator uses when stored text must go."""

from __future__ import annotations

import asyncio
import fnmatch
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

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


async def evict(
    memory: MemoryTier,
    store: Store,
    keyer: Keyer,
    codec: EntryCodec,
    pattern: str,
    *,
    namespace: Namespace | None,
    dry_run: bool,
) -> EvictReport:
    """Remove every entry whose model, namespace or prompt text matches `pattern` as a whole.

    `pattern` is a shell GLOB (`*`, `?`, `[...]`), case-sensitive; `*` spans lines. `namespace` limits where
    to look. Cost: O(everything stored in the namespace, or at all), in short steps that let requests in.

    Raises:
        StoreUnavailableError: memory is done, the store is not, or not to the end.
    """
    tally, matches = _Tally(EvictReport(dry_run)), matcher(pattern)
    for number, (key, entry, size_bytes) in enumerate(memory.items()):
        if number % BATCH == 0:
            await asyncio.sleep(0)
        if namespace in (None, entry.namespace) and matches(entry):
            tally.report.memory_bytes += size_bytes
            tally.note(key, entry, size_bytes)
            if not dry_run:
                memory.remove(key)

    prefix = RESULT_PREFIX if namespace is None else keyer.namespace_prefix(namespace)
    async for batch in stored_entries(store, codec, prefix):
        doomed = []
        for stored in batch:
            if stored.entry is None:
                tally.report.num_corrupt += 1
            elif matches(stored.entry):
                tally.report.store_bytes += stored.size_bytes
                tally.note(stored.key, stored.entry, stored.size_bytes)
            else:
                continue
            doomed.append(stored.store_key)
        if doomed and not dry_run:
            await store.delete(*doomed)
    return tally.report


def matcher(pattern: str) -> Callable[[Entry], bool]:
    """Whether an entry's model (by either name), namespace or prompt text matches a GLOB, case-sensitively."""
    match = re.compile(fnmatch.translate(pattern)).match

    def matches(entry: Entry) -> bool:
        names = (entry.model, entry.requested_model, entry.namespace)
        return any(map(match, names)) or match(prompt_text(entry)) is not None

    return matches


@dataclass(slots=True)
class _Tally:
    """A report in the making; counts an entry once, however often it is met."""

    report: EvictReport
    seen: set[CacheKey] = field(default_factory=set)

    def note(self, key: CacheKey, entry: Entry, size_bytes: int) -> None:
        if key in self.seen:
            return
        self.seen.add(key)
        self.report.num_matched += 1
        self.report.num_by_model[entry.model] += 1
        if len(self.report.sample) < _MAX_SAMPLE:
            self.report.sample.append(Sample(entry.model, entry.namespace, entry.created_at, size_bytes))
