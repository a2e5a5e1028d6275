"""What the context engine does around a turn: recorded sessions of OpenClaw, compaction, resets, forks, faults."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

import msgspec
import pytest

from openclaw_cache.errors import MemoryStoreError
from openclaw_cache.memory.context import sessions
from openclaw_cache.memory.context.engine import ContextEngine, Ended, RecallRules, Upcoming
from openclaw_cache.memory.context.host import RECALL_KEY, HostMessage
from openclaw_cache.memory.store import MemoryStore
from support import openclaw_turns
from support.talking_host import PlainAgent, TalkingHost, memory, prompt_of

pytest.importorskip("apsw")
from openclaw_cache.memory.sqlite.store import SqliteStore

T = TypeVar("T")
TEA = memory(1, "he drinks green tea")
CODE = memory(2, "codename atlas is bluefin")


@pytest.fixture
async def agent() -> AsyncIterator[PlainAgent]:
    store = SqliteStore.open(None, key=None)
    yield PlainAgent(store, [TEA, CODE])
    store.close()


@pytest.fixture
def engine() -> ContextEngine:
    return ContextEngine(RecallRules())


@pytest.fixture
def host(engine: ContextEngine, agent: PlainAgent) -> TalkingHost:
    return TalkingHost(engine, agent)


class FailingAgent(PlainAgent):
    """Its store fails from a given call on."""

    def __init__(self, store: MemoryStore, num_good: int) -> None:
        super().__init__(store, [TEA])
        self.num_good = num_good

    async def run(self, work: Callable[[MemoryStore], T]) -> T:
        self.num_good -= 1
        if self.num_good < 0:
            raise MemoryStoreError("the disk is gone", code="failed")
        return await super().run(work)


async def replay(
    engine: ContextEngine, agent: PlainAgent, name: str | None
) -> list[tuple[dict[str, Any], Any]]:
    """Tell the engine what OpenClaw told; returns each call with its answer."""
    answers: list[tuple[dict[str, Any], Any]] = []
    for n, call in enumerate(openclaw_turns.calls(name)):
        session, key, told = call["session_id"], call["session_key"], openclaw_turns.messages(call)
        answer: Any
        if call["call"] == "commit":
            answer = await engine.commit(
                agent, Ended(call["key"], session, told, key, call["is_heartbeat"]), float(n)
            )
        else:
            answer = await engine.assemble(
                agent, Upcoming(session, told, key, call["prompt"], 97_000), float(n)
            )
        answers.append((call, answer))
    return answers


def texts(content: Any) -> list[str]:
    return [content] if isinstance(content, str) else [p["text"] for p in content if p["type"] == "text"]


async def test_a_recorded_session_is_in_the_log_once_whole_and_in_order(
    engine: ContextEngine, agent: PlainAgent
) -> None:
    answers = await replay(engine, agent, "conv1")
    told = {m["timestamp"]: m for call, _ in answers for m in call["messages"]}
    logged = [m for t in agent.store.turns(answers[0][0]["session_id"], "", 100) for m in t.messages]
    assert [m.at for m in logged] == [t / 1000 for t in sorted(told)]
    assert all(texts(m.content) == texts(told[round(m.at * 1000)]["content"]) for m in logged)


async def test_a_turn_that_the_host_commits_again_and_again_is_a_duplicate(
    engine: ContextEngine, agent: PlainAgent
) -> None:
    answers = await replay(engine, agent, "conv1")
    statuses: dict[str, list[str]] = {}
    for call, answer in answers:
        if call["call"] == "commit":
            statuses.setdefault(call["key"], []).append(answer.status)
    assert max(map(len, statuses.values())) > 1, "the recording has a turn that came several times"
    assert all(s == ["committed", *["duplicate"] * (len(s) - 1)] for s in statuses.values())


async def test_what_was_never_committed_is_found_in_the_next_history(
    engine: ContextEngine, agent: PlainAgent
) -> None:
    # In the recording a turn ("while down 2") was answered by the host alone.
    answers = await replay(engine, agent, "conv1")
    assert sum(a.num_reconciled for c, a in answers if c["call"] == "assemble") == 2
    turns = agent.store.turns(answers[0][0]["session_id"], "", 100)
    (found,) = [t for t in turns if t.origin == "reconciled"]
    assert found.messages[0].content == "while down 2"
    assert [m.role for m in found.messages] == ["user", "assistant"]


async def test_the_reply_to_a_sub_agents_announcement_is_kept_though_the_host_hides_it_in_another(
    engine: ContextEngine, agent: PlainAgent
) -> None:
    answers = await replay(engine, agent, "sub2")
    last = next(c for c, _ in reversed(answers) if c["call"] == "assemble")
    merged = texts(last["messages"][-1]["content"])
    assert len(merged) == 2
    logged = [
        t
        for turn in agent.store.turns(last["session_id"], "", 100)
        for m in turn.messages
        for t in texts(m.content)
    ]
    assert [text for text in logged if text in merged] == merged


async def test_after_compaction_the_log_still_has_all_and_no_summary(
    engine: ContextEngine, agent: PlainAgent
) -> None:
    answers = await replay(engine, agent, "sm2")
    committed = {m["timestamp"] / 1000 for c, _ in answers if c["call"] == "commit" for m in c["messages"]}
    logged = [m.at for t in agent.store.turns(answers[0][0]["session_id"], "", 100) for m in t.messages]
    assert sorted(logged) == sorted(committed)


async def test_heartbeats_are_marked_recalled_for_by_none_and_capture_nothing(
    engine: ContextEngine, agent: PlainAgent
) -> None:
    agent.memories.append(memory(3, "Follow the heartbeat monitor"))
    answers = await replay(engine, agent, "main")
    polls = [a for c, a in answers if c["call"] == "assemble" and c["prompt"].startswith("Follow")]
    assert polls
    assert all(a.num_recalled == 0 for a in polls)
    turns = agent.store.turns(answers[0][0]["session_id"], "", 100)
    assert {t.is_heartbeat for t in turns if t.messages[0].content == "[OpenClaw heartbeat poll]"} == {True}
    assert not any("heartbeat" in str(m.content) for m in agent.captured)
    assert any("4711" in str(m.content) for m in agent.captured)


async def test_nothing_that_a_sub_agent_is_told_is_captured(engine: ContextEngine, agent: PlainAgent) -> None:
    await replay(engine, agent, "subagent")
    assert agent.store.stats(None).num_turns == 1
    assert agent.captured == []


async def test_a_recall_stands_before_its_turn_and_stays_there(host: TalkingHost) -> None:
    await host.turn("hello there")
    await host.turn("which tea ?")
    assert prompt_of(host.transcript[:2], host.assembled)[2:] == [("user", f"- {TEA.text}")]
    await host.turn("and now ?")
    assert [i.index for i in host.assembled.insertions] == [2]
    await host.turn("the codename ?")
    assert [(i.index, i.text) for i in host.assembled.insertions] == [
        (2, f"- {TEA.text}"),
        (6, f"- {CODE.text}"),
    ]


async def test_what_is_visible_is_not_recalled(host: TalkingHost) -> None:
    await host.turn("so he drinks  Green TEA")
    assert host.assembled.num_recalled == 0, "it stands in the prompt itself"
    await host.turn("which tea ?")
    assert host.assembled.num_recalled == 0, "it stands in the history"
    await host.turn("the codename ?")
    await host.turn("the codename again ?")
    assert host.assembled.num_recalled == 0, "it stands in a recall"
    assert len(host.assembled.insertions) == 1


async def test_what_compaction_took_away_is_recalled_again(host: TalkingHost) -> None:
    await host.turn("which tea ?")
    await host.turn("go on")
    host.compact(4)
    await host.turn("which tea was it ?")
    assert [(i.index, i.text) for i in host.assembled.insertions] == [(1, f"- {TEA.text}")]


async def test_the_first_turns_recall_goes_with_the_first_turn(host: TalkingHost) -> None:
    await host.turn("which tea ?")
    await host.turn("go on")
    assert [i.index for i in host.assembled.insertions] == [0]
    host.compact(2)
    await host.turn("go on")
    assert host.assembled.insertions == ()


async def test_a_session_that_is_reset_under_its_own_id_begins_anew_and_keeps_its_prefix(
    host: TalkingHost,
) -> None:
    await host.turn("which tea ?")
    await host.turn("go on")
    host.transcript.clear()
    host.sent.clear()
    await host.turn("the codename ?")
    assert [i.text for i in host.assembled.insertions] == [f"- {CODE.text}"]
    await host.turn("go on")
    assert [(i.index, i.text) for i in host.assembled.insertions] == [(0, f"- {CODE.text}")]


async def test_a_turn_asked_again_in_other_words_gets_a_recall_of_its_own(host: TalkingHost) -> None:
    await host.turn("hello there")
    await host.turn("which tea ?", fails=True)
    assert len(host.assembled.insertions) == 1
    await host.turn("the codename ?")
    assert [i.text for i in host.assembled.insertions] == [f"- {CODE.text}"]


async def test_a_heartbeat_in_place_of_a_failed_turn_does_not_show_its_recall(host: TalkingHost) -> None:
    await host.turn("hello there")
    await host.turn("which tea ?", fails=True)
    await host.turn("[OpenClaw heartbeat poll]")
    assert host.assembled.insertions == ()


async def test_a_turn_that_is_assembled_again_without_its_prompt_keeps_its_recall(host: TalkingHost) -> None:
    await host.turn("hello there")
    first = await host.assemble("which tea ?")
    again = await host.assemble(None, budget=40_000)
    assert again.insertions == first.insertions != ()


async def test_that_nothing_was_found_is_remembered_too(host: TalkingHost) -> None:
    await host.assemble("of kiwis")
    host.agent.memories.append(memory(4, "of kiwis he eats two"))
    assert (await host.assemble("of kiwis")).insertions == ()
    assert host.agent.num_recalls == 1


async def test_what_we_inserted_is_not_inserted_twice_nor_kept(host: TalkingHost) -> None:
    await host.turn("hello there")
    first = await host.assemble("which tea ?")
    shown = HostMessage("user", first.insertions[0].text, 1.0, f"{RECALL_KEY}:1")
    host.transcript.append(shown)
    assert (await host.assemble("which tea ?")).insertions == ()
    assert shown.content not in [m.content for t in host.agent.store.turns("s1", "", 9) for m in t.messages]


async def test_an_index_counts_the_messages_that_were_given(host: TalkingHost) -> None:
    await host.turn("hello there")
    await host.turn("which tea ?")
    host.transcript.insert(1, HostMessage("user", "old", 1.0, f"{RECALL_KEY}:old"))
    again = await host.assemble("go on")
    assert [i.index for i in again.insertions] == [3]


async def test_a_fork_shows_its_parents_recalls_and_logs_none_of_its_messages(
    host: TalkingHost, engine: ContextEngine, agent: PlainAgent
) -> None:
    await host.turn("which tea ?")
    await host.turn("go on")
    assert sessions.announce_fork(agent.store, None, host.key, None, "agent:main:subagent:1")
    child = TalkingHost(engine, agent, "child")
    child.key, child.transcript, child.now_ms = "agent:main:subagent:1", list(host.transcript), host.now_ms
    await child.turn("which tea ?")
    assert [(i.index, i.text) for i in child.assembled.insertions] == [(0, f"- {TEA.text}")]
    await child.turn("go on")
    assert [len(t.messages) for t in agent.store.turns("child", "", 9)] == [2, 2]
    assert child.sent[0][1][:5] == host.sent[1][1][:3] + child.sent[0][1][3:5]


async def test_a_session_that_only_shares_a_key_inherits_nothing(
    host: TalkingHost, engine: ContextEngine, agent: PlainAgent
) -> None:
    await host.turn("which tea ?")
    new = TalkingHost(engine, agent, "s2")
    new.key, new.now_ms = host.key, host.now_ms
    await new.turn("hello there")
    await new.turn("go on")
    assert new.assembled.insertions == ()
    assert sessions.lineage(agent.store, "s2") == "s2"


async def test_a_session_that_goes_on_under_a_new_id_keeps_recalls_and_log(
    host: TalkingHost, engine: ContextEngine, agent: PlainAgent
) -> None:
    await host.turn("which tea ?")
    await host.turn("go on")
    host.session = "s2"
    await host.turn("go on again")
    assert [i.index for i in host.assembled.insertions] == [0]
    assert agent.store.stats(None).num_messages == 6


async def test_a_rolled_back_session_leaves_nothing(host: TalkingHost, agent: PlainAgent) -> None:
    await host.turn("which tea ?")
    assert sessions.roll_back(agent.store, None, host.key) == 1
    assert agent.store.stats(None).num_messages == 0
    assert agent.store.recalls("s1") == []


async def test_a_session_that_began_somewhere_else_is_not_known_to_fork_from(agent: PlainAgent) -> None:
    assert not sessions.announce_fork(agent.store, None, "agent:main:nobody", None, "agent:main:subagent:1")


@pytest.mark.parametrize("num_good", [0, 1, 2])
async def test_a_store_that_fails_costs_what_it_holds_and_never_the_turn(
    engine: ContextEngine, num_good: int
) -> None:
    store = SqliteStore.open(None, key=None)
    agent = FailingAgent(store, num_good)
    told = [HostMessage("user", "hi", 1000.0), HostMessage("assistant", "hello", 2000.0)]
    found = await engine.assemble(agent, Upcoming("s", told, None, "which tea ?", 97_000), 3.0)
    expected = {0: ("store",), 1: ("log", "recall"), 2: ("recall",)}
    assert (found.insertions, found.degraded) == ((), expected[num_good])
    with pytest.raises(MemoryStoreError):
        await engine.commit(agent, Ended("k", "s", told), 3.0)
    store.close()


async def test_a_turn_whose_reply_was_lost_is_captured_once_and_a_duplicate(host: TalkingHost) -> None:
    said = [host.message("user", "I live in Oslo"), host.message("assistant", "noted")]
    assert await host.commit(said, "k") == "committed"
    assert await host.commit(said, "k") == "duplicate"
    assert len(host.agent.captured) == 1


async def test_a_turn_that_was_found_in_a_history_is_a_duplicate_when_it_is_committed(
    host: TalkingHost,
) -> None:
    said = [host.message("user", "I live in Oslo"), host.message("assistant", "noted")]
    host.transcript += said
    assert (await host.assemble("go on")).num_reconciled == 2
    assert await host.commit(said, "k") == "duplicate"
    assert host.agent.store.stats(None).num_turns == 1


async def test_the_same_key_in_two_sessions_is_two_turns(engine: ContextEngine, agent: PlainAgent) -> None:
    for session in ("a", "b"):
        done = await engine.commit(agent, Ended("1", session, [HostMessage("user", "hi", 5.0)]), 6.0)
        assert done.status == "committed"


async def test_turns_without_times_are_kept_each(engine: ContextEngine, agent: PlainAgent) -> None:
    for key in ("1", "2"):
        done = await engine.commit(agent, Ended(key, "a", [HostMessage("user", "yes")]), 6.0)
        assert done.status == "committed"
    assert agent.store.stats(None).num_messages == 2


async def test_what_the_host_tells_the_model_in_passing_is_not_kept(
    engine: ContextEngine, agent: PlainAgent
) -> None:
    told = [
        HostMessage("user", "hi", 1000.0),
        HostMessage("custom", "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>\nnone", 1001.0),
        HostMessage("custom", "hidden", 1002.0, exclude_from_context=True),
        HostMessage("custom", "a note", 1003.0),
    ]
    await engine.commit(agent, Ended("1", "a", told), 6.0)
    (turn,) = agent.store.turns("a", "", 9)
    assert [m.content for m in turn.messages] == ["hi", "a note"]


async def test_a_long_history_comes_into_the_log_over_several_turns_oldest_first(agent: PlainAgent) -> None:
    slow = TalkingHost(ContextEngine(RecallRules(), reconcile_s=0), agent)
    for n in range(3):
        slow.transcript += [slow.message("user", f"question {n}"), slow.message("assistant", f"answer {n}")]
    told = [await slow.assemble("go on") for _ in range(4)]
    assert [(a.num_reconciled, a.degraded) for a in told] == [(2, ("log",)), (2, ("log",)), (2, ()), (0, ())]
    logged = [m.content for t in agent.store.turns("s1", "", 9) for m in t.messages]
    assert logged == ["question 0", "answer 0", "question 1", "answer 1", "question 2", "answer 2"]


async def test_recalls_stop_at_four_fifths_of_a_tenth_of_the_room_and_stay_in_a_smaller_one(
    host: TalkingHost,
) -> None:
    host.agent.memories[:] = [memory(n, f"tea {n} " + "leaf " * 17) for n in range(30)]
    for _ in range(6):
        await host.turn("which tea ?", budget=1000)
    # Twenty tokens a line, eighty of a hundred in all; the rest is for turns with less room.
    assert sum(len(i.text.split()) for i in host.assembled.insertions) == 80
    await host.turn("which tea ?", budget=800)
    assert sum(len(i.text.split()) for i in host.assembled.insertions) == 80
    await host.turn("which tea ?", budget=799)
    assert sum(len(i.text.split()) for i in host.assembled.insertions) < 80


def test_a_message_of_another_shape_is_refused_and_one_with_more_fields_read() -> None:
    assert msgspec.convert({"role": "user", "usage": {"input": 1}}, HostMessage).content is None
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"content": "no role"}, HostMessage)
