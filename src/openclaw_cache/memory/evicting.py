"""Forgetting by pattern: what an operator uses when something must go, wherever it stands."""

from __future__ import annotations

import fnmatch
import functools
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from openclaw_cache.memory.record import Filter

if TYPE_CHECKING:
    from openclaw_cache.memory.agent import AgentMemory
    from openclaw_cache.memory.store import MemoryStore

_PAGE: Final = 500
_ALL: Final = Filter(of="memory", with_superseded=True)


@dataclass(slots=True)
class EvictReport:
    """What was forgotten, or would be. `failed` agents could not be looked into, or not to the end."""

    num_matched: int = 0
    num_redacted: int = 0
    num_by_agent: Counter[tuple[str, str]] = field(default_factory=Counter)
    failed: list[tuple[str, str]] = field(default_factory=list)


def matcher(pattern: str) -> Callable[[str], bool]:
    """Whether a whole text matches a shell GLOB, case-sensitively; `*` spans lines."""
    match = re.compile(fnmatch.translate(pattern)).match
    return lambda text: match(text) is not None


async def evict(
    memory: AgentMemory, matches: Callable[[str], bool], report: EvictReport, *, dry_run: bool
) -> None:
    """Forget one agent's memories that match in any of their versions, a page at a time. Raises MemoryStoreError."""
    after = ""
    while True:
        next_after, found = await memory.run(functools.partial(_found, after=after, matches=matches))
        if found:
            report.num_matched += len(found)
            report.num_by_agent[memory.namespace, memory.id] += len(found)
            if not dry_run:
                report.num_redacted += (await memory.forget(found)).num_redacted
        if next_after is None:
            return
        after = next_after


def _found(store: MemoryStore, after: str, matches: Callable[[str], bool]) -> tuple[str | None, list[str]]:
    page = store.page(after, _PAGE, _ALL)
    found = [
        memory.id
        for memory in page
        if matches(memory.text)
        or (memory.version > 1 and any(matches(version.text) for version in store.versions(memory.id)))
    ]
    return page[-1].id if len(page) == _PAGE else None, found
