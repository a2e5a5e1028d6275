"""What an exported memory adds to a store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from openclaw_cache.memory.record import Memory

Outcome = Literal["added", "updated", "unchanged"]


@dataclass(frozen=True, slots=True)
class Merge:
    """What becomes of a memory, and the versions to put, each the next one of what is stored then."""

    outcome: Outcome
    puts: tuple[Memory, ...] = ()


def merged(history: Sequence[Memory], known: Memory | None) -> Merge:
    """What a memory's exported versions (oldest first, at least one) add to the store's current version of it.

    Unknown here: all versions. Here in a version that the export has too: the later ones. Changed here since, or
    apart from it: whichever was changed last is current; the export's is put as the next version. Doing it again
    changes nothing.
    """
    latest = history[-1]
    if known is None:
        return Merge("added", _numbered(history, 1))
    if _is_like(known, latest) or known.updated_at > latest.updated_at:
        return Merge("unchanged")
    for place, version in enumerate(history):
        if _is_like(known, version):
            return Merge("updated", _numbered(history[place + 1 :], known.version + 1))
    if known.updated_at == latest.updated_at:
        return Merge("unchanged")
    return Merge("updated", _numbered([latest], known.version + 1))


def _numbered(versions: Sequence[Memory], first: int) -> tuple[Memory, ...]:
    return tuple(
        msgspec.structs.replace(memory, version=number) for number, memory in enumerate(versions, first)
    )


def _is_like(one: Memory, other: Memory) -> bool:
    """Whether two versions are the same but for their number, and for what has superseded them since."""
    return _bare(one) == _bare(other)


def _bare(memory: Memory) -> Memory:
    return msgspec.structs.replace(memory, version=1, superseded_by=None)
