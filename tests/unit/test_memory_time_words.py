"""Times that questions name. Every day here was read off a calendar: 30 November 2026 is a Monday."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

import pytest

from openclaw_cache.memory.retrieval.time_words import TimeRange, find_range

NOW = datetime(2026, 11, 30, 9, 45, tzinfo=UTC)


def found(text: str, now: datetime = NOW, tz: tzinfo = UTC) -> TimeRange | None:
    return find_range(text, now.timestamp(), tz)


def days(text: str, now: datetime = NOW, tz: tzinfo = UTC) -> tuple[str | None, str | None] | None:
    """First day, and the day after the last one."""
    span = found(text, now, tz)
    if span is None:
        return None
    ends = (span.since, span.until)
    shown = [None if end is None else datetime.fromtimestamp(end, tz) for end in ends]
    assert all(end is None or (end.hour, end.minute, end.second) == (0, 0, 0) for end in shown)
    return tuple(None if end is None else end.date().isoformat() for end in shown)  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("text", "first", "after"),
    [
        ("today", "2026-11-30", "2026-12-01"),
        ("what did we say yesterday evening?", "2026-11-29", "2026-11-30"),
        ("last night", "2026-11-29", "2026-11-30"),
        ("the day before yesterday", "2026-11-28", "2026-11-29"),
        ("tomorrow", "2026-12-01", "2026-12-02"),
        ("what did we decide last week", "2026-11-23", "2026-11-30"),
        ("this week", "2026-11-30", "2026-12-07"),
        ("the week before last", "2026-11-16", "2026-11-23"),
        ("this month", "2026-11-01", "2026-12-01"),
        ("last month", "2026-10-01", "2026-11-01"),
        ("last quarter", "2026-07-01", "2026-10-01"),
        ("last year", "2025-01-01", "2026-01-01"),
        ("last Tuesday", "2026-11-24", "2026-11-25"),
        ("last Monday", "2026-11-23", "2026-11-24"),  # not today, which is one
        ("on Monday", "2026-11-30", "2026-12-01"),
        ("on Tuesday", "2026-11-24", "2026-11-25"),
        ("Tuesday last week", "2026-11-24", "2026-11-25"),
        ("last weekend", "2026-11-28", "2026-11-30"),
        ("next Friday", "2026-12-04", "2026-12-05"),
        ("three days ago", "2026-11-27", "2026-11-28"),
        ("a week ago", "2026-11-23", "2026-11-30"),
        ("two weeks ago", "2026-11-16", "2026-11-23"),
        ("2 months ago", "2026-09-01", "2026-10-01"),
        ("half a year ago", "2026-04-01", "2026-07-01"),
        ("three years ago", "2023-01-01", "2024-01-01"),
        ("a few days ago", "2026-11-23", "2026-11-29"),
        ("in March", "2026-03-01", "2026-04-01"),
        ("in may we moved", "2026-05-01", "2026-06-01"),
        ("in December", "2025-12-01", "2026-01-01"),  # this year's is to come
        ("in March 2024", "2024-03-01", "2024-04-01"),
        ("early March", "2026-03-01", "2026-03-11"),
        ("late October 2025", "2025-10-21", "2025-11-01"),
        ("in 2025", "2025-01-01", "2026-01-01"),
        ("Q3 2025", "2025-07-01", "2025-10-01"),
        ("on 3 March", "2026-03-03", "2026-03-04"),
        ("on March 3rd, 2025", "2025-03-03", "2025-03-04"),
        ("on the third of May", "2026-05-03", "2026-05-04"),
        ("2026-11-03", "2026-11-03", "2026-11-04"),
        ("2026-11", "2026-11-01", "2026-12-01"),
        ("in the last two weeks", "2026-11-16", "2026-12-01"),
        ("over the past 3 months", "2026-08-30", "2026-12-01"),
        ("between 3 and 5 March", "2026-03-03", "2026-03-06"),
        ("from 2026-11-03 to 2026-11-05", "2026-11-03", "2026-11-06"),
        ("between March and May 2025", "2025-03-01", "2025-06-01"),
        ("from March to May 2027", "2027-03-01", "2027-06-01"),
        ("from November 2025 to January 2026", "2025-11-01", "2026-02-01"),
        ("between November and February 2026", "2025-11-01", "2026-03-01"),
        ("since last Monday", "2026-11-23", None),
        ("since 2025", "2025-01-01", None),
        ("after 3 November", "2026-11-04", None),
        ("before 2025", None, "2025-01-01"),
        ("until yesterday", None, "2026-11-30"),
    ],
)
def test_english(text: str, first: str | None, after: str | None) -> None:
    assert days(text) == (first, after)


@pytest.mark.parametrize(
    ("text", "first", "after"),
    [
        ("我们今天做了什么", "2026-11-30", "2026-12-01"),
        ("昨天下午", "2026-11-29", "2026-11-30"),
        ("前天", "2026-11-28", "2026-11-29"),
        ("大前天", "2026-11-27", "2026-11-28"),
        ("后天", "2026-12-02", "2026-12-03"),
        ("上周决定了什么", "2026-11-23", "2026-11-30"),
        ("上上周", "2026-11-16", "2026-11-23"),
        ("本周", "2026-11-30", "2026-12-07"),
        ("上周三", "2026-11-25", "2026-11-26"),
        ("上個禮拜三", "2026-11-25", "2026-11-26"),
        ("周二", "2026-11-24", "2026-11-25"),
        ("星期天", "2026-11-29", "2026-11-30"),
        ("下周五", "2026-12-11", "2026-12-12"),
        ("上周末", "2026-11-28", "2026-11-30"),
        ("这个月", "2026-11-01", "2026-12-01"),
        ("上个月", "2026-10-01", "2026-11-01"),
        ("上个月底", "2026-10-21", "2026-11-01"),
        ("本月15号", "2026-11-15", "2026-11-16"),
        ("三天前", "2026-11-27", "2026-11-28"),
        ("３天之前", "2026-11-27", "2026-11-28"),
        ("两周前", "2026-11-16", "2026-11-23"),
        ("十二个月前", "2025-11-01", "2025-12-01"),
        ("半年前", "2026-04-01", "2026-07-01"),
        ("去年", "2025-01-01", "2026-01-01"),
        ("前年八月五号", "2024-08-05", "2024-08-06"),
        ("去年3月", "2025-03-01", "2025-04-01"),
        ("3月", "2026-03-01", "2026-04-01"),
        ("十二月", "2025-12-01", "2026-01-01"),
        ("11月3日", "2026-11-03", "2026-11-04"),
        ("2026年11月3日", "2026-11-03", "2026-11-04"),
        ("二〇二五年", "2025-01-01", "2026-01-01"),
        ("第三季度", "2026-07-01", "2026-10-01"),
        ("最近两周", "2026-11-16", "2026-12-01"),
        ("过去半年", "2026-05-30", "2026-12-01"),
        ("11月3日到5日", "2026-11-03", "2026-11-06"),
        ("2025年3月到5月", "2025-03-01", "2025-06-01"),
        ("去年11月到2月", "2025-11-01", "2026-03-01"),
        ("上周一到上周五", "2026-11-23", "2026-11-28"),
        ("在3月1日和3月9日之间", "2026-03-01", "2026-03-10"),
        ("2025年以来", "2025-01-01", None),
        ("自从去年", "2025-01-01", None),
        ("3月之后", "2026-04-01", None),
        ("上周之前", None, "2026-11-23"),
        ("截至昨天", None, "2026-11-30"),
    ],
)
def test_chinese(text: str, first: str | None, after: str | None) -> None:
    assert days(text) == (first, after)


@pytest.mark.parametrize(
    "text",
    [
        "May I ask a question?",
        "before may I go",
        "option 3 may fail",
        "we march on",
        "march 3 miles",
        "give me a second",
        "the second thing",
        "Black Friday deals",
        "a Sunday roast",
        "write 2000 words",
        "before 2025 tokens are used",
        "version 2025.1.3",
        "port 8080",
        "31 February",
        "2026-02-30",
        "sun and wed",
        "目前天气怎么样",
        "然后天气变了",
        "一周一次",
        "每周二开会",
        "3号楼在哪",
        "1个月",
        "早上周到的服务",
        "",
    ],
)
def test_words_that_only_look_like_a_time_are_none(text: str) -> None:
    assert found(text) is None


def test_the_phrase_and_the_rest_are_as_they_were_written() -> None:
    span = found("What did Anna decide  Last Week about the 資料庫?")

    assert span is not None
    assert (span.phrase, span.rest) == ("Last Week", "What did Anna decide about the 資料庫?")


def test_of_several_times_the_first_is_meant() -> None:
    assert days("yesterday you said it was due last year") == ("2026-11-29", "2026-11-30")


def test_a_time_that_is_none_does_not_hide_the_next() -> None:
    assert days("not on 31 February but last week") == ("2026-11-23", "2026-11-30")


@pytest.mark.parametrize(
    ("text", "now", "first", "after"),
    [
        ("yesterday", datetime(2027, 1, 1, 8, tzinfo=UTC), "2026-12-31", "2027-01-01"),
        ("last month", datetime(2027, 1, 15, tzinfo=UTC), "2026-12-01", "2027-01-01"),
        ("last week", datetime(2027, 1, 3, 23, 59, tzinfo=UTC), "2026-12-21", "2026-12-28"),  # ISO week 53
        ("last week", datetime(2027, 1, 4, tzinfo=UTC), "2026-12-28", "2027-01-04"),
        ("上个季度", datetime(2027, 2, 1, tzinfo=UTC), "2026-10-01", "2027-01-01"),
        ("yesterday", datetime(2028, 3, 1, 8, tzinfo=UTC), "2028-02-29", "2028-03-01"),
        ("on 29 February 2028", datetime(2028, 12, 1, tzinfo=UTC), "2028-02-29", "2028-03-01"),
        ("in the last month", datetime(2028, 3, 31, tzinfo=UTC), "2028-02-01", "2028-03-01"),
        ("past 1 month", datetime(2028, 3, 31, 8, tzinfo=UTC), "2028-02-29", "2028-04-01"),
        ("past 1 year", datetime(2028, 2, 29, 8, tzinfo=UTC), "2027-02-28", "2028-03-01"),
    ],
)
def test_ends_of_years_and_months_and_leap_days(text: str, now: datetime, first: str, after: str) -> None:
    assert days(text, now) == (first, after)


def test_a_day_is_that_of_the_users_zone() -> None:
    late = datetime(2026, 11, 30, 23, 30, tzinfo=UTC)  # in Shanghai it is 07:30 on 1 December

    span = found("昨天", late, ZoneInfo("Asia/Shanghai"))

    assert span is not None
    assert span.since == datetime(2026, 11, 29, 16, 0, tzinfo=UTC).timestamp()
    assert span.until == datetime(2026, 11, 30, 16, 0, tzinfo=UTC).timestamp()


def test_a_day_on_which_clocks_change_has_23_or_25_hours() -> None:
    berlin = ZoneInfo("Europe/Berlin")

    spring = found("yesterday", datetime(2026, 3, 30, 9, tzinfo=berlin), berlin)
    autumn = found("yesterday", datetime(2026, 10, 26, 9, tzinfo=berlin), berlin)

    assert _seconds(spring) == 23 * 3600
    assert _seconds(autumn) == 25 * 3600


def _seconds(span: TimeRange | None) -> float:
    assert span is not None
    assert span.since is not None
    assert span.until is not None
    return span.until - span.since


def test_hours_count_by_the_clock_that_never_changes() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    now = datetime(2026, 10, 25, 4, 0, tzinfo=berlin)  # clocks went back an hour ago, at 3

    span = found("2 hours ago", now, berlin)

    assert span is not None
    assert span.since == now.timestamp() - 3 * 3600
    assert span.until == now.timestamp() - 3600


def test_the_last_hours_end_now() -> None:
    span = found("最近3小时")

    assert span is not None
    assert (span.since, span.until) == (NOW.timestamp() - 3 * 3600, NOW.timestamp())
