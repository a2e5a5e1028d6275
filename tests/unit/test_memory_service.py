"""Agents open and close while they are used: one caller at a time in a store, nobody left behind, bounds kept."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from openclaw_cache.errors import MemoryStoreError
from openclaw_cache.memory import finding
from openclaw_cache.memory.record import Filter
from openclaw_cache.memory.store import MemoryStore
from openclaw_cache.memory.vectors import AgentVectors
from openclaw_cache.memory.writing import NewMemory, add
from support.memory_service import indexed, memory_service, store
from support.scripted_embedder import ScriptedEmbedder


async def test_work_on_one_store_runs_one_at_a_time_and_in_order(tmp_path: Path) -> None:
    running, most, order = 0, 0, []
    lock = threading.Lock()

    def work(number: int) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        threading.Event().wait(0.002)
        with lock:
            running -= 1
            order.append(number)

    async with memory_service(tmp_path) as service, service.agent("default", "main") as memory:
        await asyncio.gather(*(memory.run(lambda _store, n=n: work(n)) for n in range(20)))  # type: ignore[misc]
    assert (most, order) == (1, list(range(20)))


async def test_other_agents_go_on_while_one_is_busy(tmp_path: Path) -> None:
    done = threading.Event()
    async with memory_service(tmp_path) as service, service.agent("default", "busy") as busy:
        waiting = asyncio.create_task(busy.run(lambda _store: done.wait(20)))
        await store(service, "other", "a fact")
        assert not waiting.done()
        done.set()
        assert await waiting


async def test_a_caller_that_is_cancelled_ends_when_its_work_has_ended(tmp_path: Path) -> None:
    begun, done, ended = threading.Event(), threading.Event(), threading.Event()

    def work(_store: MemoryStore) -> None:
        begun.set()
        done.wait(20)
        ended.set()

    async with memory_service(tmp_path) as service, service.agent("default", "main") as memory:
        task = asyncio.create_task(memory.run(work))
        await asyncio.to_thread(begun.wait, 20)
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0)
        assert not task.done(), "its work still has the store"
        done.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended.is_set()
        assert await memory.run(lambda _store: "next") == "next"


async def test_a_caller_that_is_cancelled_while_its_store_opens_leaves_it_to_be_closed(
    tmp_path: Path,
) -> None:
    async with memory_service(tmp_path, max_open=1) as service:
        for number in range(5):

            async def enter(agent: str = f"agent-{number}") -> None:
                async with service.agent("default", agent):
                    await asyncio.sleep(60)

            task = asyncio.create_task(enter())
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        async with asyncio.timeout(20):
            while service.status()["num_open"] > 1:
                await store(service, "last", "a fact")


async def test_many_agents_with_few_open_lose_nothing(tmp_path: Path) -> None:
    names = [f"agent-{number}" for number in range(12)]
    embedder = ScriptedEmbedder()
    async with memory_service(tmp_path, embedder, max_open=3) as service:
        for _ in range(2):
            await asyncio.gather(*(store(service, name, f"{name} says {_}") for name in names))
        for name in names:
            await indexed(service, name)
            async with service.agent("default", name) as memory:
                found = await finding.find(memory, name, Filter(of="memory"))
                assert {one.text for one in found.memories} == {f"{name} says 0", f"{name} says 1"}
        assert service.status()["num_open"] <= 4  # the one that was used last may still be on its way back


async def test_vectors_are_loaded_again_for_a_store_that_was_closed(tmp_path: Path) -> None:
    embedder = ScriptedEmbedder()
    async with memory_service(tmp_path, embedder, max_open=1) as service:
        await store(service, "main", "the cat sleeps", "a dog barks")
        await indexed(service, "main")
        for _ in range(2):
            async with service.agent("default", "main") as memory:
                found = await finding.find(memory, "cat", Filter(of="memory"), mode="vector")
            assert found.memories[0].text == "the cat sleeps"
            assert found.degraded == ()
            await store(service, "other", "x")
        assert embedder.asked.count("the cat sleeps") == 1


async def test_a_search_that_loads_vectors_finds_what_is_stored_meanwhile(tmp_path: Path) -> None:
    embedder = ScriptedEmbedder()
    async with memory_service(tmp_path, embedder) as service:
        await store(service, "main", *(f"fact {i}" for i in range(100)))
        await indexed(service, "main")
        async with service.agent("default", "main") as memory:
            loading = asyncio.create_task(finding.find(memory, "fact", Filter(of="memory"), mode="vector"))
            await store(service, "main", "zebra crossing")
            await loading
            await indexed(service, "main")
            found = await finding.find(memory, "zebra", Filter(of="memory"), mode="vector")
        assert found.memories[0].text == "zebra crossing"


async def test_a_forgotten_or_changed_memory_is_no_longer_found_by_its_vector(tmp_path: Path) -> None:
    embedder = ScriptedEmbedder()
    async with memory_service(tmp_path, embedder) as service:
        await store(service, "main", "the cat sleeps", "a dog barks")
        await indexed(service, "main")
        async with service.agent("default", "main") as memory:
            found = await finding.find(memory, "cat", Filter(of="memory"), mode="vector")
            vectors = memory.vectors
            assert vectors is not None
            assert len(vectors.index) == 2
            await memory.forget([found.memories[0].id])
            assert len(vectors.index) == 1
            left = await finding.find(memory, "cat", Filter(of="memory"), mode="vector")
        assert [one.text for one in left.memories] == ["a dog barks"]


async def test_work_that_waits_for_a_removed_agent_fails_and_the_next_finds_it_empty(tmp_path: Path) -> None:
    done = threading.Event()
    async with memory_service(tmp_path) as service:
        await store(service, "main", "a fact")
        async with service.agent("default", "main") as memory:
            busy = asyncio.create_task(memory.run(lambda _store: done.wait(20)))
            await asyncio.sleep(0)
            removing = asyncio.create_task(service.remove("default", "main"))
            async with asyncio.timeout(20):
                while not memory._lock._waiters:
                    await asyncio.sleep(0.001)
            late = asyncio.create_task(memory.run(lambda store: store.stats(None)))
            done.set()
            assert await busy
            assert await removing
            with pytest.raises(MemoryStoreError) as failed:
                await late
        assert failed.value.code == "removed"
        async with service.agent("default", "main") as memory:
            stats = await memory.run(lambda store: store.stats(None))
        assert stats.num_memories == 0


async def test_a_question_that_comes_in_no_time_goes_on_with_words(tmp_path: Path) -> None:
    embedder = ScriptedEmbedder()
    embedder.gate.clear()
    async with memory_service(tmp_path, embedder, wait_s=0.05) as service:
        await store(service, "main", "the cat sleeps")
        async with service.agent("default", "main") as memory:
            found = await finding.find(memory, "cat", Filter(of="memory"))
        assert [one.text for one in found.memories] == ["the cat sleeps"]
        assert found.degraded == ("embedding_failed",)
        embedder.gate.set()


async def test_what_is_stored_twice_at_once_is_stored_once(tmp_path: Path) -> None:
    async with memory_service(tmp_path) as service:

        async def put() -> str:
            async with service.agent("default", "main") as memory:
                news = [NewMemory(text="the same")]
                (added,) = await memory.run(lambda store: add(store, news, memory.now()))
                return added.memory.id

        ids = await asyncio.gather(*(put() for _ in range(8)))
        assert len(set(ids)) == 1


async def test_a_service_that_ends_closes_its_files(tmp_path: Path) -> None:
    async with memory_service(tmp_path, ScriptedEmbedder()) as service:
        await store(service, "main", "a fact")
    fds = [Path(f"/proc/self/fd/{fd}") for fd in (path.name for path in Path("/proc/self/fd").iterdir())]
    opened = [str(fd.readlink()) for fd in fds if fd.exists()]
    assert not [path for path in opened if str(tmp_path) in path]


async def test_vectors_that_take_long_to_load_hold_up_only_who_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = threading.Event()
    load_some = AgentVectors.load_some

    def slow(vectors: AgentVectors, store: MemoryStore) -> bool:
        load_some(vectors, store)
        vectors.is_loaded = gate.is_set()  # until then, as if there were ever more
        return not vectors.is_loaded

    embedder = ScriptedEmbedder()
    async with memory_service(tmp_path, embedder, wait_s=0.2) as service:
        await store(service, "main", "the cat sleeps")
        await indexed(service, "main")
        monkeypatch.setattr(AgentVectors, "load_some", slow)
        async with service.agent("default", "main") as memory:
            waits = []
            for _ in range(5):
                began = asyncio.get_running_loop().time()
                found = await finding.find(memory, "cat", Filter(of="memory"))
                waits.append(asyncio.get_running_loop().time() - began)
                assert [one.text for one in found.memories] == ["the cat sleeps"]
                assert found.degraded == ("vectors_loading",)
            assert waits[0] >= 0.2
            assert memory._loading is not None
            assert not memory._loading.done()
            gate.set()
            await memory._loading
            assert (await finding.find(memory, "cat", Filter(of="memory"))).degraded == ()
