"""Sentences of a text in English, Chinese, or both."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_END: Final = re.compile(
    r"""
      (?P<mark> [。！？；!?]+ | (?<![\s.]) \.{1,3} (?=\s|\Z) | ;(?=\s) | … ) ["'”’」』)）\x00]*
    | \n+
    """,
    re.VERBOSE,
)
_ABBREVIATION: Final = re.compile(
    r"(?:^|[\s(])(?:[A-Z]|e\.g|i\.e|Dr|Mr|Mrs|Ms|St|Prof|vs|etc|approx|No|Inc|Ltd|Co)\Z"
)
_BULLET: Final = re.compile(r"\s*(?:[-*•·+][ \t]+|\(?\d{1,2}[.)、][ \t]*(?=\D))?(?:\[[ xX]\][ \t]+)?")


@dataclass(frozen=True, slots=True)
class Sentence:
    """Where a sentence stands in its text, without its bullet and its last mark."""

    start: int
    end: int
    mark: str
    """Its last mark; empty at the end of a line."""
    paragraph: int
    """Counts blank lines before it."""


def sentences(text: str) -> Iterator[Sentence]:
    """The sentences of a text, in order. Cost: linear."""
    start = paragraph = 0
    for end in _END.finditer(text):
        mark = end["mark"] or ""
        if mark == "." and _ABBREVIATION.search(text, max(start, end.start() - 8), end.start()):
            continue
        yield from _sentence(text, start, end.start(), mark, paragraph)
        start = end.end()
        paragraph += not mark and len(end[0]) > 1
    yield from _sentence(text, start, len(text), "", paragraph)


def _sentence(text: str, start: int, end: int, mark: str, paragraph: int) -> Iterator[Sentence]:
    bullet = _BULLET.match(text, start, end)
    start = bullet.end() if bullet else start
    while end > start and text[end - 1].isspace():
        end -= 1
    if start < end:
        yield Sentence(start, end, mark, paragraph)
