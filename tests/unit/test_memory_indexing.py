"""Passages get their vectors behind the requests: the newest first, agents in turn, through failures and restarts."""

from __future__ import annotations

from pathlib import Path

import pytest

from openclaw_cache.memory import finding, indexing
from openclaw_cache.memory.record import Filter
from support.memory_service import degraded, indexed, memory_service, num_waiting, store, until
from support.scripted_embedder import ScriptedEmbedder


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexing, "_FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(indexing, "_LONGEST_PAUSE_S", 0.02)


async def test_nothing_is_loaded_before_something_is_stored_or_asked(tmp_path: Path) -> None:
    embedder = ScriptedEmbedder()
    async with memory_service(tmp_path, embedder) as service:
        async with service.agent("default", "main") as memory:
            await memory.run(lambda store: store.stats(None))
        assert (service.embedder.state, embedder.num_starts) == ("idle", 0)
        await store(service, "main", "a fact")
        await indexed(service, "main")
        assert service.embedder.state == "ready"
        assert embedder.asked == ["a fact"]


async def test_the_newest_passages_come_first(tmp_path: Path) -> None:
    embedder = ScriptedEmbedder()
    embedder.gate.clear()
    async with memory_service(tmp_path, embedder) as service:
        await store(service, "main", *(f"fact {i}" for i in range(indexing.BATCH)))
        await until(lambda: bool(embedder.asked))
        await store(service, "main", "the newest")
        embedder.gate.set()
        await indexed(service, "main")
    assert embedder.asked[indexing.BATCH] == "the newest"
    assert len(embedder.asked) == indexing.BATCH + 1


async def test_an_agent_with_little_does_not_wait_for_one_with_much(tmp_path: Path) -> None:
    embedder = ScriptedEmbedder()
    embedder.gate.clear()
    async with memory_service(tmp_path, embedder) as service:
        await store(service, "large", *(f"fact {i}" for i in range(10 * indexing.BATCH)))
        await store(service, "small", "my only fact")
        embedder.gate.set()
        await indexed(service, "small")
        await indexed(service, "large")
    # A batch may be under way, and the agent may be queued once more by the look through all agents at the start.
    assert embedder.asked.index("my only fact") <= 2 * indexing.BATCH


async def test_while_the_embedder_fails_everything_waits_and_it_is_counted_once(tmp_path: Path) -> None:
    embedder = ScriptedEmbedder()
    async with memory_service(tmp_path, embedder) as service:
        await store(service, "main", "first")
        await indexed(service, "main")
        embedder.is_down = True
        await store(service, "main", "second")
        await until(lambda: service.indexing.is_paused)
        await until(lambda: len(embedder.asked) > 5)
        assert await num_waiting(service, "main") == 1
        assert degraded(service, "memory_embedding") == 1
        embedder.is_down = False
        await indexed(service, "main")
        assert not service.indexing.is_paused


async def test_a_text_that_the_embedder_cannot_read_keeps_no_other_from_its_vector(tmp_path: Path) -> None:
    embedder = ScriptedEmbedder()
    embedder.poison = "poison"
    async with memory_service(tmp_path, embedder) as service:
        await store(service, "main", "good one", "some poison", "good two")
        await indexed(service, "main")
        assert not service.indexing.is_paused
        async with service.agent("default", "main") as memory:
            found = await finding.find(memory, "one", Filter(of="memory"), mode="vector")
        texts = [one.text for one in found.memories]
        assert texts[0] == "good one"
        assert "some poison" not in texts


async def test_what_waits_when_the_process_ends_goes_on_after_the_next_start(tmp_path: Path) -> None:
    embedder = ScriptedEmbedder()
    async with memory_service(tmp_path, embedder) as service:
        await store(service, "main", "before")
        await indexed(service, "main")
        embedder.is_down = True
        await store(service, "main", "left over")
    again = ScriptedEmbedder()
    async with memory_service(tmp_path, again) as service:
        await until(lambda: bool(again.asked))
        await indexed(service, "main")
    assert again.asked == ["left over"]


async def test_where_nothing_waits_a_start_loads_nothing(tmp_path: Path) -> None:
    async with memory_service(tmp_path, ScriptedEmbedder()) as service:
        await store(service, "main", "before")
        await indexed(service, "main")
    again = ScriptedEmbedder()
    async with memory_service(tmp_path, again) as service:
        await until(lambda: not service._tasks)
        assert (service.embedder.state, again.num_starts) == ("idle", 0)


async def test_another_embedder_embeds_all_anew(tmp_path: Path) -> None:
    async with memory_service(tmp_path, ScriptedEmbedder("scripted:1")) as service:
        for agent in ("one", "two"):
            await store(service, agent, "a fact")
            await indexed(service, agent)
    other = ScriptedEmbedder("scripted:2")
    async with memory_service(tmp_path, other) as service:
        await store(service, "three", "wakes it")
        for agent in ("one", "two", "three"):
            await indexed(service, agent, "scripted:2")
    assert sorted(other.asked) == ["a fact", "a fact", "wakes it"]


async def test_what_was_stored_without_an_embedder_gets_vectors_when_there_is_one(tmp_path: Path) -> None:
    async with memory_service(tmp_path) as service:
        await store(service, "main", "a fact")
        assert service.embedder.state == "off"
    embedder = ScriptedEmbedder()
    async with memory_service(tmp_path, embedder) as service:
        await indexed(service, "main")
    assert embedder.asked == ["a fact"]


async def test_an_agent_that_is_removed_meanwhile_holds_nobody_up(tmp_path: Path) -> None:
    embedder = ScriptedEmbedder()
    embedder.gate.clear()
    async with memory_service(tmp_path, embedder) as service:
        await store(service, "gone", *(f"fact {i}" for i in range(3)))
        await until(lambda: bool(embedder.asked))
        await store(service, "main", "stays")
        assert await service.remove("default", "gone")
        embedder.gate.set()
        await indexed(service, "main")
        assert [row.agent for row in await service.agents("default")] == ["main"]


async def test_questions_are_asked_of_their_own_embedder(tmp_path: Path) -> None:
    questions, passages = ScriptedEmbedder(), ScriptedEmbedder()
    async with memory_service(tmp_path, questions, passages) as service:
        await store(service, "main", "the cat sleeps")
        await indexed(service, "main")
        passages.gate.clear()  # busy with a long passage
        await store(service, "main", "another fact")
        async with service.agent("default", "main") as memory:
            found = await finding.find(memory, "cat", Filter(of="memory"), mode="vector")
        assert found.degraded == ()
        assert found.memories[0].text == "the cat sleeps"
        passages.gate.set()
    assert "cat" in questions.asked
    assert "cat" not in passages.asked
