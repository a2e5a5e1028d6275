"""What one key may use: requests and tokens over time, requests at a time, and what a refusal says."""

from __future__ import annotations

from typing import Any

import pytest

from openclaw_cache.api.admission import NamespaceSlots
from openclaw_cache.api.budget import Budget, day_count
from openclaw_cache.api.sliding_count import SlidingCount
from openclaw_cache.errors import RequestError
from openclaw_cache.settings import Budgets
from openclaw_cache.types import Namespace

NOON = 1_800_000_000.0  # a whole minute and a whole quarter of an hour


def budget(**limits: Any) -> Budget:
    return Budget(Budgets(**limits), day_count())


def refusal(of: Budget, now: float) -> RequestError:
    with pytest.raises(RequestError) as refused:
        of.admit(now)
    assert (refused.value.status, refused.value.kind) == (429, "rate_limit_error")
    return refused.value


def test_as_many_requests_pass_in_a_minute_as_the_budget_says() -> None:
    limited = budget(requests_per_minute=3)
    for i in range(3):
        limited.admit(NOON + i)
    refused = refusal(limited, NOON + 10)
    assert refused.code == "budget_exhausted"
    # The first leaves 60 s after the end of its second: 61 s after noon.
    assert refused.retry_after_s == 51
    assert "requests_per_minute (3)" in refused.message
    refusal(limited, NOON + 60.9)
    limited.admit(NOON + 61)
    refusal(limited, NOON + 61)


def test_refused_requests_count_for_nothing() -> None:
    limited = budget(requests_per_minute=1, max_concurrent=1)
    limited.admit(NOON)
    for i in range(100):
        refusal(limited, NOON + i / 2)
    limited.release()
    limited.admit(NOON + 61)


@pytest.mark.parametrize(("name", "after_s"), [("tokens_per_minute", 61), ("tokens_per_day", 86_400 + 900)])
def test_tokens_are_used_up_by_replies_and_come_back_when_their_time_has_passed(
    name: str, after_s: int
) -> None:
    limited = budget(**{name: 100})
    limited.spend(NOON, 99)
    limited.admit(NOON)
    limited.spend(NOON, 1)
    refused = refusal(limited, NOON)
    assert refused.retry_after_s == after_s
    assert refused.message == (f"this API key's budget {name} (100) is used up: try again in {after_s} s")
    refusal(limited, NOON + after_s - 0.5)
    limited.admit(NOON + after_s)


def test_a_request_that_was_admitted_may_overshoot_and_the_next_one_waits() -> None:
    limited = budget(tokens_per_minute=10)
    limited.admit(NOON)
    limited.spend(NOON + 1, 5000)
    assert limited.state(NOON + 1) == {"tokens_per_minute": {"used": 5000, "limit": 10}}
    refusal(limited, NOON + 1)


def test_the_wait_is_until_enough_is_free_and_not_until_the_first_that_frees() -> None:
    limited = budget(tokens_per_minute=100)
    limited.spend(NOON, 30)
    limited.spend(NOON + 20, 200)
    limited.spend(NOON + 40, 60)
    # 290 used. At 61 s 260 are left, at 81 s 60.
    assert refusal(limited, NOON + 41).retry_after_s == 40


def test_of_two_budgets_that_are_used_up_the_longer_wait_is_named() -> None:
    limited = budget(tokens_per_minute=10, tokens_per_day=20, requests_per_minute=1)
    limited.admit(NOON)
    limited.spend(NOON, 50)
    assert "tokens_per_day (20)" in refusal(limited, NOON).message


def test_no_more_requests_run_at_a_time_than_the_budget_says() -> None:
    limited = budget(max_concurrent=2)
    limited.admit(NOON)
    limited.admit(NOON)
    refused = refusal(limited, NOON)
    assert (refused.code, refused.retry_after_s) == ("too_many_concurrent", 1)
    assert "max_concurrent (2)" in refused.message
    limited.release()
    limited.admit(NOON)
    refusal(limited, NOON)


def test_a_limit_that_is_changed_holds_for_what_was_used_before() -> None:
    limited = budget(requests_per_minute=1)
    limited.admit(NOON)
    limited.spend(NOON, 70)
    limited.limits = Budgets(requests_per_minute=5, tokens_per_day=70)
    assert "tokens_per_day" in refusal(limited, NOON).message
    limited.limits = Budgets(max_concurrent=1)
    assert refusal(limited, NOON).code == "too_many_concurrent"
    limited.limits = Budgets(requests_per_minute=2)
    limited.admit(NOON)


def test_nonsense_of_an_upstream_gives_no_budget_back_and_breaks_none() -> None:
    limited = budget(tokens_per_day=10**15)
    limited.spend(NOON, 5)
    limited.spend(NOON, -100)
    assert limited.state(NOON)["tokens_per_day"]["used"] == 5
    limited.spend(NOON, 2**80)
    assert limited.state(NOON)["tokens_per_day"]["used"] < 2**63


def test_only_budgets_that_are_set_are_shown() -> None:
    limited = budget(requests_per_minute=4, max_concurrent=3)
    limited.admit(NOON)
    assert limited.state(NOON) == {
        "requests_per_minute": {"used": 1, "limit": 4},
        "max_concurrent": {"used": 1, "limit": 3},
    }


# The window.


def test_what_is_counted_stays_for_the_span_and_at_most_a_bucket_longer() -> None:
    count = SlidingCount(60, 60)
    count.add(NOON + 0.75, 7)
    assert count.sum(NOON + 60.75) == 7
    assert count.sum(NOON + 61) == 0


def test_a_time_before_the_latest_counts_as_the_latest() -> None:
    count = SlidingCount(60, 60)
    count.add(NOON + 30, 1)
    count.add(NOON, 1)
    assert count.sum(NOON + 90) == 2
    assert count.sum(NOON + 91) == 0


def test_a_clock_that_is_set_back_far_does_not_keep_what_was_counted_for_ever() -> None:
    count = SlidingCount(60, 60)
    count.add(NOON, 5)
    year_ago = NOON - 365 * 86_400
    assert count.sum(year_ago) == 5
    assert count.wait_s(year_ago, 5) == 61
    assert count.sum(year_ago + 61) == 0


def test_a_span_that_cannot_be_cut_into_whole_seconds_is_refused() -> None:
    with pytest.raises(ValueError, match="whole seconds"):
        SlidingCount(60, 61)


# Namespaces.


def test_a_namespace_runs_as_many_requests_as_it_may_and_does_not_hold_up_another() -> None:
    slots, a, b = NamespaceSlots(2), Namespace("a"), Namespace("b")
    slots.admit(a)
    slots.admit(a)
    with pytest.raises(RequestError) as refused:
        slots.admit(a)
    assert (refused.value.status, refused.value.code) == (429, "too_many_concurrent")
    assert refused.value.retry_after_s == 1
    assert "server.namespace_concurrency" in refused.value.message
    slots.admit(b)
    slots.release(a)
    slots.admit(a)


def test_nothing_is_kept_of_a_namespace_that_has_no_request_running() -> None:
    slots = NamespaceSlots(1)
    for i in range(1000):
        slots.admit(Namespace(f"n-{i}"))
        slots.release(Namespace(f"n-{i}"))
    slots.admit(Namespace("busy"))
    assert slots.running() == {"busy": 1}
