"""What is inserted keeps each prompt the beginning of the next, within bounds, the same whenever it is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw_cache.memory import writing
from openclaw_cache.memory.context.engine import Assembled, ContextEngine, RecallRules
from support.talking_host import PlainAgent, TalkingHost, memory, prompt_of

pytest.importorskip("apsw")
from openclaw_cache.memory.sqlite.store import SqliteStore

WORDS = ["tea", "rust", "berlin", "茶", "deadline", "kiwi", "vim", "helix"]
MEMORIES = [
    memory(i, f"note {i} about {a} and {b}")
    for i, (a, b) in enumerate(zip(WORDS * 3, WORDS[1:] * 3, strict=False))
]


@dataclass(frozen=True)
class Step:
    """One thing that a host does."""

    name: str
    number: int = 0
    word: str = ""
    budget: int = 100_000
    commits: bool = True


words = st.sampled_from([*WORDS, "hello"])
budgets = st.integers(60_000, 100_000)
turns = st.builds(Step, st.just("turn"), st.integers(0, 2), words, budgets, st.booleans())
others = st.one_of(
    st.builds(Step, st.just("compact"), st.integers(1, 6)),
    st.builds(Step, st.just("take_back"), st.integers(1, 2)),
    st.builds(Step, st.just("fail"), st.just(0), words, budgets),
    st.builds(Step, st.just("heartbeat"), st.just(0), st.just(""), budgets, st.booleans()),
    st.builds(Step, st.just("prune")),
    st.builds(Step, st.just("again"), st.just(0), words, budgets),
)
scripts = st.lists(st.one_of(turns, turns, others), min_size=2, max_size=14)


async def play(host: TalkingHost, step: Step) -> None:
    match step.name:
        case "turn":
            await host.turn(
                f"tell of {step.word}", num_tools=step.number, budget=step.budget, commits=step.commits
            )
        case "fail":
            await host.turn(f"tell of {step.word}", budget=step.budget, fails=True)
        case "heartbeat":
            await host.turn("[OpenClaw heartbeat poll]", budget=step.budget, commits=step.commits)
        case "compact":
            host.compact(min(step.number, len(host.transcript)))
        case "take_back":
            host.take_back(step.number)
        case "prune":
            host.prune()
        case _:
            first = await host.assemble(f"tell of {step.word}", step.budget)
            second = await host.assemble(f"tell of {step.word}", step.budget)
            assert first.insertions == second.insertions


def run(
    body: Callable[[TalkingHost, PlainAgent], Coroutine[Any, Any, None]], rules: RecallRules | None = None
) -> None:
    store = SqliteStore.open(None, key=None)
    agent = PlainAgent(store, MEMORIES)
    try:
        asyncio.run(body(TalkingHost(ContextEngine(rules or RecallRules()), agent), agent))
    finally:
        store.close()


@given(scripts)
@settings(max_examples=60, deadline=None)
def test_a_prompt_begins_with_the_one_before_as_far_as_the_hosts_own_history_does(script: list[Step]) -> None:
    async def body(host: TalkingHost, _: PlainAgent) -> None:
        for step in script:
            await play(host, step)
        for (own, sent), (next_own, next_sent) in zip(host.sent, host.sent[1:], strict=False):
            if next_own[: len(own)] == own:
                assert next_sent[: len(sent)] == sent

    run(body, RecallRules(max_items=3, max_tokens=200))


@given(scripts, st.integers(100, 3000))
@settings(max_examples=40, deadline=None)
def test_all_recalls_of_a_prompt_stay_within_a_tenth_of_its_room(script: list[Step], budget: int) -> None:
    async def body(host: TalkingHost, _: PlainAgent) -> None:
        for step in script:
            await play(host, Step(step.name, step.number, step.word, budget, step.commits))
            tokens = sum(len(i.text.split()) for i in host.assembled.insertions)
            assert tokens <= budget / 10

    run(body)


@given(scripts, st.lists(st.integers(50, 3000), min_size=14, max_size=14))
@settings(max_examples=40, deadline=None)
def test_a_window_that_shrinks_holds_no_more_than_a_tenth_of_recalls(
    script: list[Step], rooms: list[int]
) -> None:
    async def body(host: TalkingHost, _: PlainAgent) -> None:
        for step, room in zip(script, rooms, strict=False):
            await play(host, Step(step.name, step.number, step.word, room, step.commits))
            if step.name in ("turn", "fail", "heartbeat"):
                assert sum(len(i.text.split()) for i in host.assembled.insertions) <= room / 10

    run(body)


@given(scripts)
@settings(max_examples=40, deadline=None)
def test_a_restart_changes_no_byte(script: list[Step]) -> None:
    async def body(host: TalkingHost, agent: PlainAgent) -> None:
        for step in script:
            await play(host, step)
        before = await host.assemble("tell of tea")
        host.engine = ContextEngine(RecallRules())
        host.agent = PlainAgent(agent.store, [])
        after = await host.assemble("tell of tea")
        assert prompt_of(host.transcript, after) == prompt_of(host.transcript, before)

    run(body)


@given(scripts)
@settings(max_examples=40, deadline=None)
def test_two_that_ask_at_once_get_the_same_bytes(script: list[Step]) -> None:
    async def body(host: TalkingHost, _: PlainAgent) -> None:
        for step in script:
            await play(host, step)
        first, second = await asyncio.gather(host.assemble("tell of kiwi"), host.assemble("tell of kiwi"))
        assert first.insertions == second.insertions

    run(body)


@given(scripts)
@settings(max_examples=40, deadline=None)
def test_the_log_has_each_message_of_the_host_once(script: list[Step]) -> None:
    async def body(host: TalkingHost, agent: PlainAgent) -> None:
        said: set[float] = set()
        for step in script:
            await play(host, step)
            said |= {m.timestamp for m in host.transcript if m.timestamp and m.role != "compactionSummary"}
        await host.assemble("tell of tea")
        # What was taken back or compacted before it was ever shown or committed nobody can have.
        lost = {m.timestamp for m in host.transcript if m.role != "compactionSummary"}
        logged = [m.at for t in agent.store.turns("s1", "", 1000) for m in t.messages]
        assert len(logged) == len(set(logged))
        assert {t / 1000 for t in lost if t} <= set(logged) <= {t / 1000 for t in said}

    run(body)


@given(scripts, st.integers(0, len(MEMORIES) - 1), scripts)
@settings(max_examples=40, deadline=None)
def test_what_is_forgotten_is_in_no_later_prompt_and_the_rest_stays(
    before: list[Step], number: int, after: list[Step]
) -> None:
    async def body(host: TalkingHost, agent: PlainAgent) -> None:
        agent.store.put(MEMORIES)
        for step in before:
            await play(host, step)
        last = await host.assemble(None)
        gone = MEMORIES[number]
        writing.forget(agent.store, [gone.id], 0.0)
        agent.memories.remove(gone)
        left = [line for line in _lines(last) if line != f"- {gone.text}"]
        assert _lines(await host.assemble(None)) == left
        for step in after:
            await play(host, step)
            assert f"- {gone.text}" not in _lines(host.assembled) or step.name not in (
                "turn",
                "heartbeat",
                "fail",
            )

    run(body, RecallRules(max_items=3, max_tokens=200))


def _lines(assembled: Assembled) -> list[str]:
    return [line for i in assembled.insertions for line in i.text.split("\n") if line.startswith("- ")]
