"""The first place where two texts differ, in lines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_MAX_LINES: Final = 40
_MAX_LINE_CHARS: Final = 2000


@dataclass(frozen=True, slots=True)
class Hunk:
    """Lines that went and lines that came, up to the next line that both have."""

    earlier: str
    """The whole text before."""
    later: str
    """The whole text after."""
    begin: int
    """Where the first line that differs begins, in both, in characters."""
    removed: tuple[str, ...]
    added: tuple[str, ...]
    """At most 40 lines, each cut to 2,000 characters."""

    @property
    def before(self) -> str:
        """The first line that went; empty where only lines came."""
        return self.removed[0] if self.removed else ""

    @property
    def after(self) -> str:
        """The first line that came."""
        return self.added[0] if self.added else ""

    @property
    def is_in_one_line(self) -> bool:
        """Whether as many lines went as came, so that the first ones are two forms of one line."""
        return len(self.removed) == len(self.added) > 0


def first_hunk(earlier: str, later: str, at: int) -> Hunk:
    """The lines around the first difference, which is at `at` characters."""
    begin = earlier.rfind("\n", 0, at) + 1
    if at and at == len(earlier) and later.startswith("\n", at):
        begin = at  # whole lines came at the end
    elif at and at == len(later) and earlier.startswith("\n", at):
        begin = at
    ours, theirs = _lines(earlier, begin), _lines(later, begin)
    num_removed, num_added = _resync(ours, theirs)
    return Hunk(earlier, later, begin, tuple(ours[:num_removed]), tuple(theirs[:num_added]))


def _lines(text: str, begin: int) -> list[str]:
    lines: list[str] = []
    while begin < len(text) and len(lines) < _MAX_LINES:
        end = text.find("\n", begin)
        end = len(text) if end < 0 else end
        lines.append(text[begin : min(end, begin + _MAX_LINE_CHARS)])
        begin = end + 1
    return lines


def _resync(ours: list[str], theirs: list[str]) -> tuple[int, int]:
    """How many lines of each to skip until both go on alike; all where they do not."""
    places: dict[str, list[int]] = {}
    for number, line in enumerate(theirs):
        if line.strip():
            places.setdefault(line, []).append(number)
    best = (len(ours), len(theirs))
    for number, line in enumerate(ours):
        for there in places.get(line, ()):
            if number + there < sum(best) and (number or there):
                best = (number, there)
    return best
