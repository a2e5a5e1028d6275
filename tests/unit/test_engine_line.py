import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_cache.engine.line import Line, LineFullError


@given(
    st.integers(0, 3),
    st.integers(1, 3),
    st.lists(st.sampled_from(["join", "join", "leave", "serve", "done"]), max_size=40),
)
def test_the_line_keeps_the_order_of_arrival_and_never_holds_more_than_its_bounds(
    max_waiting: int, max_served: int, steps: list[str]
) -> None:
    line: Line[object] = Line(max_waiting, max_served)
    waiting: list[object] = []
    num_served = 0
    for step in steps:
        if step == "join":
            item = object()
            if len(waiting) + num_served >= max_waiting + max_served:
                with pytest.raises(LineFullError):
                    line.join(item)
            else:
                line.join(item)
                waiting.append(item)
        elif step == "leave" and waiting:
            line.leave(waiting.pop(len(waiting) // 2))
        elif step == "serve" and waiting and num_served < max_served:
            line.serve(waiting.pop(0))
            num_served += 1
        elif step == "done" and num_served:
            line.served(1.0)
            num_served -= 1
        assert line.waiting() == waiting
        assert (line.num_waiting, line.num_served) == (len(waiting), num_served)


def test_items_are_told_apart_by_identity_so_that_equal_ones_keep_their_own_places() -> None:
    first, second = [1], [1]
    line: Line[list[int]] = Line(max_waiting=1)
    line.join(first)
    line.join(second)
    line.leave(first)
    assert line.waiting()[0] is second


def test_one_that_has_left_can_still_be_served_to_its_early_end() -> None:
    line: Line[str] = Line(max_waiting=0)
    line.join("a")
    line.leave("a")
    line.serve("a")
    with pytest.raises(LineFullError):
        line.join("b")
    line.served(1.0)
    line.join("b")


def test_the_list_of_those_who_wait_is_a_copy() -> None:
    line: Line[str] = Line(max_waiting=2)
    line.join("a")
    line.waiting().clear()
    assert line.waiting() == ["a"]


def refused(line: Line[int]) -> LineFullError:
    with pytest.raises(LineFullError) as caught:
        line.join(99)
    return caught.value


def test_the_retry_hint_is_the_mean_time_of_those_ahead() -> None:
    line: Line[int] = Line(max_waiting=2)
    line.join(0)
    line.serve(0)
    line.served(4.0)
    for item in range(3):
        line.join(item)
        if item == 0:
            line.serve(item)
    assert refused(line).retry_after_s == 12  # one running and two waiting, 4 s each


def test_the_retry_hint_counts_that_several_are_served_together() -> None:
    line: Line[int] = Line(max_waiting=2, max_served=2)
    line.join(0)
    line.serve(0)
    line.served(10.0)
    for item in range(4):
        line.join(item)
    assert refused(line).retry_after_s == 20  # four ahead, 10 s each, two at a time


def test_the_retry_hint_is_a_second_before_anything_is_known_and_a_minute_at_most() -> None:
    line: Line[int] = Line(max_waiting=0)
    line.join(0)
    assert refused(line).retry_after_s == 1
    line.serve(0)
    line.served(1000.0)
    line.join(0)
    assert refused(line).retry_after_s == 60
