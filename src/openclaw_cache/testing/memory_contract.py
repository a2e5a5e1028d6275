"""What every store of an agent's memory does, and what one does that outlives its process."""
# ruff: noqa: S101 - these are tests: assert is how they speak

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import numpy as np
import pytest

from openclaw_cache.errors import MemoryStoreError, VersionConflictError
from openclaw_cache.memory.record import Filter, Stats
from openclaw_cache.memory.terms import TextQuery, text_query
from openclaw_cache.testing.memories_contract import MemoriesContract
from openclaw_cache.testing.memory_samples import memory, message, owners_by_words, recall, turn
from openclaw_cache.testing.passages_contract import PassagesContract
from openclaw_cache.testing.turns_contract import TurnsContract

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from openclaw_cache.memory.store import MemoryStore


class MemoryStoreContract(MemoriesContract, TurnsContract, PassagesContract):
    """What every `MemoryStore` does. A subclass gives the fixture `open_store`: it opens an empty store."""

    @pytest.fixture
    def store(self, open_store: Callable[[], MemoryStore]) -> Iterator[MemoryStore]:
        """An open store, empty for each test."""
        store = open_store()
        yield store
        store.close()

    def test_an_empty_store_says_so(self, store: MemoryStore) -> None:
        """Nothing is counted, nothing is dated."""
        stats = store.stats("fp")
        assert stats == Stats(
            num_memories=0,
            num_superseded=0,
            num_turns=0,
            num_messages=0,
            num_sessions=0,
            num_recalls=0,
            num_passages=0,
            num_without_vector=0,
            size_bytes=stats.size_bytes,
            oldest_at=None,
            newest_at=None,
        )
        assert store.match(TextQuery(("x",)), 10, Filter()) == []
        assert store.recent(10, Filter()) == []
        assert store.without_vector("fp", 10) == []
        assert store.turns(None, "", 10) == []

    def test_stats_count_what_is_there(self, store: MemoryStore) -> None:
        """Memories with the superseded ones, sessions that have turns, and the span of time."""
        store.put([memory("a", at=5.0), memory("b", at=3.0, supersedes=("a",))])
        store.put([memory("b", "changed", at=3.0, version=2, supersedes=("a",))])
        store.append(turn("t1", message("g1", at=9.0), message("g2", at=8.0), session="s1"))
        store.append(turn("t2", message("g3", at=7.0), session="s2"))
        store.put_recall(recall("r", "", ("a", "x"), session="s3"))
        stats = store.stats("fp")
        assert (stats.num_memories, stats.num_superseded) == (2, 1)
        assert (stats.num_turns, stats.num_messages, stats.num_sessions, stats.num_recalls) == (2, 3, 2, 1)
        assert (stats.num_passages, stats.num_without_vector) == (5, 5)
        assert (stats.oldest_at, stats.newest_at) == (3.0, 9.0)
        assert stats.size_bytes > 0

    def test_calls_together_are_one(self, store: MemoryStore) -> None:
        """All or none; a call that failed and was caught undoes itself only; each sees those before it."""
        store.put([memory("old", "zebra")])
        with pytest.raises(KeyError), store.together():  # noqa: PT012 - what is before it is what it undoes
            store.put([memory("a", "okapi")])
            store.append(turn("t", message("g", "okapi")))
            store.put_recall(recall("r", "", ("a", "okapi")))
            store.forget(["old"])
            raise KeyError
        assert store.get(["a", "old"]) == [None, memory("old", "zebra")]
        assert store.turns(None, "", 10) == []
        assert store.recalls("s") == []
        assert owners_by_words(store, "zebra okapi", Filter()) == ["old"]
        with store.together():
            store.put([memory("a", "okapi")])
            with pytest.raises(VersionConflictError):
                store.put([memory("b", "tapir"), memory("a", "again")])
            with store.together():
                store.append(turn("t", message("g", "giraffe")))
            assert store.versions("a") == store.get(["a"])
            assert store.forget(["old"]) == [memory("old", "zebra")]
        assert store.get(["a", "b", "old"]) == [memory("a", "okapi"), None, None]
        assert sorted(owners_by_words(store, "zebra okapi tapir giraffe", Filter())) == ["a", "g"]
        store.put([memory("c")])
        assert store.stats(None).num_memories == 2

    def test_a_label_is_kept_and_replaced(self, store: MemoryStore) -> None:
        """A small text under a name."""
        assert store.label("agent") is None
        store.set_label("agent", "main")
        store.set_label("agent", "小明\0")
        assert store.label("agent") == "小明\0"

    def test_half_a_surrogate_pair_in_a_memory_is_refused(self, store: MemoryStore) -> None:
        """It is no text; nothing of its batch is stored."""
        with pytest.raises(MemoryStoreError):
            store.put([memory("a"), memory("b", "\ud800")])
        assert store.get(["a"]) == [None]

    def test_a_closed_store_answers_nothing(self, store: MemoryStore) -> None:
        """Closing twice is closing."""
        store.close()
        store.close()
        with pytest.raises(MemoryStoreError):
            store.get(["m"])
        with pytest.raises(MemoryStoreError):
            store.put([memory("m")])


class DurableMemoryStoreContract(MemoryStoreContract):
    """What a `MemoryStore` does that outlives its process: `open_store` opens the same store each time."""

    def test_everything_is_there_after_opening_again(self, open_store: Callable[[], MemoryStore]) -> None:
        """Memories, versions, turns, recalls, vectors, labels and what is found."""
        store = open_store()
        first = memory("m", "the zebra", tags=("t",))
        store.put([first, memory("n", "an okapi", supersedes=("m",))])
        store.put([memory("n", "two okapis", version=2, supersedes=("m",))])
        logged = turn("t1", message("g", "hello zebra"), session_key="k")
        store.append(logged)
        kept = store.put_recall(recall("r", "", ("m", "- the zebra")))
        store.put_vectors("fp", [(store.numbers_of(["n"])[0], np.array([1, 0], dtype=np.float32))])
        store.set_label("agent", "main")
        before = store.stats("fp")
        store.close()
        again = open_store()
        found = again.get(["m"])[0]
        assert found is not None
        assert found.superseded_by == "n"
        assert [one.version for one in again.versions("n")] == [1, 2]
        assert again.turns(None, "", 10) == [logged]
        assert again.recalls("s") == [kept]
        assert again.session_of("k") == "s"
        assert again.label("agent") == "main"
        assert owners_by_words(again, "okapis", Filter()) == ["n"]
        assert [numbers for numbers, _ in again.vectors("fp")] == [again.numbers_of(["n"])]
        after = again.stats("fp")
        assert (after.num_passages, after.num_without_vector) == (before.num_passages, 2)
        again.close()

    def test_two_that_write_at_once_lose_nothing(self, open_store: Callable[[], MemoryStore]) -> None:
        """Each sees what the other wrote; of two who change one version one is told so."""
        stores = [open_store(), open_store()]

        def write(store: MemoryStore, who: int) -> None:
            for number in range(50):
                store.put([memory(f"m{who}-{number}", f"zebra {who} {number}")])
                store.append(turn(f"t{who}-{number}", message(f"g{who}-{number}"), key=str(number)))

        threads = [threading.Thread(target=write, args=(store, who)) for who, store in enumerate(stores)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for store in stores:
            stats = store.stats(None)
            assert stats.num_memories == 100
            assert stats.num_turns == 50
            assert len(store.match(text_query("zebra"), 1000, Filter())) == 100
        stores[0].put([memory("m0-0", "new", version=2)])
        with pytest.raises(MemoryStoreError):
            stores[1].put([memory("m0-0", "newer", version=2)])
        for store in stores:
            store.close()
