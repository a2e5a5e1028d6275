"""The sliding window against a list of events, and what it promises to whom it admits and whom it refuses."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from openclaw_cache.api.budget import Budget, day_count
from openclaw_cache.api.sliding_count import SlidingCount
from openclaw_cache.errors import RequestError
from openclaw_cache.settings import Budgets

SPANS = st.sampled_from([(60, 60), (60, 4), (86_400, 96), (6, 2), (7, 1)])
# Steps in eighths of a second, so that the model's arithmetic is exact.
steps = st.integers(0, 8 * 40).map(lambda eighths: eighths / 8)
START = 1_799_999_987.5


def of_model(events: list[tuple[float, int]], now: float, span_s: int, bucket_s: int) -> int:
    """An event counts until its bucket's end lies a whole span back."""
    return sum(amount for at, amount in events if (math.floor(at / bucket_s) + 1) * bucket_s + span_s > now)


@given(
    spans=SPANS,
    events=st.lists(st.tuples(steps, st.integers(0, 1000)), max_size=60),
    scale=st.integers(1, 500),
)
def test_the_sum_is_that_of_a_list_of_events(
    spans: tuple[int, int], events: list[tuple[float, int]], scale: int
) -> None:
    span_s, num_buckets = spans
    count, now = SlidingCount(span_s, num_buckets), START
    happened: list[tuple[float, int]] = []
    for step, amount in events:
        now += step * scale
        count.add(now, amount)
        happened.append((now, amount))
        assert count.sum(now) == of_model(happened, now, span_s, span_s // num_buckets)


@given(
    spans=SPANS,
    events=st.lists(st.tuples(steps, st.integers(0, 1000)), min_size=1, max_size=60),
    limit=st.integers(1, 5000),
)
def test_the_wait_is_the_least_number_of_seconds_after_which_there_is_something_left(
    spans: tuple[int, int], events: list[tuple[float, int]], limit: int
) -> None:
    span_s, num_buckets = spans
    bucket_s = span_s // num_buckets
    count, now = SlidingCount(span_s, num_buckets), START
    happened: list[tuple[float, int]] = []
    for step, amount in events:
        now += step
        count.add(now, amount)
        happened.append((now, amount))
    wait_s = count.wait_s(now, limit)
    assert of_model(happened, now + wait_s, span_s, bucket_s) < limit
    if wait_s:
        assert of_model(happened, now + wait_s - 1, span_s, bucket_s) >= limit
    assert count.sum(now + wait_s) < limit


@given(arrivals=st.lists(steps, max_size=120), limit=st.integers(1, 8))
def test_no_minute_whatever_its_beginning_has_more_requests_than_the_budget_says(
    arrivals: list[float], limit: int
) -> None:
    budget, now = Budget(Budgets(requests_per_minute=limit), day_count()), START
    admitted: list[float] = []
    waits: list[int | None] = []
    for step in arrivals:
        now += step
        try:
            budget.admit(now)
        except RequestError as refused:
            waits.append(refused.retry_after_s)
            continue
        admitted.append(now)
    assert all(wait_s is not None and 1 <= wait_s <= 61 for wait_s in waits)
    for begin in admitted:
        assert sum(begin <= at <= begin + 60 for at in admitted) <= limit


@given(
    before=st.lists(st.tuples(steps, st.integers(0, 1000)), max_size=40),
    down_s=steps,
    scale=st.integers(1, 2000),
)
def test_a_count_that_is_saved_and_restored_is_the_one_that_went_on(
    before: list[tuple[float, int]], down_s: float, scale: int
) -> None:
    went_on, now = day_count(), START
    for step, amount in before:
        now += step * scale
        went_on.add(now, amount)
    saved = went_on.buckets(now)
    now += down_s * scale
    restored = day_count()
    restored.restore(now, saved)
    for later in (0, 900, 40_000, 86_400):
        assert restored.sum(now + later) == went_on.sum(now + later)


@given(
    saved=st.dictionaries(st.integers(-(2**70), 2**70), st.integers(0, 2**70), max_size=20),
    back_s=st.integers(0, 10**10),
)
def test_whatever_stands_in_a_file_is_forgotten_after_a_day(saved: dict[int, int], back_s: int) -> None:
    count = day_count()
    count.restore(START - back_s, saved)
    count.sum(START - back_s)
    assert count.sum(START - back_s + 86_400 + 900) == 0


@given(moves=st.lists(st.sampled_from(["admit", "release"]), max_size=60), limit=st.integers(1, 4))
def test_running_requests_are_those_that_were_admitted_and_have_not_ended(
    moves: list[str], limit: int
) -> None:
    budget, num_running = Budget(Budgets(max_concurrent=limit), day_count()), 0
    for move in moves:
        if move == "release":
            if num_running:
                budget.release()
                num_running -= 1
            continue
        try:
            budget.admit(START)
        except RequestError:
            assert num_running == limit
        else:
            num_running += 1
            assert num_running <= limit
