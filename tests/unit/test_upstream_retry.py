"""When a call is repeated, as a table."""

from __future__ import annotations

import pytest

from openclaw_cache.gateway.retry import Cause, Tries


def num_after(tries: Tries, cause: Cause, *, has_other: bool) -> int:
    """How many attempts follow one another where each fails so."""
    return next(n for n in range(100) if not tries.after_failure(cause, has_other=has_other))


@pytest.mark.parametrize(
    ("retries", "num_pods", "expected"), [(0, 1, 0), (1, 1, 1), (3, 1, 3), (0, 3, 2), (1, 3, 2), (5, 3, 5)]
)
def test_a_call_that_reached_nobody_may_go_to_every_pod_once(
    retries: int, num_pods: int, expected: int
) -> None:
    assert num_after(Tries(retries, num_pods, repeatable=False), Cause.UNREACHED, has_other=False) == expected


@pytest.mark.parametrize("retries", [0, 1, 5])
@pytest.mark.parametrize("has_other", [True, False])
def test_a_stale_connection_is_replaced_exactly_once(retries: int, has_other: bool) -> None:
    assert num_after(Tries(retries, 2, repeatable=False), Cause.STALE, has_other=has_other) == 1


@pytest.mark.parametrize(
    ("repeatable", "has_other", "retries", "expected"),
    [(True, True, 1, 1), (True, True, 3, 3), (True, True, 0, 0), (False, True, 3, 0), (True, False, 3, 0)],
)
def test_a_broken_call_is_repeated_only_on_another_pod_and_where_that_does_no_harm(
    repeatable: bool, has_other: bool, retries: int, expected: int
) -> None:
    assert num_after(Tries(retries, 9, repeatable=repeatable), Cause.BROKEN, has_other=has_other) == expected


def test_a_call_without_an_answer_in_time_is_never_repeated() -> None:
    assert num_after(Tries(5, 9), Cause.SLOW, has_other=True) == 0
    assert num_after(Tries(5, is_engine=True), Cause.SLOW, has_other=False) == 0


@pytest.mark.parametrize("cause", [Cause.UNREACHED, Cause.STALE, Cause.BROKEN])
@pytest.mark.parametrize(("retries", "expected"), [(0, 2), (1, 2), (4, 4)])
def test_a_call_to_a_dying_engine_is_repeated_until_its_successor_is_there(
    cause: Cause, retries: int, expected: int
) -> None:
    assert num_after(Tries(retries, 0, is_engine=True), cause, has_other=False) == expected


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(
    ("retry_after", "pause_s"),
    [(None, 0.25), ("0", 0), ("2", 2), ("2.1", None), ("-1", None), ("nan", None), ("soon", None)],
)
def test_a_refused_call_waits_for_a_single_pod_where_that_is_short(
    status: int, retry_after: str | None, pause_s: float | None
) -> None:
    tries = Tries(1, 1, repeatable=False)
    assert tries.after_answer(status, retry_after, has_other=False) == pause_s


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("repeatable", [True, False])
def test_a_refused_call_goes_to_another_pod_at_once(status: int, repeatable: bool) -> None:
    assert Tries(1, 2, repeatable).after_answer(status, "3600", has_other=True) == 0


@pytest.mark.parametrize("status", [502, 504])
@pytest.mark.parametrize(
    ("repeatable", "has_other", "expected"),
    [(True, True, 0), (False, True, None), (True, False, None), (False, False, None)],
)
def test_a_failed_call_goes_to_another_pod_where_that_does_no_harm(
    status: int, repeatable: bool, has_other: bool, expected: float | None
) -> None:
    assert Tries(1, 2, repeatable).after_answer(status, None, has_other=has_other) == expected


@pytest.mark.parametrize("status", [200, 400, 401, 404, 408, 409, 413, 500, 501, 529])
def test_any_other_answer_is_the_clients(status: int) -> None:
    assert Tries(5, 5).after_answer(status, "0", has_other=True) is None


@pytest.mark.parametrize("retries", [0, 2])
def test_answers_and_breaks_share_what_the_operator_allows(retries: int) -> None:
    tries = Tries(retries, 9)
    num_attempts = 1
    while (
        tries.after_answer(503, "0", has_other=True) is not None
        if num_attempts % 2
        else tries.after_failure(Cause.BROKEN, has_other=True)
    ):
        num_attempts += 1
    assert num_attempts == 1 + retries
