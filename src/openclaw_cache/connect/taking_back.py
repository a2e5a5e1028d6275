"""Taking back what connecting changed, and nothing else. Pure: texts in, texts out."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from openclaw_cache.connect import json5_edit
from openclaw_cache.connect.config_files import ConfigFiles, Owned
from openclaw_cache.connect.json5_text import parse
from openclaw_cache.connect.record import Kept, Record, digest
from openclaw_cache.types import Json


@dataclass(frozen=True, slots=True)
class TakenBack:
    """The files' texts without our changes, and what there is to say about it."""

    texts: dict[Path, str] = field(repr=False)
    done: list[str]
    notes: list[str]


def take_back(files: ConfigFiles, record: Record) -> TakenBack:
    """Put back what was there before; what somebody changed since stays as it is. O(places x length).

    Objects of our name go as a whole. Raises Json5Error where a file is none.
    """
    taken = TakenBack({}, [], [])
    for kept in record.kept:
        owned = files.owner(kept.path)
        text = taken.texts.get(owned.file, files.texts.get(owned.file))
        if text is not None:
            _take_one(files.at(kept.path), kept, owned, text, taken)
    for path in sorted(record.made, key=len, reverse=True):
        owned = files.owner(path)
        text = taken.texts.get(owned.file)
        if text is not None and owned.path:
            taken.texts[owned.file] = _without_empty(text, owned)
    return taken


def _take_one(now: Json, kept: Kept, owned: Owned, text: str, taken: TakenBack) -> None:
    name = ".".join(kept.path)
    if kept.is_item:
        if isinstance(now, list) and kept.item in now:
            taken.texts[owned.file] = json5_edit.remove_item(text, owned.path, kept.item)
            taken.done.append(f"{name}: ours removed")
        return
    if now is None:
        return
    if digest(now) != kept.after_sha256:
        if not kept.is_ours:
            taken.notes.append(f"{name} was changed since we set it: it stays as it is")
            return
        taken.notes.append(f"{name} was changed since we wrote it; it is ours and goes all the same")
    if kept.before is None:
        taken.texts[owned.file] = json5_edit.remove(text, owned.path)
        taken.done.append(f"{name}: removed")
    else:
        taken.texts[owned.file] = json5_edit.put_raw(text, owned.path, kept.before)
        taken.done.append(f"{name}: as it was")


def _without_empty(text: str, owned: Owned) -> str:
    found = parse(text).find(owned.path)
    return json5_edit.remove(text, owned.path) if found is not None and found.value() in ({}, []) else text
