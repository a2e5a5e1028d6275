"""Which failures of an upstream are repeated, for how long, and what a client then reads."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from openclaw_cache.errors import RequestError
from openclaw_cache.gateway.negative import Failures, retry_after_s
from openclaw_cache.types import Headers

BODY = b'{"error":{"message":"slow down"}}'
SAID = 1_795_977_267.0  # 2026-11-29 18:34:27 UTC


def fail(failures: Failures, now: float, headers: Headers | None = None, name: bytes = b"a") -> None:
    failures.replied(name, 429, headers or [], BODY, now, SAID)


def answers_until(failures: Failures, now: float, name: bytes = b"a") -> float:
    """For how long from `now` on the failure is repeated."""
    failure = failures.known(name, now)
    return 0.0 if failure is None else failure.expires_at - now


def test_a_first_failure_is_not_repeated_and_each_further_one_twice_as_long_up_to_the_bound() -> None:
    failures, now, lasted = Failures(5.0), 100.0, []
    for _ in range(8):
        fail(failures, now)
        lasted.append(answers_until(failures, now))
        now += 10
    assert lasted == [0, 0.5, 1, 2, 4, 5, 5, 5]


@pytest.mark.parametrize(("asked", "lasts"), [(b"7", 7), (b"0", 0), (b"3600", 60), (b"1.5", 1.5)])
def test_an_upstream_that_says_when_to_come_back_is_taken_at_its_word_for_a_minute_at_most(
    asked: bytes, lasts: float
) -> None:
    failures = Failures(5.0)
    fail(failures, 100.0, [(b"retry-after", asked)])
    assert answers_until(failures, 100.0) == lasts


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([], None),
        ([(b"retry-after", b"30")], 30),
        ([(b"retry-after-ms", b"250"), (b"retry-after", b"1")], 0.25),
        ([(b"retry-after", b"soon")], None),
        ([(b"retry-after", b"-1")], None),
        ([(b"retry-after", b"inf")], None),
        ([(b"retry-after", b"nan")], None),
        ([(b"retry-after", b"Sun, 29 Nov 2026 18:34:47 GMT")], 20),
        # The upstream's clock is an hour ahead: its own Date is what its date counts from.
        (
            [
                (b"retry-after", b"Sun, 29 Nov 2026 19:34:47 GMT"),
                (b"date", b"Sun, 29 Nov 2026 19:34:37 GMT"),
            ],
            10,
        ),
        ([(b"retry-after", b"Sun, 29 Nov 2026 18:00:00 GMT")], 0),
        ([(b"retry-after", b"Sun, 99 Nov 2026 18:00:00 GMT")], None),
    ],
)
def test_retry_after_is_read_as_seconds_or_a_date(headers: Headers, expected: float | None) -> None:
    assert retry_after_s(headers, SAID) == expected


def test_a_date_without_a_zone_is_gmt_wherever_the_server_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as there:
        there.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        told = retry_after_s([(b"retry-after", b"Sun, 29 Nov 2026 18:34:47 -0000")], SAID)
    time.tzset()
    assert told == 20


def test_what_is_repeated_tells_what_is_left_of_the_time_to_wait_and_all_else_as_it_came() -> None:
    failures = Failures(5.0)
    date = b"Sun, 29 Nov 2026 18:40:00 GMT"
    came = [
        (b"content-type", b"application/json"),
        (b"retry-after", b"90"),
        (b"retry-after-ms", b"20000"),
        (b"x-ratelimit-reset", b"20"),
    ]
    fail(failures, 100.0, came)
    failure = failures.known(b"a", 103.2)
    assert failure is not None
    assert (failure.status, failure.body) == (429, BODY)
    assert failure.headers_at(103.2) == [
        (b"content-type", b"application/json"),
        (b"retry-after", b"87"),  # 86.8, never less
        (b"retry-after-ms", b"16800"),
        (b"x-ratelimit-reset", b"20"),
    ]
    fail(failures, 100.0, [(b"retry-after", date)], b"b")
    dated = failures.known(b"b", 150.0)
    assert dated is not None
    assert dated.headers_at(150.0) == [(b"retry-after", date)]


def test_a_success_ends_it_and_the_next_failure_is_a_first_one_again() -> None:
    failures = Failures(5.0)
    for now in (1.0, 2.0, 3.0):
        fail(failures, now)
    failures.forget(b"a")
    assert failures.known(b"a", 3.0) is None
    fail(failures, 4.0)
    assert answers_until(failures, 4.0) == 0


def test_a_failure_of_more_than_a_minute_ago_is_forgotten() -> None:
    failures = Failures(5.0)
    fail(failures, 100.0)
    fail(failures, 159.0)
    assert answers_until(failures, 159.0) == 0.5
    assert failures.known(b"a", 218.9) is not None
    assert failures.known(b"a", 219.0) is None
    assert (len(failures), failures.num_bytes) == (0, 0)


def test_one_request_s_failure_is_no_other_s() -> None:
    failures = Failures(5.0)
    fail(failures, 1.0, [(b"retry-after", b"30")])
    assert failures.known(b"b", 1.0) is None


def test_0_turns_it_off() -> None:
    failures = Failures(0.0)
    for now in (1.0, 1.1, 1.2):
        fail(failures, now, [(b"retry-after", b"30")])
    assert not failures.is_on
    assert len(failures) == 0


def test_the_oldest_go_where_there_are_too_many_or_they_take_too_much() -> None:
    few = Failures(5.0, most=2)
    for name in (b"a", b"b", b"c"):
        fail(few, 1.0, name=name)
    assert [few.known(name, 1.0) is None for name in (b"a", b"b", b"c")] == [True, False, False]
    small = Failures(5.0, most_bytes=4000)
    for name in (b"a", b"b", b"c"):
        small.replied(name, 500, [], bytes(1500), 1.0, SAID)
    assert len(small) == 1
    assert small.num_bytes <= 4000


def test_an_upstream_out_of_reach_is_remembered_as_the_error_it_was() -> None:
    failures = Failures(5.0)
    error = RequestError(502, "no route", kind="api_error", code="upstream_unreachable")
    failures.unreached(b"a", error, 1.0)
    failures.unreached(b"a", error, 2.0)
    assert answers_until(failures, 2.0) == 0.5
    known = failures.known(b"a", 2.0)
    assert known is not None
    assert known.error is error


# What OpenClaw did when its upstream failed, to the hundredth of a second. Its first retry has another text, and the
# later ones another time of day once the minute has changed; between them the bytes are the same.


def reached(data_root: Path, label: str, retry_after: int | None) -> int:
    """How many of the requests of a storm reach an upstream that goes on failing."""
    captured = json.loads((data_root / "openclaw" / "err.json").read_bytes())["requests"]
    failures, num_reached = Failures(5.0), 0
    for one in captured:
        if one["label"] != label:
            continue
        name, now = one["raw_sha256"].encode(), one["t"]
        failure = failures.known(name, now)
        if failure is None or now >= failure.expires_at:
            num_reached += 1
            headers = [] if retry_after is None else [(b"retry-after", b"%d" % retry_after)]
            failures.replied(name, 429, headers, BODY, now, now)
    return num_reached


@pytest.mark.parametrize(
    ("label", "retry_after", "expected"),
    [
        # 7 in 77 s: after 2.4, 3.8, 6.9, 5.1, 28.4 and 30.9 s; three different bodies (1, 4 and 2 requests).
        ("err.500", None, 7),
        ("err.500", 10, 5),
        ("err.500", 30, 4),
        ("err.500", 60, 3),
        # 10 in 164 s: after 4.1, 7.3, 7.3, 10.7, 20.8, 33.6, 29.0, 34.4 and 16.5 s; four bodies (1, 5, 2 and 2).
        ("err.429", None, 10),
        ("err.429", 10, 9),
        ("err.429", 30, 5),
        ("err.429", 60, 4),
    ],
)
def test_a_captured_storm_is_absorbed_as_far_as_the_upstream_asks_for_it(
    data_root: Path, label: str, retry_after: int | None, expected: int
) -> None:
    assert reached(data_root, label, retry_after) == expected
