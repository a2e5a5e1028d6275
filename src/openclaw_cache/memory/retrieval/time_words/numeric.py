"""Dates in digits, as both languages have them."""

from __future__ import annotations

from datetime import date
from typing import Final

from openclaw_cache.memory.retrieval.time_words.pattern import Pattern
from openclaw_cache.memory.retrieval.time_words.spans import Now, Span


def _day(now: Now, year: str, month: str, day: str) -> Span:
    found = date(int(year), int(month), int(day))
    return now.days(found, found)


NUMERIC: Final = [
    Pattern(
        r"(?<![\d.-])(\d{4})(?:[-/](?=\d{1,2}[-/])|\.(?=\d\d\.\d\d))(\d{1,2})[-/.](\d{1,2})"
        r"(?:[ T]\d{1,2}:\d{2}[\d:.]*(?:Z|[+-]\d{2}:?\d{2})?)?(?![\d-]|\.\d)",
        lambda now, found: _day(now, *found),
    ),
    Pattern(
        r"(?<![\d.-])((?:19|20)\d\d)-(0[1-9]|1[0-2])(?![\d-])",
        lambda now, found: now.month(int(found[0]), int(found[1])),
    ),
]
