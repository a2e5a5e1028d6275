"""Takes what is worth remembering out of what was said: one unit of work on a store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from openclaw_cache.memory.capture.candidates import Candidate, candidates
from openclaw_cache.memory.capture.superseding import superseding
from openclaw_cache.memory.forgotten import was_forgotten
from openclaw_cache.memory.ids import new_id
from openclaw_cache.memory.record import Memory, Message, Provenance

if TYPE_CHECKING:
    from openclaw_cache.memory.store import MemoryStore


@dataclass(frozen=True, slots=True)
class Captured:
    """The memories that are new, and the ids of those whose place they took."""

    memories: tuple[Memory, ...] = ()
    superseded: tuple[str, ...] = ()


def capture(
    store: MemoryStore, session: str | None, messages: Sequence[Message], now: float, turn: str | None
) -> Captured:
    """Store what is worth remembering of a turn's messages, all or none. What is known is not stored again.

    Raises:
        MemoryStoreError.
    """
    found = candidates(messages, now)
    if not found:
        return Captured()
    known = {memory.text for memory in store.with_text([c.text for c in found]) if memory is not None}
    holders: dict[str, list[Memory]] = {}
    fresh: list[Memory] = []
    superseded: list[str] = []
    for candidate in found:
        if candidate.text in known or was_forgotten(store, candidate.text, candidate.at):
            continue
        slot = candidate.slot
        held = holders.setdefault(slot, store.holders(slot)) if slot else []
        decision = superseding(candidate, held)
        if decision.action == "skip":
            continue
        memory = _memory(candidate, session, turn, now)
        if decision.action == "supersede":
            memory = msgspec.structs.replace(memory, supersedes=decision.ids)
            superseded += decision.ids
            held[:] = [memory]
        elif decision.action == "outdated":
            memory = msgspec.structs.replace(memory, superseded_by=decision.ids[-1])
        else:
            held.append(memory)
        fresh.append(memory)
        known.add(candidate.text)
    if fresh:
        store.put(fresh)
    return Captured(tuple(fresh), tuple(superseded))


def _memory(candidate: Candidate, session: str | None, turn: str | None, now: float) -> Memory:
    return Memory(
        id=new_id("mem", now),
        text=candidate.text,
        kind=candidate.kind,
        tags=candidate.tags,
        source="capture",
        at=candidate.at,
        created_at=now,
        updated_at=now,
        slot=candidate.slot,
        provenance=Provenance(session=session, turn=turn, message=candidate.message_id or None),
    )
