"""Reads the lists of phrases."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import Final

_LIST: Final = re.compile(r"== (\w+) ==")
_NAMED: Final = re.compile(r"(?<!\\)\{([a-z_]+)\}")


class Language:
    """The phrases of one language: named lists of regular expressions. What one list says of another is filled in."""

    def __init__(self, name: str) -> None:
        self._lists: dict[str, list[str]] = {}
        current: list[str] = []
        for line in files(__package__).joinpath(f"{name}.txt").read_text(encoding="utf-8").splitlines():
            if header := _LIST.fullmatch(line):
                current = self._lists.setdefault(header[1], [])
            elif line.strip() and not line.startswith("#"):
                current.append(line)

    def lines(self, name: str) -> list[str]:
        """The lines of a list as they stand."""
        return self._lists[name]

    def any_of(self, name: str) -> str:
        """A regular expression for any line of a list; one that matches nothing where there is no such list."""
        lines = self._lists.get(name, ["(?!)"])
        return f"(?:{'|'.join(map(self.filled, lines))})"

    def filled(self, pattern: str) -> str:
        """A regular expression with the lists that it names in braces filled in."""
        return _NAMED.sub(lambda named: self.any_of(named[1]), pattern)


@cache
def english() -> Language:
    """English."""
    return Language("english")


@cache
def chinese() -> Language:
    """Chinese, in simplified characters."""
    return Language("chinese")
