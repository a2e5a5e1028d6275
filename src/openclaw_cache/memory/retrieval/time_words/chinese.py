"""Periods of time in Chinese, in simplified characters."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Final

from openclaw_cache.memory.retrieval.time_words.numeric import NUMERIC
from openclaw_cache.memory.retrieval.time_words.pattern import Pattern, one_of
from openclaw_cache.memory.retrieval.time_words.spans import COUPLE, FEW, Now, Span, Unit
from openclaw_cache.semantic.words.numerals import han_number

_YEARS: Final = {
    "大前年": -3,
    "前年": -2,
    "去年": -1,
    "上一年": -1,
    "今年": 0,
    "本年": 0,
    "明年": 1,
    "后年": 2,
}
_YEAR: Final = rf"(?:((?:19|20)\d\d|[一二][零〇一二三四五六七八九]{{3}})年|({'|'.join(_YEARS)}))"
_MONTH: Final = r"(?<![\d个十])(1[0-2]|0?[1-9]|十[一二]?|[一二三四五六七八九])月份?"
_DAY_NUMBER: Final = r"([12]\d|3[01]|0?[1-9]|[一二三]?十[一二三四五六七八九]?|[一二三四五六七八九])"
_DAY: Final = rf"(?:{_DAY_NUMBER}[日号](?![线楼门机码]))"
_PART: Final = r"(初|上旬|中旬|底|末|下旬)?"
_TO: Final = r"(?:到|至|~|～|—+|–|-)"
_WEEK: Final = r"(?:周|星期|礼拜)"
_WEEKDAY: Final = r"([一二三四五六日天末])(?![次个])"
_TIME_OF_DAY: Final = r"(?:一?大?早上?|凌晨|清晨|上午|中午|下午|傍晚|晚上|晚|夜里|夜)?"
_NUMBER: Final = r"(?<![\d第一二三四五六七八九十])(\d{1,3}|[一二两三四五六七八九十]{1,3}|半|好?几|数)"
_UNIT: Final = r"(分钟|个?小时|个?钟头|天|日|个?星期|个?礼拜|周|个?月|个?季度|年)"
_DAYS: Final = {"大前": -3, "前": -2, "昨": -1, "今": 0, "明": 1, "后": 2, "大后": 3}
_OFFSETS: Final = {"上上": -2, "上": -1, "本": 0, "这": 0, "当": 0, "下": 1, "下下": 2}


def _offset(word: str) -> int:
    return _OFFSETS[word.rstrip("一个")]


def _weekday(character: str) -> int:
    return "一二三四五六日末".index(character.replace("天", "日"))


def _year(now: Now, digits: str, word: str) -> int | None:
    if word:
        return now.today.year + _YEARS[word]
    if digits:
        return int(digits) if digits.isdigit() and digits.isascii() else int(han_number(digits))
    return None


def _number(text: str) -> int:
    if text.isascii():
        return int(text)
    return FEW if text in ("几", "好几", "数") else int(han_number(text))


def _date(now: Now, digits: str, word: str, month: str, day: str) -> Span:
    return _dates(now, digits, word, month, day, day)


def _dates(now: Now, digits: str, word: str, month: str, first: str, last: str) -> Span:
    in_month, days = _number(month), (_number(first), _number(last))
    year = _year(now, digits, word) or now.last_year_with(in_month, days[0])
    return now.days(date(year, in_month, days[0]), date(year, in_month, days[1]))


def _month(now: Now, digits: str, word: str, month: str, part: str) -> Span:
    year = _year(now, digits, word) or now.year_of_month(_number(month))
    return _part(now, year, _number(month), part)


def _months(now: Now, digits: str, word: str, first: str, last: str) -> Span:
    year = _year(now, digits, word) or now.year_of_month(_number(first))
    number = (_number(last) - _number(first)) % 12 + 1
    return now.months(year, _number(first), number)


def _part(now: Now, year: int, month: int, part: str) -> Span:
    parts = {"初": 0, "上旬": 0, "中旬": 1, "底": 2, "末": 2, "下旬": 2}
    return now.part_of_month(year, month, parts[part]) if part else now.month(year, month)


def _month_with_word(now: Now, word: str, day: str, part: str) -> Span:
    since = now.period("month", _offset(word)).since
    first = date.fromtimestamp(0) if since is None else Now(since, now.tz).today
    if day:
        found = first.replace(day=_number(day))
        return now.days(found, found)
    return _part(now, first.year, first.month, part)


def _whole_year(now: Now, digits: str, word: str, part: str) -> Span:
    year = _year(now, digits, word) or now.today.year
    first, number = {"初": (1, 2), "中": (6, 2), "底": (11, 2), "末": (11, 2)}.get(part, (1, 12))
    return now.months(year, first, number)


def _quarter(now: Now, digits: str, word: str, number: str) -> Span:
    first = _number(number) * 3 - 2
    return now.months(_year(now, digits, word) or now.year_of_month(first), first, 3)


def _units(number: str, name: str) -> tuple[int, Unit]:
    """How many, and of what; half of a unit in whole smaller ones."""
    names: dict[str, Unit] = {
        "分钟": "minute",
        "小时": "hour",
        "钟头": "hour",
        "天": "day",
        "日": "day",
        "星期": "week",
        "礼拜": "week",
        "周": "week",
        "月": "month",
        "季度": "quarter",
        "年": "year",
    }
    unit = names[name.removeprefix("个")]
    halves: dict[Unit, tuple[int, Unit]] = {
        "hour": (30, "minute"),
        "day": (12, "hour"),
        "month": (15, "day"),
        "year": (6, "month"),
    }
    return halves.get(unit, (1, unit)) if number == "半" else (_number(number), unit)


def _ago(now: Now, number: str, name: str) -> Span:
    if number == "半" and name == "年":
        return now.half_year_ago()
    if number == "半" and name.endswith("月"):
        return now.days(now.today - timedelta(days=20), now.today - timedelta(days=10))
    return now.ago(*_units(number, name))


def _period(now: Now, word: str, name: str) -> Span:
    return now.period(_units("1", name)[1], _offset(word))


_OFFSET: Final = r"(上上个?|上一?个?|本|这一?个?|下下个?|下一?个?)"

_RANGES: Final = [
    Pattern(rf"{_YEAR}?的?{_MONTH}{_DAY_NUMBER}[日号]?{_TO}{_DAY}", lambda now, found: _dates(now, *found)),
    Pattern(
        rf"{_YEAR}?的?{_MONTH}{_TO}{_MONTH}(?![\d一二三四五六七八九十])",
        lambda now, found: _months(now, *found),
    ),
]
PERIODS: Final = [
    *_RANGES,
    *NUMERIC,
    Pattern(rf"{_YEAR}?的?{_MONTH}{_DAY}{_TIME_OF_DAY}", lambda now, found: _date(now, *found)),
    Pattern(rf"{_YEAR}?的?{_MONTH}{_PART}", lambda now, found: _month(now, *found)),
    Pattern(
        rf"{_YEAR}?的?(?:第?([一二三四1-4])季度|q([1-4]))(?![a-z\d])",
        lambda now, found: _quarter(now, found[0], found[1], found[2] or found[3]),
    ),
    Pattern(rf"{_YEAR}(?:年?(初|中|底|末)|全年|度)?(?!货)", lambda now, found: _whole_year(now, *found)),
    Pattern(r"(?<![今去前明后每\d])年(初|底|末)", lambda now, found: _whole_year(now, "", "", *found)),
    Pattern(
        rf"{_OFFSET}{_WEEK}{_WEEKDAY}{_TIME_OF_DAY}",
        lambda now, found: now.weekday(_offset(found[0]), _weekday(found[1])),
    ),
    Pattern(
        rf"(?<![每一两二三四五六七八九十几\d]){_WEEK}{_WEEKDAY}{_TIME_OF_DAY}",
        lambda now, found: now.latest_weekday(_weekday(found[0]), with_today=True),
    ),
    Pattern(
        rf"(?<![早晚]){_OFFSET.replace('本', '本|当')}月{_DAY}?{_PART}",
        lambda now, found: _month_with_word(now, *found),
    ),
    Pattern(rf"(?<![早晚]){_OFFSET}(周|星期|礼拜|季度)", lambda now, found: _period(now, *found)),
    Pattern(
        rf"(?<![目以之从提然今最])(大前|前|昨|今|明|后|大后)(?:天|日)(?![气空花]){_TIME_OF_DAY}",
        lambda now, found: now.day(_DAYS[found[0]]),
    ),
    Pattern(r"(昨|今|明|前)(?:晚上?|夜|早)", lambda now, found: now.day(_DAYS[found[0]])),
    Pattern(rf"{_NUMBER}多?{_UNIT}(?:之|以)?前", lambda now, found: _ago(now, *found)),
    Pattern(r"前几天|前些天|前些日子", lambda now, found: now.last(10, "day")),
    Pattern(r"前一?阵子?|前一?段时间|不久(?:之|以)?前", lambda now, found: now.last(3, "month")),
    Pattern(r"前两天", lambda now, found: now.ago(COUPLE, "day")),
    Pattern(
        rf"(?<![附远接])(?:最近|近|过去|这)的?(?<!第)(\d{{1,3}}|[一二两三四五六七八九十]{{1,3}}|半|好?几|数)"
        rf"{_UNIT}(?:以来|来|以内|之内|内|里)?",
        lambda now, found: now.last(*_units(*found)),
    ),
    Pattern(rf"{_NUMBER}{_UNIT}(?:以内|之内|内)", lambda now, found: now.last(*_units(*found))),
]
_ANY: Final = one_of(PERIODS)

RANGES: Final = (rf"({one_of(_RANGES)})",)
"""Expressions for a beginning and an end that share a year or a month."""
BETWEEN: Final = (
    rf"(?:从|自|在)?({_ANY}){_TO}({_ANY})(?:之间|期间|为止)?",
    rf"(?:从|在)?({_ANY})[和与跟]({_ANY})之间",
)
"""Expressions for a beginning and an end."""
SINCE: Final = (rf"(?:自从|自|从)?({_ANY})(?:以来|起|开始|至今|到现在)", rf"自从?({_ANY})")
AFTER: Final = (rf"({_ANY})(?:之后|以后)",)
BEFORE: Final = (rf"({_ANY})(?:之前|以前)",)
UNTIL: Final = (rf"(?:截至|截止到?|直到)({_ANY})(?:为止)?", rf"到({_ANY})为止")
WITHIN: Final = (rf"({_ANY})",)
"""Expressions for one period."""
