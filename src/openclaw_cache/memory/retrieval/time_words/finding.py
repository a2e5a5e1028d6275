"""Which words of a question say when."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import tzinfo
from typing import Final

from openclaw_cache.memory.retrieval.time_words import chinese, english
from openclaw_cache.memory.retrieval.time_words.pattern import Reader
from openclaw_cache.memory.retrieval.time_words.spans import Now, Span
from openclaw_cache.semantic.words.traditional import SIMPLIFIED

_MAX_CHARS: Final = 1_000
"""A question's first characters are looked through: what is longer is no question."""
_ONE_FORM: Final = (
    SIMPLIFIED
    | {0xFF10 + digit: ord("0") + digit for digit in range(10)}
    | dict.fromkeys(map(ord, "\t\n\r\u00a0\u3000"), " ")
)
"""Character for character, so that places in the text stay."""

Join = Callable[[list[Span]], Span]


@dataclass(frozen=True, slots=True)
class TimeRange:
    """A time that a text asks about: from `since` until just before `until`, in Unix s; None = without that end."""

    since: float | None
    until: float | None
    phrase: str
    """The words that say so."""
    rest: str
    """The text without them."""


def find_range(text: str, now: float, tz: tzinfo) -> TimeRange | None:
    """The time that an English or Chinese text names, the first if there are several; None where it names none.

    A day without its year is the last such day; a bare "Monday" the last Monday, today counted. Weeks begin on Monday.
    """
    head = text[:_MAX_CHARS].translate(_ONE_FORM)
    moment = Now(now, tz)
    best: tuple[int, int, Span] | None = None
    for regex, reader, join in _RULES:
        for match in regex.finditer(head):
            if best is not None and match.start() >= best[0]:
                break  # of what begins at one place, the rule that stands first holds
            span = _span(match.groups(), reader, join, moment)
            if span is not None:
                best = (match.start(), match.end(), span)
                break
    if best is None:
        return None
    start, end, span = best
    rest = " ".join(f"{text[:start]} {text[end:]}".split())
    return TimeRange(span.since, span.until, text[start:end].strip(), rest)


def _span(phrases: tuple[str, ...], reader: Reader, join: Join, now: Now) -> Span | None:
    spans = [reader.span(phrase, now) for phrase in phrases]
    known = [span for span in spans if span is not None]
    if len(known) < len(spans):
        return None
    span = join(known)
    return None if span.since is not None and span.until is not None and span.since >= span.until else span


def _from_to(spans: list[Span]) -> Span:
    return Span(spans[0].since, spans[1].until)


def _since(spans: list[Span]) -> Span:
    return Span(spans[0].since, None)


def _after(spans: list[Span]) -> Span:
    return Span(spans[0].until, None)


def _before(spans: list[Span]) -> Span:
    return Span(None, spans[0].since)


def _until(spans: list[Span]) -> Span:
    return Span(None, spans[0].until)


def _within(spans: list[Span]) -> Span:
    return spans[0]


def _rules() -> list[tuple[re.Pattern[str], Reader, Join]]:
    kinds: tuple[tuple[str, Join], ...] = (
        ("RANGES", _within),
        ("BETWEEN", _from_to),
        ("SINCE", _since),
        ("AFTER", _after),
        ("BEFORE", _before),
        ("UNTIL", _until),
        ("WITHIN", _within),
    )
    found: list[tuple[re.Pattern[str], Reader, Join]] = []
    for language in (english, chinese):
        reader = Reader(language.PERIODS)
        for kind, join in kinds:
            found += [(re.compile(regex, re.IGNORECASE), reader, join) for regex in getattr(language, kind)]
    return found


_RULES: Final = _rules()
