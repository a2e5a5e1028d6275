"""The engine's loop over a model of arithmetic: requests that come, go, fail, fork and run out of room."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Sequence
from typing import Any

import pytest

pytest.importorskip("torch")

from openclaw_cache.engine.chat import Event, Finished, Piece, Prefilled
from openclaw_cache.engine.line import LineFullError
from openclaw_cache.engine.plan import Segment
from openclaw_cache.errors import RequestError
from openclaw_cache.kv import loading
from openclaw_cache.kv.block import Tier
from support.toy_engine import BLOCK, reply_to
from support.toy_loop import WAIT_S, Gate, prompt_of, said, site


async def test_a_reply_is_told_once_as_prefilled_then_in_pieces_then_as_finished() -> None:
    async with site() as engine:
        events = await engine.ask(prompt_of(30), 5)
        assert [type(event) for event in events] == [Prefilled, *[Piece] * 6, Finished]
        assert said(events) == reply_to(prompt_of(30), 5)
        assert events[-1] == Finished(0, "length", 5)
        await engine.settled()


async def test_an_end_token_ends_the_reply_and_is_not_shown() -> None:
    reply = reply_to(prompt_of(30), 20)
    at = next(i for i in range(3, 20) if reply[i] not in reply[:i])
    async with site(ends=frozenset({reply[at]})) as engine:
        events = await engine.ask(prompt_of(30), 20)
        assert said(events) == reply[:at]
        assert events[-1] == Finished(0, "stop", at)


async def test_reuse_says_where_each_token_of_the_prompt_came_from() -> None:
    async with site(host_slots=100) as engine:
        prompt = prompt_of(64)
        (cold, *_), (warm, *_) = await engine.ask(prompt), await engine.ask(prompt)
        assert isinstance(cold, Prefilled)
        assert isinstance(warm, Prefilled)
        assert (cold.reuse.computed, cold.reuse.num_cached, cold.reuse.copied) == (64, 0, 0)
        # The last token is computed for its logits; the three before it are in the block of the first request.
        assert (warm.reuse.computed, warm.reuse.device, warm.reuse.copied) == (1, 60, 3)
        await engine.settled()
        await engine.call(lambda: engine.cache.lower.evict(Tier.DEVICE, 200))
        first, *rest = await engine.ask(prompt)
        assert isinstance(first, Prefilled)
        assert (first.reuse.computed, first.reuse.device, first.reuse.host, first.reuse.copied) == (
            1,
            0,
            60,
            3,
        )
        assert said(rest) == reply_to(prompt, 8)


async def test_requests_that_come_together_are_answered_together_and_each_with_its_own_reply() -> None:
    async with site(num_blocks=400) as engine:
        prompts = [prompt_of(40 + n, n) for n in range(20)]
        replies = await asyncio.gather(*(engine.ask(prompt, 10) for prompt in prompts))
        assert [said(events) for events in replies] == [reply_to(prompt, 10) for prompt in prompts]
        assert max(map(len, engine.runner.steps)) > 1
        await engine.settled()


async def test_work_that_is_given_up_while_it_waits_never_begins() -> None:
    async with site(max_running=1) as engine:
        gate = Gate(engine.runner)
        first, second, third = (engine.submit(prompt_of(8, n), 2) for n in (1, 2, 3))
        await gate.reached()
        second.close()
        gate.allow(100)
        assert said([event async for event in third]) == reply_to(prompt_of(8, 3), 2)
        assert said([event async for event in first]) == reply_to(prompt_of(8, 1), 2)
        assert engine.runner.steps == [[8], [1], [8], [1]]
        await engine.settled()


async def test_work_that_is_given_up_stops_before_its_next_step_and_others_go_on() -> None:
    async with site() as engine:
        gate = Gate(engine.runner)
        leaver = engine.submit(prompt_of(8, 1), 1000)
        gate.allow(3)
        events = aiter(leaver)
        for _ in range(4):  # the prompt and three tokens
            await anext(events)
        stayer = engine.submit(prompt_of(8, 2), 3)
        leaver.close()
        gate.allow(100)
        assert said([event async for event in stayer]) == reply_to(prompt_of(8, 2), 3)
        assert sum(map(len, engine.runner.steps)) <= 3 + 1 + 3  # one step may have begun when it left
        await engine.settled()


async def test_what_a_given_up_prompt_has_computed_stays_in_the_cache() -> None:
    async with site() as engine:
        gate = Gate(engine.runner)
        leaver = engine.submit(prompt_of(600), 5)
        gate.allow(1)
        await gate.reached()
        await gate.reached()
        leaver.close()
        gate.allow(100)
        (first, *_) = await engine.ask(prompt_of(600), 1)
        assert isinstance(first, Prefilled)
        assert first.reuse.device >= 256


async def test_a_place_in_the_line_is_free_again_once_its_work_is_given_up() -> None:
    async with site(max_running=1, max_waiting=1) as engine:
        gate = Gate(engine.runner)
        running, waiting = engine.submit([1]), engine.submit([2])
        await gate.reached()
        with pytest.raises(LineFullError):
            engine.submit([3])
        waiting.close()
        third = engine.submit([3])
        with pytest.raises(LineFullError):
            engine.submit([4])
        gate.allow(1000)
        for ticket in (running, third):
            assert isinstance([event async for event in ticket][-1], Finished)
        await engine.settled()


async def test_a_failure_of_one_request_leaves_those_that_run_beside_it() -> None:
    good, bad = prompt_of(20, 1), prompt_of(20, 2)
    poison = next(token for token in reply_to(bad, 30)[2:] if token not in reply_to(good, 30))
    async with site() as engine:
        engine.model.breaks_at = poison
        replies = await asyncio.gather(engine.ask(good, 30), engine.ask(bad, 30), return_exceptions=True)
        assert not isinstance(replies[0], BaseException)
        assert said(replies[0]) == reply_to(good, 30)
        assert isinstance(replies[1], ValueError)
        await engine.settled()


async def test_a_failure_of_one_choice_ends_its_request_and_frees_the_other_choices() -> None:
    async with site() as engine:
        engine.model.breaks_at = reply_to(prompt_of(20), 3)[-1]
        with pytest.raises(ValueError, match="decoded"):
            await engine.ask(prompt_of(20), 30, n=4)
        await engine.settled()


async def test_a_failing_step_ends_the_requests_in_it_and_none_that_wait() -> None:
    async with site(max_running=2) as engine:
        gate = Gate(engine.runner)
        tickets = [engine.submit(prompt_of(8, n), 3) for n in range(4)]
        await gate.reached()

        def fail(_segments: Sequence[Segment]) -> None:
            engine.runner.before = lambda _segments: None
            raise MemoryError

        engine.runner.before = fail
        gate.allow(1)
        results: list[Any] = []
        for ticket in tickets:
            try:
                results.append(said([event async for event in ticket]))
            except MemoryError:
                results.append(None)
        assert results == [None, None, *(reply_to(prompt_of(8, n), 3) for n in (2, 3))]
        await engine.settled()


async def test_after_a_failing_step_nothing_of_it_is_taken_for_computed() -> None:
    async with site() as engine:

        def fail(_segments: Sequence[Segment]) -> None:
            engine.runner.before = lambda _segments: None
            raise MemoryError

        engine.runner.before = fail
        with pytest.raises(MemoryError):
            await engine.ask(prompt_of(40))
        events = await engine.ask(prompt_of(40))
        assert isinstance(events[0], Prefilled)
        assert events[0].reuse.computed == 40
        assert said(events) == reply_to(prompt_of(40), 8)


@pytest.mark.parametrize("max_running", [8, 2, 1])
async def test_choices_beyond_those_that_may_run_together_are_answered_too(max_running: int) -> None:
    async with site(max_running=max_running) as engine:
        prompt = prompt_of(41)
        events = await engine.ask(prompt, 6, n=5)
        assert [said(events, i) for i in range(5)] == [reply_to(prompt, 6)] * 5
        ends = [event.index for event in events if isinstance(event, Finished)]
        assert sorted(ends) == [0, 1, 2, 3, 4]
        assert sum(isinstance(event, Prefilled) for event in events) == 1
        # The prompt is computed once; each choice that could not fork computes at most what is in no whole block.
        assert sum(map(sum, engine.runner.steps)) <= 41 + 5 * 5 + 5 * BLOCK
        await engine.settled()


@pytest.mark.parametrize(("max_running", "num_blocks"), [(8, 200), (2, 200), (8, 15)])
async def test_choice_i_of_n_is_what_seed_plus_i_gives_alone(max_running: int, num_blocks: int) -> None:
    async with site(num_blocks, max_running=max_running) as engine:
        prompt = prompt_of(22)
        together = await engine.ask(prompt, 12, n=4, temperature=1.0, seed=5)
        replies = [said(together, i) for i in range(4)]
        for i in range(4):
            assert replies[i] == said(await engine.ask(prompt, 12, temperature=1.0, seed=5 + i))
        assert len(set(map(tuple, replies))) > 1
        await engine.settled()


async def test_a_reply_that_starts_again_for_want_of_room_repeats_nothing() -> None:
    async with site(num_blocks=12) as engine:
        prompts = [prompt_of(12, n) for n in range(4)]
        replies = await asyncio.gather(*(engine.ask(prompt, 30) for prompt in prompts))  # 11 blocks each
        assert [said(events) for events in replies] == [reply_to(prompt, 30) for prompt in prompts]
        assert [sum(isinstance(e, Prefilled) for e in events) for events in replies] == [1] * 4
        await engine.settled()


async def test_pins_give_way_to_a_prompt_that_could_not_run_beside_them_soonest_end_first() -> None:
    async with site(num_blocks=16) as engine:
        assert engine.loop is not None
        await engine.ask(prompt_of(12, 1), 0, pin_s=3600)  # 3 of 16 blocks
        await engine.ask(prompt_of(20, 4), 0, pin_s=60)  # 5 more
        big, small = prompt_of(44, 2), prompt_of(12, 3)
        replies = await asyncio.gather(engine.ask(big), engine.ask(small))  # 13 blocks beside 3 pinned ones
        assert [said(events) for events in replies] == [reply_to(big, 8), reply_to(small, 8)]
        leases = engine.loop.cache.leases
        assert [lease.num_tokens for lease in leases] == [12]
        assert leases.num_given_way == 1
        await engine.settled()


async def test_pins_give_way_to_a_reply_that_grows_into_them() -> None:
    async with site(num_blocks=16) as engine:
        assert engine.loop is not None
        await engine.ask(prompt_of(32, 1), 0, pin_s=3600)  # 8 of 16 blocks
        prompt = prompt_of(20, 2)
        assert said(await engine.ask(prompt, 40)) == reply_to(prompt, 40)  # 15 blocks
        assert not list(engine.loop.cache.leases)
        await engine.settled()


async def test_more_pins_than_may_be_are_refused_but_the_prompt_is_cached() -> None:
    async with site(num_blocks=16) as engine:
        with pytest.raises(RequestError) as caught:
            await engine.ask(prompt_of(36), 0, pin_s=3600)  # 9 of 16 blocks
        assert (caught.value.status, caught.value.code) == (409, "not_pinned")
        (first, *_) = await engine.ask(prompt_of(36), 0)
        assert isinstance(first, Prefilled)
        assert first.reuse.computed == 0
        await engine.settled()


async def test_the_books_are_checked_once_when_all_is_quiet_and_a_fault_is_told() -> None:
    async with site() as engine:
        assert engine.loop is not None
        await engine.ask([1, 2, 3])
        async with asyncio.timeout(WAIT_S):
            while engine.loop.checked_at is None:
                await asyncio.sleep(0.01)
        assert engine.faults == []
        await engine.call(lambda: engine.cache.device.take(1))  # a block that nobody names: leaked
        async with asyncio.timeout(WAIT_S):
            while not engine.faults:
                await asyncio.sleep(0.01)
        assert "held 0 times and counted 1 times" in engine.faults[0]


async def test_a_fault_in_the_loop_itself_is_told_and_nobody_waits_for_ever() -> None:
    async with site() as engine:
        assert engine.loop is not None
        gate = Gate(engine.runner)
        running = engine.submit([1, 2, 3], 1000)
        await gate.reached()

        def broken(_now: float) -> None:
            raise KeyError("a bug")

        engine.cache.poll = broken  # type: ignore[method-assign]
        gate.allow(1)
        async with asyncio.timeout(WAIT_S):
            events = [event async for event in running]
            assert not any(isinstance(event, Finished) for event in events)
            assert [event async for event in engine.submit([4])] == []
        assert len(engine.faults) == 1
        assert "KeyError" in engine.faults[0]
        assert engine.loop.call(lambda: None).cancelled()


async def test_a_call_runs_between_steps_and_its_error_goes_to_the_caller() -> None:
    async with site() as engine:
        assert await engine.call(lambda: threading.current_thread().name) == "engine-loop"
        with pytest.raises(ZeroDivisionError):
            await engine.call(lambda: 1 // 0)
        assert said(await engine.ask([1])) == reply_to([1], 8)


async def test_closing_ends_running_waiting_and_later_tickets_and_calls() -> None:
    async with site(max_running=1) as engine:
        assert engine.loop is not None
        gate = Gate(engine.runner)
        running, waiting = engine.submit(prompt_of(20), 1000), engine.submit([2])
        gate.allow(2)
        events = aiter(running)
        assert isinstance(await anext(events), Prefilled)
        closing = asyncio.create_task(asyncio.to_thread(engine.loop.close))
        while not engine.loop._is_closed:
            await asyncio.sleep(0.001)
        gate.allow(1)
        async with asyncio.timeout(WAIT_S):
            await closing
            assert not any(isinstance(event, Finished) for event in [event async for event in events])
            assert [event async for event in waiting] == []
            assert [event async for event in engine.submit([3])] == []
        assert engine.loop.call(lambda: None).cancelled()
        assert engine.cache._holds == set()
        engine.cache.check_integrity()
        assert len(engine.runner.steps) <= 3


@pytest.mark.parametrize("write", ["through", "back"])
async def test_random_requests_and_cancels_leave_right_replies_and_clean_books(
    write: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a busy machine loads may take longer than this toy's computing, and then nothing would come from the host.
    monkeypatch.setattr(loading, "worth_loading", lambda *_: True)
    draw = random.Random(7)
    async with site(60, host_slots=80, write=write, max_running=6, reserve_blocks=6) as engine:

        async def one(number: int) -> None:
            # Few beginnings, which many share, so that there are hits in every tier, forks and prefixes in the making.
            prompt = prompt_of(draw.randint(1, 60), draw.randrange(3)) + [draw.randrange(8)] * draw.randint(
                0, 9
            )
            num_tokens, n = draw.randint(0, 24), draw.choice([1, 1, 1, 3])
            num_events = draw.choice([None, None, 0, 1, 5])
            salt, is_volatile = draw.choice([b"", b"", b"other"]), draw.random() < 0.1
            await asyncio.sleep(draw.random() * 0.3)
            ticket = engine.submit(
                prompt, num_tokens, n=n if num_tokens else 1, salt=salt, is_volatile=is_volatile
            )
            events: list[Event] = []
            if num_events != 0:
                async for event in ticket:
                    events.append(event)
                    if len(events) == num_events:
                        break
            ticket.close()
            if num_events is None:
                for index in range(n if num_tokens else 1):
                    assert said(events, index) == reply_to(prompt, num_tokens), number

        async with asyncio.timeout(60):
            await asyncio.gather(*(one(number) for number in range(200)))
        await engine.settled()
        assert engine.faults == []
        hits = engine.cache.num_hit_tokens
        assert hits[Tier.DEVICE] > 0
        assert hits[Tier.HOST] > 0
