"""What connecting changed, kept beside OpenClaw's config until it is taken back."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from openclaw_cache.connect.config_files import ConfigFiles
from openclaw_cache.connect.plan import Plan
from openclaw_cache.errors import ConfigError
from openclaw_cache.types import Json

FILE_NAME: Final = "openclaw-cache-connect.json"


class Kept(msgspec.Struct, frozen=True):
    """One place that we changed: a value, an object of our name, or an item of an array."""

    path: list[str]
    before: str | None
    """As it stood there, as JSON5; None = nothing did. Of an item: unused."""
    after_sha256: str = ""
    item: Json = None
    is_item: bool = False
    is_ours: bool = False
    """Whether it is an object of our name, which goes as a whole."""


class KeptFile(msgspec.Struct, frozen=True):
    """A file that we wrote: its whole content before is in `backup`; None = it did not exist."""

    path: str
    backup: str | None
    before_sha256: str
    after_sha256: str


class Record(msgspec.Struct, frozen=True):
    """Everything that one or more runs changed, seen from before the first."""

    version: int
    kept: list[Kept]
    files: list[KeptFile]
    made: list[list[str]]
    """Objects and arrays that were not there: they go when they are empty again."""


def path_for(root: Path) -> Path:
    """Where the record of a config is kept."""
    return root.parent / FILE_NAME


def load(root: Path) -> Record | None:
    """The record of a config; None where it is not connected.

    Raises:
        ConfigError: it cannot be read.
    """
    path = path_for(root)
    try:
        return msgspec.json.decode(path.read_bytes(), type=Record)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as e:
        raise ConfigError(f"{path} cannot be read: {type(e).__name__}: put back a backup by hand") from None


def write(root: Path, record: Record) -> None:
    """Keep a record, readable by its owner only."""
    write_private(path_for(root), msgspec.json.format(msgspec.json.encode(record), indent=1))


def write_private(path: Path, content: bytes) -> None:
    """Write a whole file, mode 0600, all or nothing."""
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(handle, "wb") as opened:
            opened.write(content)
            opened.flush()
            os.fsync(opened.fileno())
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


def recorded(
    files: ConfigFiles,
    plan: Plan,
    after: ConfigFiles,
    backups: Mapping[Path, Path | None],
    old: Record | None,
) -> Record:
    """The record after a plan: what an earlier run recorded goes on to count where the config is still as it left it.

    Args:
        files: The config before the plan.
        plan: What was changed.
        after: The config with the plan's changes.
        backups: For each changed file where its content before is kept.
        old: The record of the run before, if there was one.
    """
    known = {(*k.path, _item_key(k)): k for k in old.kept} if old is not None else {}
    kept = dict(known)
    for change in plan.changes:
        path = change.setting.owner or change.setting.path
        is_item = change.setting.is_item
        new = Kept(
            list(path),
            None if is_item else files.raw(files.owner(path)),
            "" if is_item else digest(after.at(path)),
            change.setting.value if is_item else None,
            is_item=is_item,
            is_ours=change.setting.owner is not None,
        )
        key = (*path, _item_key(new))
        if (earlier := known.get(key)) is not None and not is_item:
            is_as_left = earlier.is_ours or digest(files.at(path)) == earlier.after_sha256
            new = msgspec.structs.replace(new, before=earlier.before) if is_as_left else new
        kept[key] = new
    made = list(old.made) if old is not None else []
    made += [m for m in _made(files, plan) if m not in made]
    return Record(1, list(kept.values()), _files(files, after, plan, backups, old), made)


def digest(value: Json) -> str:
    """Names a value, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def text_digest(text: str | None) -> str:
    """Names a file's content; of a file that is not there it is empty."""
    return "" if text is None else hashlib.sha256(text.encode()).hexdigest()


def _files(
    files: ConfigFiles,
    after: ConfigFiles,
    plan: Plan,
    backups: Mapping[Path, Path | None],
    old: Record | None,
) -> list[KeptFile]:
    known = {Path(f.path): f for f in old.files} if old is not None else {}
    kept = dict(known)
    for file in plan.texts:
        before = text_digest(files.texts.get(file))
        backup = backups[file]
        if (earlier := known.get(file)) is not None:
            is_as_left = earlier.after_sha256 == before
            # What somebody changed between two runs is no state to go back to: then key by key.
            before = earlier.before_sha256 if is_as_left else "mixed"
            if is_as_left:
                backup = Path(earlier.backup) if earlier.backup else None
        kept[file] = KeptFile(
            str(file), str(backup) if backup else None, before, text_digest(after.texts.get(file))
        )
    return list(kept.values())


def _made(files: ConfigFiles, plan: Plan) -> list[list[str]]:
    made = {
        change.setting.path[:n]
        for change in plan.changes
        for n in range(1, len(change.setting.path) + change.setting.is_item)
        if files.at(change.setting.path[:n]) is None
    }
    return [list(path) for path in sorted(made, key=len, reverse=True)]


def _item_key(kept: Kept) -> str:
    return digest(kept.item) if kept.is_item else ""
