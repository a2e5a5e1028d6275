"""Changes to a JSON5 text that leave everything else as it is, comments and all."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from openclaw_cache.connect.json5_text import Node, parse, skip_space
from openclaw_cache.types import Json

_UNIT: Final = "  "
_BLANK: Final = " \t\n\r"


def put(text: str, path: Sequence[str], value: Json) -> str:
    """Set the value below `path`, and make the objects on the way. O(length).

    Raises:
        Json5Error: the text is none.
        ValueError: something on the way is no object.
    """
    node = parse(text)
    for i, key in enumerate(path):
        if node.members is None:
            raise ValueError(f"{'.'.join(path[:i]) or 'the whole'} is no object")
        member = node.member(key)
        if member is None:
            for missing in reversed(path[i + 1 :]):
                value = {missing: value}
            return _with_entry(text, node, f"{json.dumps(key, ensure_ascii=False)}: ", value)
        node = member.value
    return text[: node.start] + _written(value, _indent_at(text, node.start)) + text[node.end :]


def put_raw(text: str, path: Sequence[str], raw: str) -> str:
    """Set the value below `path` to a piece of JSON5 that stood there before. Raises as `put` does."""
    text = put(text, path, None)
    node = parse(text).find(path)
    assert node is not None  # noqa: S101 - just put
    return text[: node.start] + raw + text[node.end :]


def append(text: str, path: Sequence[str], value: Json) -> str:
    """Add to the end of the array below `path`, which is made where there is none. Raises as `put` does."""
    node = parse(text).find(path)
    if node is None:
        return put(text, path, [value])
    if node.items is None:
        raise ValueError(f"{'.'.join(path)} is no array")
    return _with_entry(text, node, "", value)


def remove(text: str, path: Sequence[str]) -> str:
    """Remove the member at `path`; a text without it stays as it is. Raises Json5Error."""
    above = parse(text).find(path[:-1])
    while above is not None and (member := above.member(path[-1])) is not None:  # it may stand there twice
        starts = [m.start for m in above.members or ()]
        text = _without(text, above, starts.index(member.start), member.start, member.value.end)
        above = parse(text).find(path[:-1])
    return text


def remove_item(text: str, path: Sequence[str], value: Json) -> str:
    """Remove the first such item of the array at `path`; without one the text stays. Raises Json5Error."""
    node = parse(text).find(path)
    for i, item in enumerate(node.items or () if node is not None else ()):
        if node is not None and item.value() == value:
            return _without(text, node, i, item.start, item.end)
    return text


def _with_entry(text: str, node: Node, key: str, value: Json) -> str:
    """A text with one more member or item at the end of an object or array."""
    entries = _spans(node)
    close = node.end - 1
    around = _indent_at(text, node.start)
    is_spread = "\n" in text[node.start : close] or not entries
    is_below = bool(entries) and "\n" in text[node.start : entries[-1][0]]
    indent = _indent_at(text, entries[-1][0]) if is_below else around + _UNIT
    if not entries:
        head = text[:close].rstrip(_BLANK)
        return f"{head}\n{indent}{key}{_written(value, indent)}\n{around}{text[close:]}"
    last = entries[-1][1]
    comma = skip_space(text, last)
    has_comma = text[comma : comma + 1] == ","
    # Behind the comments of what is there, which belong to it.
    tail = text[last:close].rstrip(_BLANK)
    head = text[:last] + ("" if has_comma else ",") + tail
    if not is_spread and "//" not in tail:
        return f"{head} {key}{_written(value, around)}{text[close:]}"
    ending = "," if has_comma else ""
    return f"{head}\n{indent}{key}{_written(value, indent)}{ending}\n{around}{text[close:]}"


def _without(text: str, node: Node, i: int, start: int, end: int) -> str:
    """A text without one entry, its comma, and its line where nothing else stands there."""
    comma = skip_space(text, end)
    if text[comma : comma + 1] == ",":
        text = text[:comma] + text[comma + 1 :]
    elif i > 0:
        before = skip_space(text, _spans(node)[i - 1][1])
        text = text[:before] + text[before + 1 :]
        start, end = start - 1, end - 1
    line_start = text.rfind("\n", 0, start) + 1
    if text[line_start:start].strip(" \t") == "":
        rest = len(text[end:]) - len(text[end:].lstrip(" \t\r"))
        if text[end + rest : end + rest + 1] == "\n":
            return text[:line_start] + text[end + rest + 1 :]
    if node.members is not None and len(_spans(node)) == 1:
        return text[:start].rstrip(_BLANK) + text[end:].lstrip(_BLANK)
    return text[:start] + text[end:].lstrip(" \t")


def _spans(node: Node) -> list[tuple[int, int]]:
    if node.members is not None:
        return [(m.start, m.value.end) for m in node.members]
    return [(item.start, item.end) for item in node.items or ()]


def _indent_at(text: str, at: int) -> str:
    """The white space that the line of `at` begins with."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _written(value: Json, indent: str) -> str:
    is_short = not isinstance(value, (dict, list)) or not value
    written = json.dumps(value, ensure_ascii=False, indent=None if is_short else len(_UNIT))
    return written.replace("\n", "\n" + indent)
