"""What changes an agent's memories. Each function is one unit of work on a store, to be run in a thread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from openclaw_cache.errors import OpenClawCacheError, VersionConflictError
from openclaw_cache.memory.forgetting import REDACTED, texts_to_redact
from openclaw_cache.memory.forgotten import note_forgotten
from openclaw_cache.memory.ids import new_id
from openclaw_cache.memory.record import Memory, Provenance, Recall
from openclaw_cache.memory.retrieval.block import without

if TYPE_CHECKING:
    from openclaw_cache.memory.store import MemoryStore


_PAGE: Final = 200
_DAY_S: Final = 86_400.0
SOURCE: Final = "api"
"""Of what comes or is changed through the API and says nothing else."""


class UnknownMemoryError(OpenClawCacheError):
    """There is no memory of this id."""


class SameTextError(OpenClawCacheError):
    """Another current memory says the same; the message is its id."""


class NewMemory(msgspec.Struct, frozen=True, kw_only=True):
    """A memory before it is stored."""

    text: str
    kind: str = "fact"
    tags: tuple[str, ...] = ()
    source: str = SOURCE
    at: float | None = None
    """None = the time at which it is stored."""
    slot: str | None = None
    supersedes: tuple[str, ...] = ()
    provenance: Provenance = Provenance()


@dataclass(frozen=True, slots=True)
class Added:
    """What became of a new memory: `memory` is what says so now; it may have been there before."""

    memory: Memory
    is_new: bool


@dataclass(frozen=True, slots=True)
class Forgotten:
    """How many memories went, in how many messages and recalls they had stood, and the numbers of their passages."""

    num_forgotten: int
    num_redacted: int
    numbers: list[int]
    texts: tuple[str, ...] = ()
    """What was taken out of turns, and must not come back with one that has begun."""


@dataclass(frozen=True, slots=True)
class Changes:
    """Fields to give a new value; None leaves one as it is, an empty `slot` takes it away."""

    text: str | None = None
    kind: str | None = None
    tags: tuple[str, ...] | None = None
    at: float | None = None
    slot: str | None = None


def add(store: MemoryStore, news: Sequence[NewMemory], now: float) -> list[Added]:
    """Store memories, all or none. One whose very text is current already, or comes twice, is not stored again.

    One with a slot supersedes those that hold it, unless they speak of a later time; then it is superseded itself.

    Raises:
        UnknownMemoryError: one supersedes what there is not.
        MemoryStoreError.
    """
    _check_known(store, {old for new in news for old in new.supersedes})
    told: dict[str, Memory] = {}
    for memory in store.with_text([new.text for new in news]):
        if memory is not None:
            told[memory.text] = memory
    holders: dict[str, list[Memory]] = {}
    fresh: list[Memory] = []
    added: list[Added] = []
    for new in news:
        if (same := told.get(new.text)) is not None:
            added.append(Added(same, is_new=False))
            continue
        memory = _made(new, now)
        if new.slot:
            memory = _in_slot(memory, holders.setdefault(new.slot, store.holders(new.slot)))
        told[new.text] = memory
        fresh.append(memory)
        added.append(Added(memory, is_new=True))
    if fresh:
        store.put(fresh)
    return added


def change(
    store: MemoryStore, memory_id: str, changes: Changes, *, expected: int | None, now: float
) -> tuple[Memory, list[int]]:
    """Give a memory a new version; where nothing differs it stays as it is.

    Returns it with the numbers of the passages that it had before.

    Args:
        store: The agent's.
        memory_id: Which.
        changes: What differs.
        expected: The version that the caller saw, where it matters.
        now: Unix time.

    Raises:
        UnknownMemoryError, VersionConflictError, SameTextError, MemoryStoreError.
    """
    (memory,) = store.get([memory_id])
    if memory is None:
        raise UnknownMemoryError(memory_id)
    if expected is not None and expected != memory.version:
        raise VersionConflictError(f"version {memory.version} is current")
    if changes.text is not None and changes.text != memory.text:
        (same,) = store.with_text([changes.text])
        if same is not None and same.id != memory_id:
            raise SameTextError(same.id)
    slot = memory.slot if changes.slot is None else changes.slot or None
    changed = msgspec.structs.replace(
        memory,
        text=memory.text if changes.text is None else changes.text,
        kind=memory.kind if changes.kind is None else changes.kind,
        tags=memory.tags if changes.tags is None else changes.tags,
        at=memory.at if changes.at is None else changes.at,
        slot=slot,
    )
    if changed == memory:
        return memory, []
    if slot and memory.superseded_by is None:
        others = tuple(holder.id for holder in store.holders(slot) if holder.id != memory_id)
        known = frozenset(memory.supersedes)
        changed = msgspec.structs.replace(
            changed, supersedes=(*memory.supersedes, *(other for other in others if other not in known))
        )
    if changed.text != memory.text:
        changed = msgspec.structs.replace(changed, source=SOURCE)  # so that a later import leaves it alone
    changed = msgspec.structs.replace(changed, version=memory.version + 1, updated_at=now)
    numbers = store.numbers_of([memory_id])
    store.put([changed])
    return changed, numbers


def forget(store: MemoryStore, ids: Sequence[str], now: float) -> Forgotten:
    """Remove memories with all their versions, their lines from recalls, and their text from turns.

    What refers to them goes first, so that a forgetting which breaks off can be repeated. Unknown ids are none.

    Raises:
        MemoryStoreError.
    """
    versions = [version for memory_id in dict.fromkeys(ids) for version in store.versions(memory_id)]
    if not versions:
        return Forgotten(0, 0, [])
    owners = {version.id for version in versions}
    numbers = store.numbers_of(sorted(owners))
    changed: dict[str, Recall] = {}
    for owner in sorted(owners):
        for recall in store.recalls_with(owner):
            block = without(recall.items, owners)
            changed[recall.id] = msgspec.structs.replace(
                recall, text=block.text, items=block.items, num_tokens=block.num_tokens
            )
    if changed:
        store.replace_recalls(list(changed.values()))
    texts = texts_to_redact(versions)
    num_redacted = store.redact(texts, REDACTED)
    note_forgotten(store, [version.text for version in versions], now)
    store.forget(sorted(owners))
    return Forgotten(len(owners), len(changed) + num_redacted, numbers, tuple(texts))


def drop_session(store: MemoryStore, session: str, now: float) -> int:
    """Remove a session's turns and recalls, and what other sessions' recalls show of it; returns how many turns.

    What its host still shows of it does not come back: see `context.sessions.dropped_at`.

    Raises:
        MemoryStoreError.
    """
    newest, after = 0.0, ""
    while turns := store.turns(session, after, _PAGE):
        # By the host's own clock; what it dates wrongly must not keep all that is to come out of the log.
        times = (message.at for turn in turns for message in turn.messages)
        newest = max([newest, *(at for at in times if at < now + _DAY_S)])
        after = turns[-1].id
    if newest:
        store.set_label(f"dropped:{session}", repr(newest))
    return store.drop_session(session)


def _check_known(store: MemoryStore, ids: set[str]) -> None:
    wanted = sorted(ids)
    for name, found in zip(wanted, store.get(wanted) if wanted else [], strict=True):
        if found is None:
            raise UnknownMemoryError(name)


def _made(new: NewMemory, now: float) -> Memory:
    return Memory(
        id=new_id("mem", now),
        text=new.text,
        kind=new.kind,
        tags=new.tags,
        source=new.source,
        at=now if new.at is None else new.at,
        created_at=now,
        updated_at=now,
        slot=new.slot,
        supersedes=new.supersedes,
        provenance=new.provenance,
    )


def _in_slot(memory: Memory, holders: list[Memory]) -> Memory:
    """The memory as it takes its slot; `holders` become those that hold it then."""
    older = [holder for holder in holders if holder.at <= memory.at]
    newer = [holder for holder in holders if holder.at > memory.at]
    known = frozenset(memory.supersedes)
    taken = msgspec.structs.replace(
        memory, supersedes=(*memory.supersedes, *(old.id for old in older if old.id not in known))
    )
    if newer:
        taken = msgspec.structs.replace(taken, superseded_by=newer[-1].id)
        holders[:] = newer
    else:
        holders[:] = [taken]
    return taken
