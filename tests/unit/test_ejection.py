"""When a failing pod is left out, and how it comes back. All times are made up."""

from __future__ import annotations

import pytest

from openclaw_cache.gateway.ejection import Ejection


def ejected(times: int = 1) -> tuple[Ejection, float]:
    """A pod that was ejected so often in a row, and when its last ejection ends."""
    health, now = Ejection(), 100.0
    for _ in range(times):
        health.fail(now, at_once=True)
        assert health.ends_at is not None
        now = health.ends_at
    return health, now


def test_the_third_failure_in_a_row_ejects_for_a_second() -> None:
    health = Ejection()
    for _ in range(2):
        health.fail(100.0)
        assert (health.state(100.0), health.admits(100.0)) == ("up", True)
    health.fail(100.0)
    assert (health.state(100.0), health.admits(100.0)) == ("ejected", False)
    assert (health.state(100.999), health.admits(100.999)) == ("ejected", False)
    assert (health.state(101.0), health.admits(101.0)) == ("probing", True)


def test_a_success_between_failures_starts_the_count_anew() -> None:
    health = Ejection()
    for _ in range(5):
        health.fail(100.0)
        health.fail(100.0)
        health.succeed()
    assert health == Ejection()


def test_where_no_connection_could_be_made_the_first_failure_ejects() -> None:
    health = Ejection()
    health.fail(100.0, at_once=True)
    assert health.state(100.0) == "ejected"


def test_each_further_ejection_is_twice_as_long_up_to_a_minute() -> None:
    health, now, lengths = Ejection(), 0.0, []
    for _ in range(9):
        health.fail(now, at_once=True)
        assert health.ends_at is not None
        lengths.append(health.ends_at - now)
        now = health.ends_at
    assert lengths == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_a_thousand_ejections_in_a_row_are_no_longer_than_a_minute() -> None:
    health, now = ejected(1000)
    health.fail(now)
    assert health.ends_at == now + 60


def test_a_successful_request_makes_the_next_ejection_short_again() -> None:
    health, now = ejected(5)
    health.succeed()
    health.fail(now, at_once=True)
    assert health.ends_at == now + 1


def test_failures_within_an_ejection_do_not_lengthen_it() -> None:
    health, ends_at = ejected()
    for _ in range(100):
        health.fail(ends_at - 0.5, at_once=True)
    assert health.ends_at == ends_at


def test_after_the_ejection_one_request_at_a_time_tries() -> None:
    health, now = ejected()
    assert health.begin(now)
    assert not health.admits(now)
    assert not health.begin(now)
    health.end_trial()  # its client left: nothing is known yet
    assert health.admits(now)
    assert health.begin(now)
    health.succeed()
    assert health.state(now) == "up"


def test_a_trial_that_fails_ejects_at_once_and_for_longer() -> None:
    health, now = ejected()
    health.begin(now)
    health.fail(now)
    health.end_trial()
    assert (health.state(now + 1.9), health.state(now + 2)) == ("ejected", "probing")
    assert health.admits(now + 2)


def test_a_pod_that_is_up_needs_no_trial() -> None:
    health = Ejection()
    assert not health.begin(100.0)
    assert health.admits(100.0)


def test_a_probe_brings_a_pod_back_but_does_not_forgive_its_ejections() -> None:
    health, now = ejected(3)
    health.revive(now)
    assert (health.state(now), health.num_failures) == ("up", 0)
    for _ in range(3):
        health.fail(now)
    assert health.ends_at == now + 8


@pytest.mark.parametrize("failures", [0, 1, 2])
def test_a_probe_of_a_pod_that_is_up_does_not_hide_that_its_requests_fail(failures: int) -> None:
    health = Ejection()
    for _ in range(failures):
        health.fail(100.0)
    health.revive(100.0)
    assert health.num_failures == failures


def test_a_probe_within_an_ejection_does_not_end_it() -> None:
    health, ends_at = ejected()
    health.revive(ends_at - 0.1)
    assert health.state(ends_at - 0.1) == "ejected"


def test_a_late_answer_within_an_ejection_ends_it() -> None:
    health, ends_at = ejected()
    health.succeed()
    assert health.admits(ends_at - 0.5)
