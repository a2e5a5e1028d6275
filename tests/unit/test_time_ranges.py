"""Ranges of time as people write them, in English and Chinese."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from openclaw_cache.units import parse_time_range

NOW = datetime(2026, 11, 30, 15, 30, tzinfo=UTC).timestamp()
MINUTE, HOUR, DAY = 60, 3600, 86_400


def at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("last 15m", 15 * MINUTE), ("last 1h", HOUR), ("last 7d", 7 * DAY), ("last 1h30m", 90 * MINUTE),
        ("Last 15 minutes", 15 * MINUTE), ("last hour", HOUR), ("past 2 weeks", 14 * DAY), ("last 0.5h", 30 * MINUTE),
        ("最近1小时", HOUR), ("最近 15 分钟", 15 * MINUTE), ("最近7天", 7 * DAY), ("过去两周", 14 * DAY),
        ("近3天", 3 * DAY), ("最近半小时", 30 * MINUTE), ("最近一个小时", HOUR), ("最近十五分钟", 15 * MINUTE),
        ("最近二十四小时", DAY), ("最近１小时", HOUR), ("最近一小时三十分", 90 * MINUTE),
    ],
)  # fmt: skip
def test_the_last_of_something_ends_now(text: str, seconds: float) -> None:
    assert parse_time_range(text, NOW) == (NOW - seconds, NOW)


@pytest.mark.parametrize("text", ["today", "Today ", "今天", "今日"])
def test_today_began_at_midnight_and_ends_now(text: str) -> None:
    assert parse_time_range(text, NOW, UTC) == (at("2026-11-30T00:00Z"), NOW)
    shanghai = ZoneInfo("Asia/Shanghai")  # half past eleven in the evening there
    assert parse_time_range(text, NOW, shanghai) == (at("2026-11-30T00:00+08:00"), NOW)


@pytest.mark.parametrize("text", ["yesterday", "昨天", "昨日"])
def test_yesterday_is_a_whole_day_also_where_it_has_25_hours(text: str) -> None:
    assert parse_time_range(text, NOW, UTC) == (at("2026-11-29T00:00Z"), at("2026-11-30T00:00Z"))
    after = at("2026-10-26T09:00+01:00")  # summer time ended on 25 October 2026
    begin, end = parse_time_range(text, after, ZoneInfo("Europe/Berlin"))
    assert (begin, end) == (at("2026-10-25T00:00+02:00"), at("2026-10-26T00:00+01:00"))
    assert end - begin == 25 * HOUR


@pytest.mark.parametrize(
    ("text", "begin", "end"),
    [
        ("2026-11-30T10:00/2026-11-30T12:00", "2026-11-30T10:00Z", "2026-11-30T12:00Z"),
        ("2026-11-30T10:00Z/2026-11-30T20:00+08:00", "2026-11-30T10:00Z", "2026-11-30T12:00Z"),
        ("2026-11-30 10:00:30 / 2026-11-30 12:00", "2026-11-30T10:00:30Z", "2026-11-30T12:00Z"),
        ("2026-11-28/2026-11-29", "2026-11-28T00:00Z", "2026-11-30T00:00Z"),
    ],
)
def test_an_interval_has_its_own_zone_or_the_given_one_and_whole_days(
    text: str, begin: str, end: str
) -> None:
    assert parse_time_range(text, NOW, UTC) == (at(begin), at(end))


@pytest.mark.parametrize(
    "text",
    [
        "", "last", "last 5", "last 0m", "last x", "last 1e9h", "last 999999999d", "last -1h", "last 1h ago", "5m",
        "最近", "最近十十天", "tomorrow", "/", "a/b", "2026-11-30", "2026-11-31/2026-12-01", "1/2/3",
        "2026-11-30T12:00/2026-11-30T10:00", "2026-11-30T12:00/2026-11-30T12:00", "0001-01-01/9999-12-31",
        "2026-11-30T10:00Z/2026-11-30T17:00+08:00",
    ],
)  # fmt: skip
def test_anything_else_is_refused_and_repeated(text: str) -> None:
    with pytest.raises(ValueError, match=r"time range|ends before") as refused:
        parse_time_range(text, NOW, UTC)
    assert repr(text) in str(refused.value)
