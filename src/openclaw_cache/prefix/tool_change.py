"""What a change of a prompt's tools is about."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from openclaw_cache.prefix.outline import Part, utf8_size
from openclaw_cache.prefix.sameness import common_prefix
from openclaw_cache.prefix.text_change import Named, names, safe_name, without
from openclaw_cache.types import Json


class Spot(NamedTuple):
    """A place in a body: a JSON pointer, and bytes into the text there."""

    pointer: str
    offset: int


def tool_set(earlier: Sequence[Part], later: Sequence[Part]) -> Named:
    """Tools that went, came, or changed places. For prompts whose tools first differ in more than one tool's text."""
    old, new = [part.name for part in earlier], [part.name for part in later]
    gone, come = without(old, new), without(new, old)
    missing, added = f"{names('tool', gone)} missing", f"{names('tool', come)} added"
    if not new or not old:
        some = "1 tool" if len(new) == 1 else f"{len(new)} tools"
        none = "the only tool is missing" if len(old) == 1 else f"all {len(old)} tools are missing"
        what = none if old else f"{some} where there were none"
        return Named("tool_missing" if old else "tool_added", what)
    if come and (not gone or _first_is_new(old, come, new)):
        return Named("tool_added", f"{added}, {missing}" if gone else added)
    if gone:
        return Named("tool_missing", missing)
    if len(old) != len(new):
        return Named("tool_changed", "a tool is offered another number of times")
    return Named("tool_order", "the same tools in another order")


def _first_is_new(old: Sequence[str], come: Sequence[str], new: Sequence[str]) -> bool:
    """Whether what differs first is a tool that came, while the earlier one's is still there."""
    for one, other in zip(old, new, strict=False):
        if one != other:
            return other in come and one in new
    return False


def same_tool(earlier: Part, later: Part) -> tuple[Named, Spot]:
    """What differs in a tool that both prompts have."""
    name = safe_name(later.name)
    old, new = _decoded(earlier.text), _decoded(later.text)
    try:
        path, one, other = _difference(old, new, ())
    except RecursionError:  # nested deeper than anybody nests a schema
        return Named("tool_changed", f'the schema of tool "{name}"'), Spot(later.pointer, 0)
    pointer = later.pointer + "".join(f"/{_escaped(key)}" for key in path)
    if path == () and one == other:
        at = common_prefix(earlier.text, later.text)
        spot = Spot(later.pointer, utf8_size(later.text[:at]))
        return Named("tool_format", f'tool "{name}" has its JSON keys in another order'), spot
    offset = common_prefix(one, other) if isinstance(one, str) and isinstance(other, str) else 0
    if isinstance(one, str) and isinstance(other, str) and one.split() == other.split():
        return Named("tool_format", f'tool "{name}" has other white space'), Spot(
            pointer, utf8_size(other[:offset])
        )
    size = utf8_size(other[:offset]) if isinstance(other, str) else 0
    if path and path[-1] == "description" and not ({"parameters", "input_schema", "properties"} & set(path)):
        return Named("tool_changed", f'the description of tool "{name}"'), Spot(pointer, size)
    return Named("tool_changed", f'the schema of tool "{name}"'), Spot(pointer, size)


def _decoded(text: str) -> Json:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _difference(old: Json, new: Json, path: tuple[str, ...]) -> tuple[tuple[str, ...], Json, Json]:
    """The first place where two values differ, whatever the order of keys; the values there."""
    while old != new:
        if isinstance(old, dict) and isinstance(new, dict):
            keys = [*new, *(key for key in old if key not in new)]
            key = next(key for key in keys if key not in old or key not in new or old[key] != new[key])
            if key not in old or key not in new:
                return (*path, key), old.get(key), new.get(key)
            old, new, path = old[key], new[key], (*path, key)
        elif isinstance(old, list) and isinstance(new, list):
            pairs = enumerate(zip(old, new, strict=False))
            number = next((number for number, pair in pairs if pair[0] != pair[1]), min(len(old), len(new)))
            if number >= min(len(old), len(new)):
                return (*path, str(number)), old[number:], new[number:]
            old, new, path = old[number], new[number], (*path, str(number))
        else:
            return path, old, new
    return (), old, new


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
