"""Sizes, durations, shares and ranges of time as people write them."""

from __future__ import annotations

import math
import os
import re
import unicodedata
from datetime import date, datetime, time, timedelta, tzinfo
from typing import Literal, NamedTuple

_SIZE_UNITS = {
    "": 1, "B": 1,
    "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40,
}  # fmt: skip
_DURATION_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_MOST_INT = 10**300  # beyond it float() has no answer
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")

_DAYS_BACK = {"today": 0, "yesterday": 1, "今天": 0, "今日": 0, "昨天": 1, "昨日": 1}
_LAST = re.compile(r"(?:last|past)\s+(.+)|(?:最近|过去|近)\s*(.+)")
_SPAN = re.compile(
    r"(\d+(?:\.\d+)?|[一二两三四五六七八九]?十[一二三四五六七八九]?|[一二两三四五六七八九半])?([a-z]+|[^\W\da-z一二两三四五六七八九十半]+)"
)
_SPAN_UNITS = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds", "秒", "秒钟"), 1.0),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes", "分", "分钟"), 60.0),
    **dict.fromkeys(("h", "hour", "hours", "小时", "个小时", "钟头", "个钟头"), 3600.0),
    **dict.fromkeys(("d", "day", "days", "天", "日"), 86_400.0),
    **dict.fromkeys(("w", "week", "weeks", "周", "星期", "个星期"), 604_800.0),
}
_HAN_DIGITS = {"半": 0.5, "两": 2.0} | {char: float(n) for n, char in enumerate("一二三四五六七八九", 1)}


def parse_size(value: object) -> int:
    """Bytes from `256MB`, `1.5 GiB`, `4096` or a share of this machine's memory, `5%`."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < _MOST_INT:
        number, unit = float(value), ""
    elif isinstance(value, str) and (m := re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*|%)\s*", value)):
        number, unit = float(m[1]), m[2].upper()
    else:
        raise ValueError(f"{value!r} is not a size: write for example 256MB, 1GiB or 5%")
    if unit == "%":
        if not 0 <= number <= 100:
            raise ValueError(f"{value!r} is not between 0% and 100%")
        return int(number / 100 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    if unit not in _SIZE_UNITS or not 0 <= number < math.inf:
        raise ValueError(f"{value!r} is not a size: write for example 256MB, 1GiB or 5%")
    return int(number * _SIZE_UNITS[unit])


def parse_size_or_auto(value: object) -> int | Literal["auto"]:
    """Like `parse_size`, or the word `auto`."""
    return "auto" if value == "auto" else parse_size(value)


def parse_ratio(value: object) -> float:
    """A share in 0–1 from `80%` or `0.8`."""
    ratio = math.nan
    if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < _MOST_INT:
        ratio = float(value)
    elif isinstance(value, str) and (m := re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(%?)\s*", value)):
        ratio = float(m[1]) / 100 if m[2] else float(m[1])
    if 0 <= ratio <= 1:
        return ratio
    raise ValueError(f"{value!r} is not a share: write for example 80% or 0.8")


def parse_duration(value: object) -> float:
    """Seconds from `24h`, `1h30m`, `500ms`, or a bare number of seconds."""
    seconds = math.nan
    if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < _MOST_INT:
        seconds = float(value)
    elif isinstance(value, str):
        text = value.replace(" ", "")
        if re.fullmatch(r"\d+(\.\d+)?", text):
            seconds = float(text)
        elif text and not _DURATION.sub("", text):
            seconds = sum(float(n) * _DURATION_UNITS[unit] for n, unit in _DURATION.findall(text))
    if 0 <= seconds < math.inf:
        return seconds
    raise ValueError(f"{value!r} is not a duration: write for example 500ms, 30s, 15m, 24h or 1h30m")


class TimeRange(NamedTuple):
    """From one moment to another, in unix seconds."""

    start_at: float
    end_at: float


def parse_time_range(text: str, now: float, zone: tzinfo | None = None) -> TimeRange:
    """A range from `last 1h`, `today`, `yesterday`, `2026-11-30T10:00/2026-11-30T12:00`, `最近1小时`, `今天` or `昨天`.

    An end that is a day only is the end of that day.

    Args:
        text: As a person writes it.
        now: Unix seconds.
        zone: Whose days and clocks are meant where the text does not say; this machine's where None.

    Raises:
        ValueError: it is none, it ends before it begins, or it is empty.
    """
    plain = unicodedata.normalize("NFKC", text).strip().casefold()
    if (back := _DAYS_BACK.get(plain)) is not None:
        day = datetime.fromtimestamp(now, zone).date() - timedelta(days=back)
        return TimeRange(_begin(day, zone), _begin(day + timedelta(days=1), zone) if back else now)
    if (m := _LAST.fullmatch(plain)) is not None:
        seconds = _span_s(m[1] or m[2])
        if 0 < seconds <= now:
            return TimeRange(now - seconds, now)
    elif "/" in plain:
        begin, _, end = plain.partition("/")
        try:
            found = TimeRange(_moment(begin, zone), _moment(end, zone, is_end=True))
        except (ValueError, OverflowError, OSError):
            raise _no_range(text) from None
        if found.start_at < found.end_at:
            return found
        raise ValueError(f"{text!r}: it ends before it begins")
    raise _no_range(text)


def _no_range(text: str) -> ValueError:
    return ValueError(
        f"{text!r} is not a time range: write for example last 15m, last 1h, last 7d, today, yesterday or "
        "2026-11-30T10:00/2026-11-30T12:00"
    )


def _span_s(text: str) -> float:
    """Seconds of `1h30m`, `15 minutes`, `hour`, `7天` or `半小时`; 0 where it is none."""
    compact = "".join(text.split())
    if _SPAN.sub("", compact):
        return 0.0
    seconds = 0.0
    for number, unit in _SPAN.findall(compact):
        seconds += _span_count(number) * _SPAN_UNITS.get(unit, math.nan)
    return seconds


def _span_count(text: str) -> float:
    """1 for nothing, 15 for `15` and `十五`."""
    if "十" in text:
        tens, ones = text.split("十")
        return 10 * _HAN_DIGITS.get(tens, 1.0) + _HAN_DIGITS.get(ones, 0.0)
    return _HAN_DIGITS.get(text) or float(text or 1)


def _moment(text: str, zone: tzinfo | None, *, is_end: bool = False) -> float:
    text = text.strip()
    if len(text) <= len("2026-11-30"):
        return _begin(date.fromisoformat(text) + timedelta(days=is_end), zone)
    found = datetime.fromisoformat(text.upper())
    return (found if found.tzinfo is not None else found.replace(tzinfo=zone)).timestamp()


def _begin(day: date, zone: tzinfo | None) -> float:
    return datetime.combine(day, time.min, zone).timestamp()


def human_size(num_bytes: int) -> str:
    """`256MB` for 256000000, `1GiB` for 2**30; plain bytes where no unit fits exactly."""
    for unit in ("TiB", "TB", "GiB", "GB", "MiB", "MB", "KiB", "KB"):
        if num_bytes and num_bytes % _SIZE_UNITS[unit.upper()] == 0:
            return f"{num_bytes // _SIZE_UNITS[unit.upper()]}{unit}"
    return f"{num_bytes}B"


def human_duration(seconds: float) -> str:
    """`24h` for 86400, `1h30m` for 5400, `50ms` for 0.05."""
    left_ms = round(seconds * 1000)
    parts = []
    for unit, unit_ms in (("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
        count, left_ms = divmod(left_ms, unit_ms)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def human_ratio(ratio: float) -> str:
    """`80%` for 0.8."""
    return f"{ratio * 100:.10g}%"
