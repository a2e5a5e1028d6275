"""Minutes, hours and days of UTC: which of them are a time, and which are still kept."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from openclaw_cache.history.buckets import (
    DAY_S,
    DAYS,
    HOUR_S,
    HOURS,
    MINUTE_S,
    MINUTES,
    Bucket,
    cover,
    points,
    step_s,
)

NOW = datetime(2026, 11, 30, 12, 34, 56, tzinfo=UTC).timestamp()


def at(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


def spelt(start: str, end: str) -> list[str]:
    """`m 12:30` and the like, of a cover."""
    found = cover(at(start), at(end), NOW)
    return [
        f"{b.resolution.letter.decode()} {datetime.fromtimestamp(b.start_at, UTC):%d %H:%M}" for b in found
    ]


def test_a_time_is_minutes_and_hours_at_its_edges_and_days_inside() -> None:
    assert spelt("2026-11-29T22:58:30", "2026-11-30T01:02:00") == [
        "m 29 22:58", "m 29 22:59", "h 29 23:00", "h 30 00:00", "m 30 01:00", "m 30 01:01",
    ]  # fmt: skip
    assert spelt("2026-11-26T23:00:00", "2026-11-29T01:00:00") == [
        "h 26 23:00", "d 27 00:00", "d 28 00:00", "h 29 00:00",
    ]  # fmt: skip


def test_a_time_until_now_ends_with_the_widest_bucket_that_now_lies_in() -> None:
    assert spelt("2026-11-30T00:00:00", "2026-11-30T12:34:56") == ["d 30 00:00"]
    assert spelt("2026-11-30T11:58:00", "2026-11-30T12:34:56") == ["m 30 11:58", "m 30 11:59", "h 30 12:00"]
    assert spelt("2026-11-30T12:34:00", "2027-01-01T00:00:00") == ["m 30 12:34"]


def test_minutes_are_kept_for_25_hours_by_whole_hours_and_older_times_are_widened() -> None:
    # The hour from 11:00 began 25 h 34 min ago, the one from 12:00 less than 25 h.
    assert spelt("2026-11-29T11:58:00", "2026-11-29T12:02:00") == ["h 29 11:00", "m 29 12:00", "m 29 12:01"]
    assert spelt("2026-11-29T10:20:00", "2026-11-29T10:40:00") == ["h 29 10:00"]


def test_hours_are_kept_for_35_days_by_whole_days_and_older_times_are_widened() -> None:
    # 2026-10-26 began 35 days and 12 h ago, 2026-10-27 34 days and 12 h.
    assert spelt("2026-10-26T22:00:00", "2026-10-27T01:00:00") == ["d 26 00:00", "h 27 00:00"]


def test_a_time_to_come_or_without_length_has_nothing() -> None:
    assert spelt("2026-11-30T13:00:00", "2026-11-30T14:00:00") == []
    assert spelt("2026-11-30T11:00:00", "2026-11-30T11:00:00") == []


def test_an_hour_of_points_is_sixty_minutes_the_last_of_them_the_present_one() -> None:
    found = points(NOW - 3600, NOW, 60, NOW)
    assert len(found) == 60
    assert found[-1] == (at("2026-11-30T12:34:00"), at("2026-11-30T12:35:00"))
    assert all(end - start == MINUTE_S for start, end in found)


@pytest.mark.parametrize(
    ("span_s", "num_points", "step"),
    [
        (900, 60, 60),
        (3600, 60, 60),
        (3600, 10, 600),
        (6 * HOUR_S, 60, 600),
        (DAY_S, 60, 1800),
        (2 * DAY_S, 60, HOUR_S),  # begins before the minutes that are kept
        (30 * DAY_S, 60, 12 * HOUR_S),
        (35 * DAY_S, 1000, DAY_S),
        (300 * DAY_S, 60, 5 * DAY_S),
        (3600, 1, 3600),
    ],
)
def test_points_are_as_wide_as_a_round_step_that_what_is_kept_has(
    span_s: int, num_points: int, step: int
) -> None:
    assert step_s(NOW - span_s, NOW, num_points, NOW) == step
    found = points(NOW - span_s, NOW, num_points, NOW)
    assert len(found) <= num_points
    assert all(start % step == 0 and end - start == step for start, end in found)
    assert [end for _, end in found[:-1]] == [start for start, _ in found[1:]]
    assert found[-1][0] <= NOW < found[-1][1]


def test_a_moment_lies_in_its_minute_hour_and_day_of_utc_whatever_the_machines_zone() -> None:
    moment = at("2026-11-30T23:59:59")
    assert Bucket.of(MINUTES, moment + 0.999).start_at == at("2026-11-30T23:59:00")
    assert Bucket.of(HOURS, moment).start_at == at("2026-11-30T23:00:00")
    assert Bucket.of(DAYS, moment).end_at == at("2026-12-01T00:00:00")
    assert Bucket.of(DAYS, moment + 1).start_at == at("2026-12-01T00:00:00")


def test_a_key_tells_resolution_gateway_and_beginning() -> None:
    assert Bucket(HOURS, 7200).key("ab" * 8) == b"h:h:abababababababab:7200"


def test_the_name_of_a_buckets_place_tells_which_it_is_and_nothing_else_does() -> None:
    for resolution in (MINUTES, HOURS, DAYS):
        bucket = Bucket.of(resolution, NOW)
        assert Bucket.named(bucket.key("0123456789abcdef")) == bucket
    others = (
        b"h:t",
        b"h:s:m",
        b"h:n:20787:0",
        b"h:m:0123456789abcdef:",
        b"h:w:0123456789abcdef:60",
        b"r:",
        b"",
    )
    assert [Bucket.named(key) for key in others] == [None] * len(others)


def test_a_bucket_is_kept_until_the_whole_hour_or_day_that_it_lies_in_is_too_old() -> None:
    now = at("2026-11-30T12:00:00")
    # 25 hours before is 11:00 the day before: that hour is over, the one after it is not.
    assert not MINUTES.keeps(at("2026-11-29T11:59:00"), now)
    assert MINUTES.keeps(at("2026-11-29T12:00:00"), now)
    # 35 days before is noon of 10-26: that day began more than 35 days ago.
    assert not HOURS.keeps(at("2026-10-26T23:00:00"), now)
    assert HOURS.keeps(at("2026-10-27T00:00:00"), now)
