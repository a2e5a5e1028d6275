import asyncio
import threading
from collections.abc import Generator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_cache.engine.scheduler import Line, LineFullError, Scheduler


@given(st.integers(0, 3), st.lists(st.sampled_from(["join", "leave", "serve", "done"]), max_size=40))
def test_the_line_serves_in_the_order_of_arrival_and_never_holds_more_than_its_bound(
    max_waiting: int, steps: list[str]
) -> None:
    line: Line[object] = Line(max_waiting)
    waiting: list[object] = []
    is_busy = False
    for step in steps:
        if step == "join":
            item = object()
            if len(waiting) + is_busy > max_waiting:
                with pytest.raises(LineFullError):
                    line.join(item)
            else:
                line.join(item)
                waiting.append(item)
        elif step == "leave" and waiting:
            line.leave(waiting.pop(len(waiting) // 2))
        elif step == "serve" and not is_busy:
            expected = waiting.pop(0) if waiting else None
            assert line.serve_next() is expected
            is_busy = expected is not None
        elif step == "done" and is_busy:
            line.served(1.0)
            is_busy = False
        assert line.num_waiting == len(waiting)


def test_the_retry_hint_is_the_mean_time_of_those_ahead() -> None:
    line: Line[int] = Line(max_waiting=2)
    line.join(0)
    line.serve_next()
    line.served(4.0)
    for item in range(3):
        line.join(item)
        if item == 0:
            line.serve_next()
    with pytest.raises(LineFullError) as caught:
        line.join(3)
    assert caught.value.retry_after_s == 12  # one running and two waiting, 4 s each


class Gate:
    """Work that yields one number per `open`."""

    def __init__(self) -> None:
        self.steps = threading.Semaphore(0)
        self.began: list[str] = []
        self.stopped: list[str] = []

    def run(self, name: str) -> Generator[str]:
        self.began.append(name)
        try:
            for number in range(3):
                assert self.steps.acquire(timeout=30)
                yield f"{name}{number}"
        finally:
            self.stopped.append(name)

    def open(self, times: int) -> None:
        self.steps.release(times)


def scheduler_of(gate: Gate, max_waiting: int = 8) -> Scheduler[str, str]:
    return Scheduler(gate.run, max_waiting=max_waiting, clock=lambda: 0.0)


async def test_requests_are_served_one_at_a_time_in_order() -> None:
    gate = Gate()
    scheduler = scheduler_of(gate)
    tickets = [scheduler.submit(name) for name in "abc"]
    gate.open(9)
    events = [[event async for event in ticket] for ticket in tickets]
    assert events == [["a0", "a1", "a2"], ["b0", "b1", "b2"], ["c0", "c1", "c2"]]
    assert gate.began == ["a", "b", "c"]
    scheduler.close()


async def test_closing_a_running_ticket_stops_its_work_before_the_next_step() -> None:
    gate = Gate()
    scheduler = scheduler_of(gate)
    first, second = scheduler.submit("a"), scheduler.submit("b")
    gate.open(1)
    events = aiter(first)
    assert await anext(events) == "a0"
    first.close()
    gate.open(4)  # one for the step that a has begun, three for b
    assert [event async for event in second] == ["b0", "b1", "b2"]
    assert gate.stopped == ["a", "b"]
    scheduler.close()


async def test_closing_a_waiting_ticket_frees_its_place_and_its_work_never_begins() -> None:
    gate = Gate()
    scheduler = scheduler_of(gate, max_waiting=1)
    running = scheduler.submit("a")
    gate.open(1)
    assert await anext(aiter(running)) == "a0"
    leaver = scheduler.submit("b")
    with pytest.raises(LineFullError):
        scheduler.submit("c")
    leaver.close()
    third = scheduler.submit("c")
    gate.open(5)
    assert [event async for event in third] == ["c0", "c1", "c2"]
    assert gate.began == ["a", "c"]
    scheduler.close()


async def test_a_failure_reaches_its_own_requester_and_the_next_is_served() -> None:
    def run(name: str) -> Generator[str]:
        yield name
        if name == "bad":
            raise ZeroDivisionError

    scheduler: Scheduler[str, str] = Scheduler(run, max_waiting=8, clock=lambda: 0.0)
    bad, good = scheduler.submit("bad"), scheduler.submit("good")
    events = aiter(bad)
    assert await anext(events) == "bad"
    with pytest.raises(ZeroDivisionError):
        await anext(events)
    assert [event async for event in good] == ["good"]
    scheduler.close()


async def test_closing_the_scheduler_ends_running_waiting_and_later_tickets() -> None:
    gate = Gate()
    scheduler = scheduler_of(gate)
    running, waiting = scheduler.submit("a"), scheduler.submit("b")
    gate.open(1)
    events = aiter(running)
    assert await anext(events) == "a0"
    scheduler.close()
    gate.open(1)
    async with asyncio.timeout(30):
        assert [event async for event in events] == []
        assert [event async for event in waiting] == []
        assert [event async for event in scheduler.submit("c")] == []
    assert gate.began == ["a"]
