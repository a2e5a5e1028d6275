"""JSON5 read with the place of everything in it, so that it can be changed without touching the rest.

The grammar is that of https://spec.json5.org. Where a key stands twice in an object the last one counts, as it does
for every reader of JSON5.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from openclaw_cache.errors import OpenClawCacheError
from openclaw_cache.types import Json

MAX_DEPTH: Final = 200

_SPACE: Final = re.compile(r"(?:[\s\ufeff]|//[^\n\r\u2028\u2029]*|/\*.*?\*/)*", re.DOTALL)
_NUMBER: Final = re.compile(
    r"[+-]?(?:0[xX][0-9a-fA-F]+|Infinity|NaN|(?:(?:0|[1-9]\d*)(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)"
)
_NAME: Final = re.compile(r"(?:[^\W\d]|[$]|\\u[0-9a-fA-F]{4})(?:[\w$\u200c\u200d]|\\u[0-9a-fA-F]{4})*")
_STRING: Final = {
    quote: re.compile(rf"{quote}(?:[^{quote}\\\n\r]|\\(?:\r\n|.|\n))*{quote}", re.DOTALL) for quote in "\"'"
}
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(\r\n|.))", re.DOTALL)
_SURROGATES: Final = re.compile(r"[\ud800-\udbff][\udc00-\udfff]")
_ESCAPED: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "0": "\0"}
_LINE_ENDS: Final = ("\n", "\r", "\r\n", "\u2028", "\u2029")
_WORDS: Final[dict[str, bool | None]] = {"true": True, "false": False, "null": None}


class Json5Error(OpenClawCacheError):
    """A text is no JSON5; the message says where, and never repeats the text."""


@dataclass(frozen=True, slots=True)
class Member:
    """One `key: value` of an object."""

    key: str
    start: int
    value: Node


@dataclass(frozen=True, slots=True)
class Node:
    """A value and where it stands: `text[start:end]`."""

    start: int
    end: int
    scalar: str | float | int | bool | None = None
    members: tuple[Member, ...] | None = None
    """Of an object."""
    items: tuple[Node, ...] | None = None
    """Of an array."""

    def member(self, key: str) -> Member | None:
        """The member of this name that counts. O(members)."""
        return next((m for m in reversed(self.members or ()) if m.key == key), None)

    def find(self, path: Sequence[str]) -> Node | None:
        """The value below `path` of object keys; None where there is none."""
        node = self
        for key in path:
            member = node.member(key)
            if member is None:
                return None
            node = member.value
        return node

    def value(self) -> Json:
        """As plain values."""
        if self.members is not None:
            return {m.key: m.value.value() for m in self.members}
        if self.items is not None:
            return [item.value() for item in self.items]
        return self.scalar


def parse(text: str) -> Node:
    """Read a whole text. O(length).

    Raises:
        Json5Error: with line and column.
    """
    reader = _Reader(text)
    node = reader.value(0, 0)
    end = skip_space(text, node.end)
    if end != len(text):
        raise reader.wrong(end, "nothing may follow the value")
    return node


def skip_space(text: str, at: int) -> int:
    """Where white space and comments that begin at `at` end."""
    found = _SPACE.match(text, at)
    return found.end() if found is not None else at


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text

    def wrong(self, at: int, what: str) -> Json5Error:
        line = self._text.count("\n", 0, at) + 1
        column = at - (self._text.rfind("\n", 0, at) + 1) + 1
        return Json5Error(f"line {line}, column {column}: {what}")

    def value(self, at: int, depth: int) -> Node:
        text, at = self._text, skip_space(self._text, at)
        if depth > MAX_DEPTH:
            raise self.wrong(at, "nested too deeply")
        char = text[at : at + 1]
        if char == "{":
            return self._object(at, depth)
        if char == "[":
            return self._array(at, depth)
        if char and char in "\"'":
            end, scalar = self._string(at)
            return Node(at, end, scalar)
        if (number := _NUMBER.match(text, at)) and not _NAME.match(text, number.end()):
            return Node(at, number.end(), _number(number[0]))
        word = _NAME.match(text, at)
        if word is not None and word[0] in _WORDS:
            return Node(at, word.end(), _WORDS[word[0]])
        raise self.wrong(at, "a value is missing here")

    def _object(self, start: int, depth: int) -> Node:
        members: list[Member] = []
        at = skip_space(self._text, start + 1)
        while self._text[at : at + 1] != "}":
            end, key = self._key(at)
            colon = skip_space(self._text, end)
            if self._text[colon : colon + 1] != ":":
                raise self.wrong(colon, "a colon is missing here")
            value = self.value(colon + 1, depth + 1)
            members.append(Member(key, at, value))
            at = self._next(value.end, "}")
        return Node(start, at + 1, members=tuple(members))

    def _array(self, start: int, depth: int) -> Node:
        items: list[Node] = []
        at = skip_space(self._text, start + 1)
        while self._text[at : at + 1] != "]":
            items.append(self.value(at, depth + 1))
            at = self._next(items[-1].end, "]")
        return Node(start, at + 1, items=tuple(items))

    def _next(self, at: int, close: str) -> int:
        """After a member: where the next one begins, or the bracket that ends them."""
        at = skip_space(self._text, at)
        if self._text[at : at + 1] == ",":
            return skip_space(self._text, at + 1)
        if self._text[at : at + 1] != close:
            raise self.wrong(at, f"a comma or {close} is missing here")
        return at

    def _key(self, at: int) -> tuple[int, str]:
        if self._text[at : at + 1] in ("'", '"'):
            return self._string(at)
        name = _NAME.match(self._text, at)
        if name is None:
            raise self.wrong(at, "a key is missing here")
        return name.end(), _unescaped(name[0])

    def _string(self, at: int) -> tuple[int, str]:
        found = _STRING[self._text[at]].match(self._text, at)
        if found is None:
            raise self.wrong(at, "this string does not end")
        for escape in _ESCAPE.finditer(found[0]):
            if (escape[3] or "") in tuple("123456789ux"):
                raise self.wrong(at + escape.start(), "this escape does not exist")
        return found.end(), _unescaped(found[0][1:-1])


def _unescaped(text: str) -> str:
    def char(escape: re.Match[str]) -> str:
        if (code := escape[1] or escape[2]) is not None:
            return chr(int(code, 16))
        return "" if escape[3] in _LINE_ENDS else _ESCAPED.get(escape[3], escape[3])

    found = _ESCAPE.sub(char, text)
    return _SURROGATES.sub(lambda pair: pair[0].encode("utf-16", "surrogatepass").decode("utf-16"), found)


def _number(text: str) -> int | float:
    sign, digits = (-1 if text[0] == "-" else 1), text.lstrip("+-")
    if digits in ("Infinity", "NaN"):
        return sign * math.inf if digits == "Infinity" else math.nan
    if digits[:2] in ("0x", "0X"):
        return sign * int(digits, 16)
    return sign * (int(digits) if digits.isdigit() else float(digits))
