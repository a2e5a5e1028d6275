"""What every index of passages does."""
# ruff: noqa: S101 - these are tests: assert is how they speak

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from openclaw_cache.memory.record import Filter, Passage, Provenance
from openclaw_cache.memory.terms import TextQuery, text_query
from openclaw_cache.testing.memory_samples import memory, message, owners_by_words, turn

if TYPE_CHECKING:
    import numpy.typing as npt

    from openclaw_cache.memory.store import MemoryStore


def vector(*numbers: float) -> npt.NDArray[np.float32]:
    """A vector as an embedder gives it."""
    return np.array(numbers, dtype=np.float32)


class PassagesContract:
    """The part about search; `store` is open, and empty for each test."""

    def test_more_and_rarer_terms_are_better(self, store: MemoryStore) -> None:
        """Best first, with falling scores, and no more than were asked for."""
        store.put(
            [
                memory("both", "the zebra met the okapi"),
                memory("rare", "an okapi is a shy animal"),
                memory("common", "one zebra ran to me"),
                *(memory(f"zebra{number}", "some zebra walks by") for number in range(20)),
                memory("none", "a quite different text"),
            ]
        )
        found = store.match(text_query("zebra okapi"), 3, Filter())
        passages = store.admitted([number for number, _ in found], Filter())
        assert [passage.owner for passage in passages][:2] == ["both", "rare"]
        assert len(found) == 3
        assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)
        assert found[0][1] > found[2][1] > 0
        assert len(store.match(text_query("zebra"), 100, Filter())) == 22

    def test_a_query_without_terms_finds_nothing(self, store: MemoryStore) -> None:
        """Nor one that no text has, or with no room for results."""
        store.put([memory("m", "zebra")])
        assert store.match(TextQuery(()), 10, Filter()) == []
        assert store.match(TextQuery(("okapi",)), 10, Filter()) == []
        assert store.match(TextQuery(("zebra",)), 0, Filter()) == []

    def test_no_term_is_taken_for_an_operator(self, store: MemoryStore) -> None:
        """Whatever a caller puts into a query is a term."""
        store.put([memory("m", "zebra")])
        odd = (
            "AND",
            "OR",
            "NOT",
            "NEAR",
            '"',
            "'",
            "*",
            "^",
            "zebra*",
            "terms:zebra",
            "(",
            "a\0b",
            "",
            " ",
            "\0",
            "字",
        )
        for term in odd:
            store.match(TextQuery((term,)), 10, Filter())
        found = store.match(TextQuery((*odd, "zebra")), 10, Filter())
        assert [number for number, _ in found] == store.numbers_of(["m"])

    def test_chinese_is_found_by_its_words(self, store: MemoryStore) -> None:
        """In mixed text, too."""
        store.put(
            [memory("a", "我们决定用Python写后端"), memory("b", "他住在上海浦东"), memory("c", "前端用别的")]
        )
        assert owners_by_words(store, "上海", Filter()) == ["b"]
        assert owners_by_words(store, "python 后端", Filter()) == ["a"]

    def test_every_field_of_a_filter_narrows_every_search(self, store: MemoryStore) -> None:
        """By text, by time, and of numbers that another index found."""
        store.put(
            [
                memory("a", "zebra", at=10.0, kind="fact", tags=("x", "y")),
                memory("b", "zebra", at=20.0, kind="task", tags=("x",), provenance=Provenance(session="s1")),
                memory("c", "zebra", at=30.0),
                memory("d", "zebra", at=40.0, supersedes=("c",)),
            ]
        )
        store.append(turn("t1", message("e", "zebra", at=50.0), session="s1"))
        store.append(turn("t2", message("f", "zebra", at=60.0), session="s2", is_heartbeat=True))
        every = store.recent(10, Filter(with_superseded=True, with_heartbeats=True))
        cases = [
            (Filter(with_superseded=True, with_heartbeats=True), "fedcba"),
            (Filter(), "edba"),
            (Filter(with_superseded=True), "edcba"),
            (Filter(with_heartbeats=True), "fedba"),
            (Filter(of="memory"), "dba"),
            (Filter(of="message", with_heartbeats=True), "fe"),
            (Filter(since=20.0), "edb"),
            (Filter(until=20.0), "a"),
            (Filter(since=20.0, until=50.0), "db"),
            (Filter(kinds=("fact",)), "da"),
            (Filter(kinds=("task", "none")), "b"),
            (Filter(tags=("x",)), "ba"),
            (Filter(tags=("x", "y")), "a"),
            (Filter(session="s1"), "eb"),
            (Filter(session="s1", of="message"), "e"),
            (Filter(session="none"), ""),
            (Filter(tags=("x",), session="s1", since=20.0, kinds=("task",), of="memory"), "b"),
        ]
        for within, owners in cases:
            assert "".join(p.owner for p in store.admitted(store.recent(10, within), within)) == owners
            assert "".join(p.owner for p in store.admitted(every, within)) == owners
            assert sorted(owners_by_words(store, "zebra", within)) == sorted(owners)

    def test_a_filter_does_not_use_up_the_limit(self, store: MemoryStore) -> None:
        """What is refused makes room for the next best, however much of it there is."""
        store.put([memory(f"m{number:04}", "zebra zebra", at=100.0) for number in range(2000)])
        store.put([memory("rare", "zebra among many other animals", at=1.0, tags=("t",))])
        assert owners_by_words(store, "zebra", Filter(tags=("t",)), limit=1) == ["rare"]
        assert store.recent(1, Filter(tags=("t",))) == store.numbers_of(["rare"])

    def test_recent_is_newest_first(self, store: MemoryStore) -> None:
        """By the time that a text speaks of."""
        store.put([memory("a", at=2.0), memory("b", at=3.0), memory("c", at=1.0)])
        assert [p.owner for p in store.admitted(store.recent(2, Filter()), Filter())] == ["b", "a"]
        assert store.recent(0, Filter()) == []

    def test_admitted_keeps_the_order_given(self, store: MemoryStore) -> None:
        """With all that is to be shown; numbers that do not exist are left out."""
        store.put([memory("a", "first", at=5.0, provenance=Provenance(session="s1"))])
        store.append(turn("t", message("g", "second", at=6.0, role="assistant"), session="s2"))
        (a,), (g,) = store.numbers_of(["a"]), store.numbers_of(["g"])
        assert store.admitted([g, 999, a], Filter()) == [
            Passage(number=g, of="message", owner="g", text="second", at=6.0, session="s2", role="assistant"),
            Passage(number=a, of="memory", owner="a", text="first", at=5.0, session="s1"),
        ]
        assert store.admitted([], Filter()) == []
        assert len(store.admitted([a] * 10_000, Filter())) == 10_000

    def test_passages_of_a_long_text_are_all_of_it(self, store: MemoryStore) -> None:
        """In order, nothing left out."""
        text = "".join(f"This is sentence {number}. " for number in range(2000))
        store.put([memory("m", text)])
        numbers = store.numbers_of(["m"])
        assert len(numbers) > 1
        assert "".join(p.text for p in store.admitted(numbers, Filter())) == text
        assert store.numbers_of(["absent"]) == store.numbers_of([]) == []

    def test_waiting_for_vectors_are_memories_and_what_was_said(self, store: MemoryStore) -> None:
        """Newest first; not what tools gave, what hosts put in, nor heartbeats."""
        store.put([memory("m", "memory", at=5.0)])
        roles = ("user", "assistant", "toolResult", "custom", "system")
        store.append(turn("t", *(message(role, role, at=at, role=role) for at, role in enumerate(roles, 6))))
        store.append(turn("h", message("poll", "poll", at=20.0), is_heartbeat=True))
        assert [p.owner for p in store.without_vector("fp", 10)] == ["assistant", "user", "m"]
        assert [p.owner for p in store.without_vector("fp", 1)] == ["assistant"]
        assert store.without_vector("fp", 0) == []
        assert store.stats("fp").num_without_vector == 3
        assert store.stats(None).num_without_vector == 0
        assert store.stats("fp").num_passages == 7

    def test_vectors_come_back_as_float16(self, store: MemoryStore) -> None:
        """One for each passage that has one; a text without a meaning waits no longer."""
        store.put([memory("a"), memory("b"), memory("c")])
        (a,), (b,), (c,) = store.numbers_of(["a"]), store.numbers_of(["b"]), store.numbers_of(["c"])
        store.put_vectors("fp", [(a, vector(0.1, 0.25)), (b, None), (999, vector(1, 0))])
        store.put_vectors("fp", [])
        assert [p.number for p in store.without_vector("fp", 10)] == [c]
        ((numbers, rows),) = store.vectors("fp")
        assert numbers == [a]
        assert rows.dtype == np.float16
        assert rows.tolist() == [[0.0999755859375, 0.25]]
        found, asked = store.vectors_of("fp", [c, b, a, 999])
        assert (found, asked.tolist()) == ([a], rows.tolist())
        assert [len(part) for part in store.vectors_of("other", [a])] == [0, 0]
        assert list(store.vectors("other")) == []

    def test_another_embedder_makes_everything_wait_again(self, store: MemoryStore) -> None:
        """Its vectors replace the old ones, one by one, of whatever length."""
        store.put([memory("a", at=1.0), memory("b", at=2.0)])
        (a,), (b,) = store.numbers_of(["a"]), store.numbers_of(["b"])
        store.put_vectors("old", [(a, vector(1, 0)), (b, None)])
        assert store.stats("old").num_without_vector == 0
        assert [p.number for p in store.without_vector("new", 10)] == [b, a]
        store.put_vectors("new", [(a, vector(0, 0, 1))])
        assert [p.number for p in store.without_vector("new", 10)] == [b]
        assert [p.number for p in store.without_vector("old", 10)] == [a]
        assert list(store.vectors("old")) == []
        assert [(numbers, rows.tolist()) for numbers, rows in store.vectors("new")] == [([a], [[0, 0, 1]])]
        store.put_vectors("third", [(a, None)])
        assert list(store.vectors("new")) == []

    def test_a_vector_stays_as_long_as_its_text(self, store: MemoryStore) -> None:
        """A change of tags or time keeps it, another text or forgetting takes it away."""
        store.put([memory("a", "one"), memory("b", "two"), memory("c", "three")])
        waiting = store.without_vector("fp", 10)
        store.put_vectors("fp", [(passage.number, vector(1, 0)) for passage in waiting])
        store.put([memory("a", "one", at=9.0, version=2, tags=("t",)), memory("b", "new", version=2)])
        store.forget(["c"])
        store.append(turn("t", message("g", "my okapi")))
        store.put_vectors("fp", [(number, vector(0, 1)) for number in store.numbers_of(["g"])])
        store.redact(["okapi"], "[gone]")
        assert [numbers for numbers, _ in store.vectors("fp")] == [store.numbers_of(["a"])]
        assert {p.owner for p in store.without_vector("fp", 10)} == {"b", "g"}

    def test_other_calls_may_come_between_batches_of_vectors(self, store: MemoryStore) -> None:
        """Reading 10,000 does not hold the store, and gives each once."""
        store.put([memory(f"m{number}", f"text {number}") for number in range(10_000)])
        numbers = sorted(store.recent(20_000, Filter()))
        store.put_vectors("fp", [(number, vector(number % 100, 1)) for number in numbers])
        seen: list[int] = []
        for count, (some, rows) in enumerate(store.vectors("fp")):
            assert [row[0] for row in rows.tolist()] == [number % 100 for number in some]
            seen += some
            store.put([memory(f"between {count}", "more")])
            store.set_label("count", str(count))
        assert seen == numbers
