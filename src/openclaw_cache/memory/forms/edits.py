"""What an edited file changes of the memories that were imported from it before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Final

import msgspec
from blake3 import blake3

from openclaw_cache.memory.capture.sameness import normal
from openclaw_cache.memory.forms.markdown import Note
from openclaw_cache.memory.record import Memory, Provenance

SOURCE: Final = "import"
_CONTEXT: Final = "openclaw-cache 2026-11 ids of imported memories"
_KEY: Final = blake3(b"", derive_key_context=_CONTEXT).digest()
_EDITED_RATIO: Final = 0.6
"""Texts that have as much in common (difflib's ratio) are two versions of one line."""
_COMPARED_CHARS: Final = 500
_MOST_PAIRS: Final = 10_000
"""Bounds the comparing: a file that was written anew as a whole is new."""


@dataclass(frozen=True, slots=True)
class Edits:
    """What to put (`added`, `updated`), how many stay, and what the file no longer says."""

    added: list[Memory]
    updated: list[Memory]
    unchanged: int
    gone: list[Memory]


def file_tag(path: str) -> str:
    """The tag of all memories that come from a file."""
    return f"file:{path}"


def edits(path: str, notes: Sequence[Note], known: Sequence[Memory], now: float) -> Edits:
    """Compare a file with what was imported from it.

    A note whose text is known (but for case, spaces and punctuation) is unchanged, wherever it stands now. Of the
    rest, a note and a memory that is no longer in the file are one line that was edited, where they are alike: the
    memory gets a new version. Other notes are new; their ids come from path and text, so that the same file gives
    the same ids everywhere. A memory whose note is gone is left alone: that a file was tidied up makes nothing untrue.
    So is one that was changed here since it was imported (its `source` is no longer `import`).

    Args:
        path: The file's place in the agent's workspace.
        notes: What it says now.
        known: The current version of every memory with its `file_tag`, superseded ones too.
        now: Unix time.
    """
    left = {memory.id: memory for memory in known}
    by_text = {normal(memory.text): memory.id for memory in reversed(known)}
    fresh: list[Note] = []
    unchanged = 0
    for note in notes:
        if left.pop(by_text.get(normal(note.text), ""), None) is not None:
            unchanged += 1
        else:
            fresh.append(note)
    taken = {memory.id for memory in known}
    unchanged += _drop_changed_here(path, fresh, left)
    updated = []
    for note, memory in _pairs(fresh, [memory for memory in left.values() if memory.source == SOURCE]):
        fresh.remove(note)
        updated.append(_edited(path, note, left.pop(memory.id), now))
    added = []
    for note in fresh:
        memory = _new(path, note, taken, now)
        taken.add(memory.id)
        added.append(memory)
    return Edits(added, updated, unchanged, list(left.values()))


def _drop_changed_here(path: str, fresh: list[Note], left: dict[str, Memory]) -> int:
    """Take out the notes whose memories were changed here, and those memories."""
    changed = [
        note for note in fresh if (known := left.get(_id(path, note.text, 0))) and known.source != SOURCE
    ]
    for note in changed:
        fresh.remove(note)
        del left[_id(path, note.text, 0)]
    return len(changed)


def _pairs(notes: Sequence[Note], memories: Sequence[Memory]) -> list[tuple[Note, Memory]]:
    """Notes with the memories that they are edits of, each at most once, the most alike first."""
    if len(notes) * len(memories) > _MOST_PAIRS:
        return []
    alike: list[tuple[float, int, int]] = []
    for at, memory in enumerate(memories):
        matcher = SequenceMatcher(None, "", memory.text[:_COMPARED_CHARS], autojunk=False)
        for number, note in enumerate(notes):
            matcher.set_seq1(note.text[:_COMPARED_CHARS])
            if matcher.real_quick_ratio() >= _EDITED_RATIO and matcher.quick_ratio() >= _EDITED_RATIO:
                alike.append((-matcher.ratio(), number, at))
    pairs: list[tuple[Note, Memory]] = []
    seen_notes: set[int] = set()
    seen_memories: set[int] = set()
    for unlike, number, at in sorted(alike):
        if -unlike >= _EDITED_RATIO and number not in seen_notes and at not in seen_memories:
            seen_notes.add(number)
            seen_memories.add(at)
            pairs.append((notes[number], memories[at]))
    return pairs


def _edited(path: str, note: Note, memory: Memory, now: float) -> Memory:
    return msgspec.structs.replace(
        memory,
        text=note.text,
        kind=note.kind,
        tags=_tags(path, note),
        at=memory.at if note.at is None else note.at,
        updated_at=now,
        version=memory.version + 1,
        provenance=msgspec.structs.replace(memory.provenance, path=path, line=note.line),
    )


def _new(path: str, note: Note, taken: set[str], now: float) -> Memory:
    number = 0
    while (memory_id := _id(path, note.text, number)) in taken:
        number += 1
    return Memory(
        id=memory_id,
        text=note.text,
        kind=note.kind,
        tags=_tags(path, note),
        source=SOURCE,
        at=now if note.at is None else note.at,
        created_at=now,
        updated_at=now,
        provenance=Provenance(path=path, line=note.line),
    )


def _tags(path: str, note: Note) -> tuple[str, ...]:
    return (file_tag(path), *note.tags)


def _id(path: str, text: str, number: int) -> str:
    parts = (path, normal(text), str(number))
    joined = b"".join(len(part.encode()).to_bytes(8, "big") + part.encode() for part in parts)
    return f"mem_{blake3(joined, key=_KEY).hexdigest(length=12)}"
