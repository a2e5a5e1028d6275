"""Which pod takes the next request. All times are made up."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_cache.gateway.remote_pods import RemotePod, RemotePods


def pods(*weights: int) -> RemotePods:
    return RemotePods(RemotePod(name, weight) for name, weight in zip("abcdefgh", weights, strict=False))


def turns(group: RemotePods, number: int, now: float = 0.0) -> str:
    return "".join(group.choose(now).url for _ in range(number))


def test_weights_are_spread_smoothly_as_nginx_does() -> None:
    # The example of nginx's own commit (52327e0627f4, "smooth weighted round-robin").
    assert turns(pods(5, 1, 1), 14) == "aabacaa" * 2


def test_pods_of_one_weight_take_turns() -> None:
    assert turns(pods(1, 1, 1), 6) == "abcabc"


@pytest.mark.parametrize("weights", [(1,), (1, 1000), (3, 2, 1), (7, 7, 1, 2)])
def test_every_round_gives_each_pod_exactly_its_weight(weights: tuple[int, ...]) -> None:
    counted = Counter(turns(pods(*weights), 3 * sum(weights)))
    assert [counted[name] for name, _ in zip("abcd", weights, strict=False)] == [3 * w for w in weights]


def test_an_ejected_pod_takes_no_turn() -> None:
    group = pods(5, 1, 1)
    group.pods[0].failed("ConnectionRefusedError", 0.0, at_once=True)
    assert turns(group, 4, now=0.5) == "bcbc"


def test_after_its_ejection_a_pod_takes_one_request_until_that_is_answered() -> None:
    group = pods(1, 1)
    group.pods[0].failed("ConnectionRefusedError", 0.0, at_once=True)
    assert turns(group, 1, now=1.0) == "a"
    assert group.pods[0].ejection.begin(1.0)
    assert turns(group, 3, now=1.0) == "bbb"
    group.pods[0].answered(200, None, 1.0)
    assert set(turns(group, 2, now=1.0)) == {"a", "b"}


def test_where_all_are_ejected_the_one_that_comes_back_first_is_tried_all_the_same() -> None:
    group = pods(1, 1, 1)
    for pod, at in zip(group.pods, (0.3, 0.1, 0.2), strict=True):
        pod.failed("ConnectionRefusedError", at, at_once=True)
    assert not group.admits(0.5)
    a, b, c = group.pods
    assert group.choose(0.5) is b
    assert group.choose(0.5, [b]) is c
    assert group.choose(0.5, [b, c]) is a


def test_a_pod_that_this_request_has_tried_comes_last_even_before_ejected_ones() -> None:
    group = pods(1, 1)
    a, b = group.pods
    b.failed("ConnectionRefusedError", 0.0, at_once=True)
    assert group.choose(0.5, [a]) is b
    assert group.choose(0.5, [a, b]) is a


def test_a_single_pod_is_always_the_choice() -> None:
    group = pods(1)
    group.pods[0].failed("ConnectionRefusedError", 0.0, at_once=True)
    assert turns(group, 2, now=0.1) == "aa"


def test_a_busy_pod_is_spared_as_long_as_it_asked_for_but_never_ejected() -> None:
    group = pods(1, 1)
    for _ in range(10):
        group.pods[0].answered(503, "5", 0.0)
    assert group.pods[0].status(0.0)["state"] == "up"
    assert turns(group, 3, now=4.9) == "bbb"
    assert set(turns(group, 2, now=5.0)) == {"a", "b"}


def test_where_all_pods_are_busy_they_take_turns() -> None:
    group = pods(1, 1)
    for pod in group.pods:
        pod.answered(503, "60", 0.0)
    assert turns(group, 4, now=1.0) == "abab"
    assert group.admits(1.0)


@pytest.mark.parametrize(
    ("asked", "busy_s"),
    [("7", 7), ("0.5", 0.5), ("3600", 60), ("-1", 1), ("nan", 1), ("Wed, 21 Oct 2026 07:28:00 GMT", 1)],
)
def test_a_pod_is_spared_for_a_minute_at_most_and_a_second_where_it_is_unclear(
    asked: str, busy_s: float
) -> None:
    pod = RemotePod("a")
    pod.answered(503, asked, 100.0)
    assert pod.busy_until == 100 + busy_s


@pytest.mark.parametrize("status", [502, 503, 504])
def test_three_answers_of_a_failing_pod_in_a_row_eject_it(status: int) -> None:
    pod = RemotePod("http://a", 3)
    for _ in range(3):
        assert pod.ejection.state(10.0) == "up"
        pod.answered(status, None, 10.0)
    assert pod.status(10.25) == {
        "url": "http://a",
        "weight": 3,
        "state": "ejected",
        "num_failures": 3,
        "ejected_for_s": 0.75,
        "last_error": str(status),
    }


@pytest.mark.parametrize("status", [200, 400, 401, 404, 429, 500, 529])
def test_any_other_answer_is_a_sign_of_life(status: int) -> None:
    pod = RemotePod("http://a")
    pod.failed("ServerDisconnectedError", 10.0)
    pod.failed("ServerDisconnectedError", 10.0)
    pod.answered(status, "9", 10.0)
    assert pod.status(10.0) == {
        "url": "http://a",
        "weight": 1,
        "state": "up",
        "num_failures": 0,
        "ejected_for_s": 0.0,
        "last_error": None,
    }
    assert pod.busy_until == 0


def test_pods_are_probed_where_there_are_several_but_not_within_an_ejection() -> None:
    group = pods(1, 1)
    a, b = group.pods
    assert group.to_probe(0.0) == [a, b]
    a.failed("ConnectionRefusedError", 0.0, at_once=True)
    assert group.to_probe(0.5) == [b]
    a.ejection.begin(1.0)
    assert group.to_probe(1.0) == [a, b]  # also while a request tries it, which may take minutes


def test_a_single_pod_is_probed_only_after_an_ejection() -> None:
    group = pods(1)
    assert group.to_probe(0.0) == []
    group.pods[0].failed("ConnectionRefusedError", 0.0, at_once=True)
    assert group.to_probe(0.5) == []
    assert group.to_probe(1.0) == group.pods


def test_another_pod_is_one_that_is_neither_tried_nor_ejected() -> None:
    group = pods(1, 1, 1)
    a, b, c = group.pods
    assert group.has_other(0.0, [a])
    b.failed("ConnectionRefusedError", 0.0, at_once=True)
    assert group.has_other(0.5, [a])
    assert not group.has_other(0.5, [a, c])


EVENTS = st.tuples(
    st.integers(0, 2),
    st.sampled_from(["fail", "refused", "200", "503", "busy", "probe", "begin", "end"]),
    st.floats(0, 100),
)


@given(st.lists(EVENTS, max_size=60))
def test_whatever_happens_a_pod_is_chosen_and_an_ejected_one_only_where_no_other_is_left(
    events: list[tuple[int, str, float]],
) -> None:
    group, now = pods(3, 1, 2), 0.0
    for index, what, later in events:
        pod, now = group.pods[index], now + later
        match what:
            case "fail" | "refused":
                pod.failed(what, now, at_once=what == "refused")
            case "200" | "503":
                pod.answered(int(what), None, now)
            case "busy":
                pod.answered(503, "30", now)
            case "probe":
                pod.ejection.revive(now)
            case "begin":
                pod.ejection.begin(now)
            case "end":
                pod.ejection.end_trial()
        chosen = group.choose(now)
        assert chosen.ejection.admits(now) or not group.admits(now)
        assert all(0 <= p.status(now)["ejected_for_s"] <= 60 for p in group.pods)
        assert all(abs(p.credit) <= 6 for p in group.pods)  # nobody saves up turns for later
