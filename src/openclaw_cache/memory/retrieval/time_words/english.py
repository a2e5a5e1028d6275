"""Periods of time in English.

A name that may be something else ("may", "March on", "second", "Friday" in "Black Friday", a bare 2025) counts only
where a preposition or the like stands before it.
"""

from __future__ import annotations

import re
from datetime import date
from typing import Final

from openclaw_cache.memory.retrieval.time_words.numeric import NUMERIC
from openclaw_cache.memory.retrieval.time_words.pattern import Groups, Pattern, one_of
from openclaw_cache.memory.retrieval.time_words.spans import COUPLE, FEW, Now, Span, Unit
from openclaw_cache.semantic.words.listed import listed
from openclaw_cache.semantic.words.numerals import ENGLISH as NUMERALS
from openclaw_cache.semantic.words.numerals import ORDINALS

_MONTH_NAMES: Final = listed("jan feb mar apr may jun jul aug sep oct nov dec")
_MONTH: Final = (
    r"(january|jan\.?|february|feb\.?|(?-i:March|MARCH|Mar\.?)|april|apr\.?|(?-i:May|MAY)|june|jun\.?|july|jul\.?"
    r"|august|aug\.?|september|sept?\.?|october|oct\.?|november|nov\.?|december|dec\.?)"
)
_SURE_MONTH: Final = _MONTH.replace("|(?-i:May|MAY)", "")
_MONTH_IN_SMALL: Final = r"(may|march|mar)"
_DAY_NAMES: Final = listed("mon tue wed thu fri sat sun wee")
_DAY: Final = (
    r"(monday|mon|tuesday|tues?|wednesday|wed|thursday|thu(?:rs?)?|friday|fri|saturday|sat|sunday|sun"
    r"|weekend)"
)
_YEAR: Final = (
    r"((?:19[89]|20\d)\d)(?![\d%]|[.,]\d| ?(?:words|lines|tokens|people|users|dollars|euros|steps|items|rows|points"
    r"|times|requests|files|calls|usd|eur|ms|mb|gb|kb|px|km|kg|m|k)\b)"
)
_ORDINAL_WORDS: Final = {word: int(value) for word, value in ORDINALS.items() if 0 < value < 32} | {
    f"twenty-{word}": 20 + int(value) for word, value in ORDINALS.items() if 0 < value < 10
}
_DATE: Final = rf"(\d{{1,2}}|{'|'.join(sorted(_ORDINAL_WORDS, key=len, reverse=True))})"
_NUMBER: Final = rf"(\d{{1,3}}|an?|{'|'.join(NUMERALS)}|(?:a )?few|several|(?:a )?couple(?: of)?)"
_UNIT: Final = r"(minute|min|hour|day|night|week|fortnight|month|quarter|year)s?"
_ST: Final = r"(?:st|nd|rd|th)?"
_TO: Final = r"(?: (?:to|and|until|till|through) | ?[-–—] ?)"
_TIME_OF_DAY: Final = r"(?: (?:morning|afternoon|evening|night|noon))?"


def _month(name: str) -> int:
    return _MONTH_NAMES.index(name[:3]) + 1


def _weekday(name: str) -> int:
    return _DAY_NAMES.index(name[:3])


def _unit(name: str) -> tuple[Unit, int]:
    """The unit, and how many of it."""
    units: dict[str, tuple[Unit, int]] = {
        "min": ("minute", 1),
        "minute": ("minute", 1),
        "hour": ("hour", 1),
        "week": ("week", 1),
        "fortnight": ("week", 2),
        "month": ("month", 1),
        "quarter": ("quarter", 1),
        "year": ("year", 1),
    }
    return units.get(name, ("day", 1))


def _number(word: str) -> int:
    if word.isdigit():
        return int(word)
    if "few" in word or word == "several":
        return FEW
    if "couple" in word:
        return COUPLE
    return 1 if word in ("a", "an", "") else int(NUMERALS[word])


def _times(word: str, factor: int) -> int:
    number = _number(word)
    return number * factor if number > 0 else number


def _date(now: Now, day: str, month: str, year: str) -> Span:
    number = int(day) if day.isdigit() else _ORDINAL_WORDS[day]
    in_year = int(year) if year else now.last_year_with(_month(month), number)
    found = date(in_year, _month(month), number)
    return now.days(found, found)


def _whole_month(now: Now, part: str, month: str, year: str) -> Span:
    in_year = int(year) if year else now.year_of_month(_month(month))
    return _part(now, part, in_year, _month(month))


def _part(now: Now, part: str, year: int, month: int) -> Span:
    if part:
        return now.part_of_month(year, month, ["ear", "mid", "lat"].index(part[:3]))
    return now.month(year, month)


def _month_with_word(now: Now, word: str, month: str) -> Span:
    number = _month(month)
    if word == "last":
        passed = number < now.today.month
        return now.month(now.today.year - (not passed), number)
    ahead = word == "next" and number <= now.today.month
    return now.month(now.today.year + ahead, number)


def _weekday_with_word(now: Now, word: str, day: str) -> Span:
    if word == "this":
        return now.weekday(0, _weekday(day))
    if word in ("next", "coming"):
        return now.next_weekday(_weekday(day))
    return now.latest_weekday(_weekday(day), with_today=False)


def _weekday_of_week(now: Now, day: str, word: str) -> Span:
    return now.weekday({"last": -1, "previous": -1, "next": 1}.get(word, 0), _weekday(day))


def _period_with_word(now: Now, word: str, unit: str) -> Span:
    offsets = {"this": 0, "current": 0, "next": 1, "coming": 1}
    name, factor = _unit(unit)
    return now.period(name, offsets.get(word, -1) * factor)


def _relative(now: Now, word: str) -> Span:
    word = re.sub(r"\s+", " ", word)
    if "before" in word:
        return now.day(-2)
    if "after" in word:
        return now.day(2)
    first = word.split()[0]
    return now.day({"yesterday": -1, "tomorrow": 1, "last": -1}.get(first, 0))


def _quarter(now: Now, number: str, year: str) -> Span:
    numbers = {"first": 1, "second": 2, "third": 3, "fourth": 4, "last": 4}
    quarter = numbers.get(number) or int(number)
    first = quarter * 3 - 2
    return now.months(int(year) if year else now.year_of_month(first), first, 3)


def _dates(now: Now, first: str, last: str, month: str, year: str) -> Span:
    return Span(_date(now, first, month, year).since, _date(now, last, month, year).until)


def _months(now: Now, first: str, last: str, year: str) -> Span:
    """Months of one year, or over a turn of the year."""
    start, number = _month(first), (_month(last) - _month(first)) % 12 + 1
    turns = start + number > 13
    return now.months(int(year) - turns if year else now.year_of_month(start), start, number)


def _us_date(now: Now, found: Groups) -> Span:
    month, day, *year = found
    return _date(now, day, month, year[0] if year else "")


_RANGES: Final = [
    Pattern(
        rf"(?:\b(?:from|between) )?(?:the )?\b{_DATE}{_ST}{_TO}{_DATE}{_ST}(?: of)? {_MONTH}(?:,?(?: of)? {_YEAR})?",
        lambda now, found: _dates(now, *found),
    ),
    Pattern(
        rf"(?:\b(?:from|between) )?\b{_MONTH} {_DATE}{_ST}{_TO}{_DATE}{_ST}(?!:)\b(?:,? {_YEAR})?",
        lambda now, found: _dates(now, found[1], found[2], found[0], found[3]),
    ),
    Pattern(
        rf"\b(?:from|between) {_MONTH}{_TO}{_MONTH}(?! \d\d?\b)(?:,?(?: of)? {_YEAR})?",
        lambda now, found: _months(now, *found),
    ),
]
_ANYWHERE: Final = [
    *NUMERIC,
    Pattern(
        rf"(?:the )?\b{_DATE}{_ST}(?: of)? {_MONTH},?(?: of)? {_YEAR}",
        lambda now, found: _date(now, *found),
    ),
    Pattern(rf"\b{_MONTH} {_DATE}{_ST},? {_YEAR}", _us_date),
    Pattern(
        rf"(?:the )?\b{_DATE}{_ST}(?: of)? {_MONTH}\b", lambda now, found: _date(now, found[0], found[1], "")
    ),
    Pattern(rf"\b{_SURE_MONTH} {_DATE}{_ST}(?![\d:])\b", _us_date),
    Pattern(rf"\b{_MONTH} {_DATE}(?:st|nd|rd|th)\b", _us_date),
    Pattern(
        rf"\b(?:(early|mid|late)[ -])?{_MONTH},?(?: of)? {_YEAR}",
        lambda now, found: _whole_month(now, *found),
    ),
    Pattern(
        rf"\b(early|mid|late)[ -]{_MONTH}\b(?! \d)",
        lambda now, found: _whole_month(now, found[0], found[1], ""),
    ),
    Pattern(rf"\b(last|this|next) {_MONTH}\b(?! \d)", lambda now, found: _month_with_word(now, *found)),
    Pattern(
        rf"\b(?:on )?{_DAY}{_TIME_OF_DAY},? (?:of )?(last|previous|this|next) week\b",
        lambda now, found: _weekday_of_week(now, *found),
    ),
    Pattern(
        rf"\b(last|previous|this|next) week(?:'s)?,? (?:on )?{_DAY}{_TIME_OF_DAY}\b",
        lambda now, found: _weekday_of_week(now, found[1], found[0]),
    ),
    Pattern(
        rf"\b(last|previous|past|this|next|coming) {_DAY}{_TIME_OF_DAY}\b",
        lambda now, found: _weekday_with_word(now, *found),
    ),
    Pattern(
        r"\bthe (day|week|month|quarter|year) before (?:the )?last\b",
        lambda now, found: now.period(_unit(found[0])[0], -2),
    ),
    Pattern(
        r"\b(the day before yesterday|the day after tomorrow)\b", lambda now, found: _relative(now, *found)
    ),
    Pattern(r"\b(day before yesterday|day after tomorrow)\b", lambda now, found: _relative(now, *found)),
    Pattern(
        rf"\b(last night|tonight|this (?:morning|afternoon|evening)|(?:today|yesterday|tomorrow){_TIME_OF_DAY})\b",
        lambda now, found: _relative(now, *found),
    ),
    Pattern(r"\bhalf a year ago\b", lambda now, found: now.half_year_ago()),
    Pattern(
        r"\b(?:an? |the )?(minute|hour|day|week|fortnight|month|year) or (?:two|so) ago\b",
        lambda now, found: now.ago(COUPLE, _unit(found[0])[0]),
    ),
    Pattern(
        rf"\b{_NUMBER} {_UNIT} (?:ago|back)\b",
        lambda now, found: now.ago(_times(found[0], _unit(found[1])[1]), _unit(found[1])[0]),
    ),
    Pattern(
        rf"\b(?:the |this )?(?:last|past|previous) {_NUMBER} {_UNIT}\b",
        lambda now, found: now.last(_times(found[0], _unit(found[1])[1]), _unit(found[1])[0]),
    ),
    Pattern(
        r"\b(?:this|the) past (hour|week|fortnight|month|quarter|year)\b",
        lambda now, found: now.last(_unit(found[0])[1], _unit(found[0])[0]),
    ),
    Pattern(
        r"\b(?:the )?(last|past|previous|this|current|next|coming) (hour|week|fortnight|month|quarter|year)\b",
        lambda now, found: _period_with_word(now, *found),
    ),
    Pattern(
        rf"\b(?:the )?(?:q([1-4])|(first|second|third|fourth|last) quarter)(?: of)? {_YEAR}",
        lambda now, found: _quarter(now, found[0] or found[1], found[2]),
    ),
]

_AFTER_A_PREPOSITION: Final = [
    Pattern(rf"{_MONTH} {_DATE}\b(?!:)", _us_date),
    Pattern(
        rf"(?:(early|mid|late)[ -])?{_MONTH}\b(?! \d)",
        lambda now, found: _whole_month(now, found[0], found[1], ""),
    ),
    Pattern(rf"{_YEAR}", lambda now, found: now.months(int(found[0]), 1, 12)),
    Pattern(
        rf"{_DAY}{_TIME_OF_DAY}\b",
        lambda now, found: now.latest_weekday(_weekday(found[0]), with_today=True),
    ),
    Pattern(
        r"(?:the )?(?:q([1-4])|(first|second|third|fourth) quarter)\b",
        lambda now, found: _quarter(now, found[0] or found[1], ""),
    ),
]

_IN: Final = [
    Pattern(rf"\bin {_MONTH_IN_SMALL}\b(?! \d)", lambda now, found: _whole_month(now, "", found[0], "")),
]


PERIODS: Final = [*_RANGES, *_ANYWHERE, *_AFTER_A_PREPOSITION, *_IN]
_ANY: Final = one_of([*_ANYWHERE, *_AFTER_A_PREPOSITION])

RANGES: Final = (rf"({one_of(_RANGES)})",)
"""Expressions for a beginning and an end that share a year or a month."""
BETWEEN: Final = (
    rf"\bbetween ({_ANY}) and ({_ANY})",
    rf"\bfrom ({_ANY}) (?:to|until|till|through|up to) ({_ANY})",
    rf"({one_of(_ANYWHERE)}) ?(?:[-–—]|to|until|till|through) ?({_ANY})",
)
"""Expressions for a beginning and an end."""
SINCE: Final = (
    rf"\b(?:ever )?since ({_ANY})",
    rf"\b(?:starting|beginning|from) (?:from |on |in )?({_ANY}) (?:on|onwards?)\b",
)
AFTER: Final = (rf"\bafter ({_ANY})",)
BEFORE: Final = (rf"\b(?:before|prior to|earlier than) ({_ANY})",)
UNTIL: Final = (rf"\b(?:until|till|up to|as of) ({_ANY})",)
WITHIN: Final = (
    rf"\b(?:back in|earlier in|earlier|later|sometime|some time|in|during|within|over|on|of|throughout|from|for)"
    rf" ((?:{_ANY}))",
    rf"({one_of([*_IN, *_ANYWHERE])})",
)
"""Expressions for one period, the first with what stands before it."""
