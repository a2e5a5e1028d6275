"""What has to change in a config so that it says what we want. Pure: texts in, texts out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from openclaw_cache.connect import json5_edit
from openclaw_cache.connect.config_files import ConfigFiles
from openclaw_cache.connect.json5_text import Json5Error
from openclaw_cache.connect.wish import Setting
from openclaw_cache.errors import ConfigError
from openclaw_cache.types import Json


@dataclass(frozen=True, slots=True)
class Change:
    """A setting that the config does not have yet, and what it says instead (None: nothing)."""

    setting: Setting
    before: Json
    file: Path


@dataclass(frozen=True, slots=True)
class Plan:
    """Changes, and the texts of the files that they change."""

    changes: tuple[Change, ...]
    texts: dict[Path, str] = field(repr=False)


def plan(files: ConfigFiles, wanted: Sequence[Setting]) -> Plan:
    """Which of the wanted settings are missing, and what the files look like with them. O(settings x length).

    Raises:
        ConfigError: a setting's place is taken by something of another shape.
    """
    texts: dict[Path, str] = {}
    changes: list[Change] = []
    for setting in wanted:
        before = files.at(setting.path)
        if _holds(before, setting):
            continue
        owned = files.owner(setting.path)
        text = texts.get(owned.file, files.texts.get(owned.file, "{}\n"))
        change = json5_edit.append if setting.is_item else json5_edit.put
        try:
            texts[owned.file] = change(text, owned.path, setting.value)
        except (ValueError, Json5Error) as e:
            raise ConfigError(f"{owned.file}: {'.'.join(setting.path)} cannot be set: {e}") from None
        changes.append(Change(setting, before, owned.file))
    return Plan(tuple(changes), texts)


def _holds(now: Json, setting: Setting) -> bool:
    if setting.is_item:
        return isinstance(now, list) and setting.value in now
    return type(now) is type(setting.value) and bool(now == setting.value)
