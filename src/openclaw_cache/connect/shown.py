"""Changes as they are shown to the one who has to agree: key by key, secrets masked."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Final

from openclaw_cache.connect.plan import Change
from openclaw_cache.connect.wish import PLACEHOLDER_KEY, PROVIDER, Setting
from openclaw_cache.types import Json

_SECRET_KEY: Final = re.compile(r"key|token|secret|password|authorization|credential|cookie", re.IGNORECASE)
_NO_SECRET: Final = re.compile(r"\$\{[A-Z_][A-Z0-9_]*\}|" + re.escape(PLACEHOLDER_KEY))
_NAME_OF_VARIABLE: Final = re.compile(r".*env", re.IGNORECASE)


def lines(changes: Iterable[Change]) -> Iterator[str]:
    """One or more lines for each change, grouped by file."""
    file = None
    for change in changes:
        if change.file != file:
            file = change.file
            yield f"{file}:"
        yield from _lines_of(change)


def patch(settings: Iterable[Setting]) -> dict[str, Json]:
    """The settings as one object, as `openclaw config patch` takes it; an array holds our items only."""
    whole: dict[str, Json] = {}
    for setting in settings:
        above = whole
        for key in setting.path[:-1]:
            above = above.setdefault(key, {})
        if setting.is_item:
            above.setdefault(setting.path[-1], []).append(setting.value)
        else:
            above[setting.path[-1]] = setting.value
    return whole


def masked(value: Json, key: str = "") -> Json:
    """A value without its secrets. A reference to a variable is none."""
    if isinstance(value, dict):
        return {k: masked(item, k) for k, item in value.items()}
    if isinstance(value, list):
        return [masked(item, key) for item in value]
    is_secret = _SECRET_KEY.search(key) and not _NAME_OF_VARIABLE.fullmatch(key)
    if is_secret and isinstance(value, str) and not _NO_SECRET.fullmatch(value):
        return "***"
    return value


def _lines_of(change: Change) -> Iterator[str]:
    setting = change.setting
    name, key = ".".join(setting.path), setting.path[-1]
    if setting.is_item:
        yield f"  + {name}[] {_text(masked(setting.value, key))}"
        return
    if setting.path == (*PROVIDER, "models"):
        for model in setting.value:
            yield f"  + {name}[] {_text(masked(model))}"
        if isinstance(change.before, list):
            yield f"    (instead of {len(change.before)} there)"
        return
    after = _text(masked(setting.value, key))
    yield (
        f"  + {name}: {after}"
        if change.before is None
        else (f"  ~ {name}: {_text(masked(change.before, key))} -> {after}")
    )


def _text(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False)
