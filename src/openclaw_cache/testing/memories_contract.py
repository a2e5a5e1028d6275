"""What every store of memories does."""
# ruff: noqa: S101 - these are tests: assert is how they speak

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from openclaw_cache.errors import VersionConflictError
from openclaw_cache.memory.record import Filter, Provenance
from openclaw_cache.testing.memory_samples import AWKWARD_TEXTS, memory, owners_by_words

if TYPE_CHECKING:
    from openclaw_cache.memory.store import MemoryStore

EVERYTHING = Filter(with_superseded=True, with_heartbeats=True)


class MemoriesContract:
    """The part about memories; `store` is open, and empty for each test."""

    def test_a_memory_comes_back_with_every_field(self, store: MemoryStore) -> None:
        """What was put is what is got."""
        full = memory(
            "m1",
            "The deadline is Friday",
            at=1_700_000_000.125,
            kind="decision",
            tags=("work", "工作", "work"),
            source="import",
            created_at=5.5,
            updated_at=1e12,
            slot="project.deadline",
            supersedes=("m0", "m1"),
            superseded_by="m9",
            provenance=Provenance(session="s", turn="t", message="g", path="MEMORY.md", line=7),
        )
        plain = memory("m2", at=-1.0)
        store.put([full, plain])
        assert store.get(["m2", "absent", "m1", "m2"]) == [plain, None, full, plain]

    def test_nothing_put_and_nothing_asked_is_nothing(self, store: MemoryStore) -> None:
        """Empty lists are no special case."""
        store.put([])
        assert store.get([]) == []
        assert store.forget([]) == []
        assert store.with_text([]) == []
        assert store.versions("absent") == []
        assert store.page("", 10, EVERYTHING) == []
        assert store.holders("absent") == []

    @pytest.mark.parametrize("text", AWKWARD_TEXTS, ids=range(len(AWKWARD_TEXTS)))
    def test_any_text_comes_back_and_can_be_forgotten(self, store: MemoryStore, text: str) -> None:
        """No character and no length is special, as text or in a field."""
        short = text[:100]
        odd = memory("m" + short, text, kind=short, tags=(short,), source=short, slot=short)
        store.put([odd, memory("other", "quite another zebra")])
        assert store.get([odd.id]) == [odd]
        assert store.with_text([text]) == [odd]
        assert store.holders(short) == [odd]
        assert store.page("", 10, Filter(tags=(short,), kinds=(short,))) == [odd]
        owners_by_words(store, short, EVERYTHING)
        assert store.forget([odd.id]) == [odd]
        assert store.recent(1000, EVERYTHING) == store.numbers_of(["other"])
        assert owners_by_words(store, "zebra", EVERYTHING) == ["other"]

    def test_500_tags_are_kept_and_asked_for_together(self, store: MemoryStore) -> None:
        """There is no bound on tags that a user meets."""
        tags = tuple(f"tag {number}" for number in range(500))
        store.put([memory("many", tags=tags), memory("fewer", tags=tags[1:])])
        assert [found.id for found in store.page("", 10, Filter(tags=tags))] == ["many"]
        assert store.get(["many"])[0] == memory("many", tags=tags)

    def test_a_new_version_replaces_the_current_one_and_keeps_it(self, store: MemoryStore) -> None:
        """Nothing is lost by a change."""
        first = memory("m", "I live in Berlin", tags=("home",))
        second = memory("m", "I live in Porto", version=2, at=2.0)
        third = memory("m", "I live in Porto", version=3, at=3.0, tags=("house",))
        store.put([first])
        store.put([second, third])
        assert store.get(["m"]) == [third]
        assert store.versions("m") == [first, second, third]
        assert owners_by_words(store, "Berlin", EVERYTHING) == []
        assert owners_by_words(store, "Porto", EVERYTHING) == ["m"]
        assert store.page("", 10, Filter(tags=("home",))) == []
        assert store.page("", 10, Filter(tags=("house",))) == [third]
        assert store.recent(10, Filter(since=3.0)) == store.numbers_of(["m"])

    @pytest.mark.parametrize("version", [0, 1, 3])
    def test_a_version_that_is_not_the_next_is_a_conflict(self, store: MemoryStore, version: int) -> None:
        """Two writers cannot both change one version."""
        store.put([memory("m", "one")])
        with pytest.raises(VersionConflictError):
            store.put([memory("m", "other", version=version)])
        with pytest.raises(VersionConflictError):
            store.put([memory("new", "other", version=2)])
        assert store.get(["m", "new"]) == [memory("m", "one"), None]

    def test_a_batch_is_stored_whole_or_not_at_all(self, store: MemoryStore) -> None:
        """One conflict undoes all of its batch, in the full text index too."""
        store.put([memory("known", "one")])
        with pytest.raises(VersionConflictError):
            store.put(
                [memory("a", "zebra"), memory("b", supersedes=("known",)), memory("known", "two", version=1)]
            )
        assert store.get(["a", "b", "known"]) == [None, None, memory("known", "one")]
        assert owners_by_words(store, "zebra", EVERYTHING) == []
        assert store.stats(None).num_memories == 1

    def test_what_is_superseded_is_marked_and_found_only_when_asked_for(self, store: MemoryStore) -> None:
        """The older of two statements about one thing is history."""
        old = memory("old", "my editor is vim", slot="user.editor")
        new = memory("new", "my editor is helix", slot="user.editor", supersedes=("old", "absent", "new"))
        store.put([old])
        store.put([new])
        marked = replace(old, superseded_by="new")
        assert store.get(["old", "new"]) == [marked, new]
        assert store.holders("user.editor") == [new]
        assert store.with_text([old.text, new.text]) == [None, new]
        assert store.page("", 10, Filter()) == [new]
        assert store.page("", 10, Filter(with_superseded=True)) == [new, marked]
        assert owners_by_words(store, "vim", Filter()) == []
        assert owners_by_words(store, "vim", Filter(with_superseded=True)) == ["old"]
        assert store.recent(10, Filter()) == store.numbers_of(["new"])
        assert store.admitted(store.numbers_of(["old"]), Filter()) == []
        assert store.stats(None).num_superseded == 1

    def test_a_mark_is_no_version_and_an_edit_may_take_it_off(self, store: MemoryStore) -> None:
        """Versions are what a caller wrote; the caller's word about `superseded_by` holds."""
        store.put([memory("old", "one"), memory("new", "two", supersedes=("old",))])
        marked = replace(memory("old", "one"), superseded_by="new")
        assert store.versions("old") == [marked]
        again = memory("old", "one after all", version=2)
        store.put([again])
        assert store.versions("old") == [marked, again]
        assert owners_by_words(store, "after all one", Filter()) == ["old"]

    def test_forgetting_the_newer_does_not_make_the_older_true(self, store: MemoryStore) -> None:
        """What was superseded stays superseded."""
        store.put([memory("old", "one"), memory("new", "two", supersedes=("old",))])
        store.forget(["new"])
        assert store.page("", 10, Filter()) == []
        assert [found.id for found in store.page("", 10, EVERYTHING)] == ["old"]

    def test_pages_give_each_of_10000_once_in_order_of_ids(self, store: MemoryStore) -> None:
        """Whatever the size of a page."""
        ids = [f"m{number:05}" for number in range(10_000)]
        for start in range(0, 10_000, 1000):
            store.put([memory(name, f"text {name}") for name in reversed(ids[start : start + 1000])])
        seen: list[str] = []
        while page := store.page(seen[-1] if seen else "", 777, Filter()):
            seen += [found.id for found in page]
        assert seen == ids
        assert [found.id if found else None for found in store.get(ids)] == ids
        assert store.stats(None).num_memories == 10_000
        assert len(store.recent(20_000, Filter())) == 10_000
        assert len(store.forget(ids)) == 10_000
        assert store.stats(None).num_passages == 0

    def test_a_page_has_what_its_filter_admits(self, store: MemoryStore) -> None:
        """Each field narrows; `until` is exclusive, and all tags must be there."""
        told = Provenance(session="s1")
        store.put(
            [
                memory("a", at=10.0, kind="fact", tags=("x", "y")),
                memory("b", at=20.0, kind="task", tags=("x",), provenance=told),
                memory("c", at=30.0, kind="event"),
            ]
        )

        def ids(within: Filter) -> str:
            return "".join(found.id for found in store.page("", 10, within))

        assert ids(Filter()) == ids(Filter(of="memory")) == "abc"
        assert ids(Filter(of="message")) == ""
        assert ids(Filter(since=20.0)) == "bc"
        assert ids(Filter(until=20.0)) == "a"
        assert ids(Filter(since=15.0, until=30.0)) == "b"
        assert ids(Filter(kinds=("fact", "event"))) == "ac"
        assert ids(Filter(tags=("x",))) == "ab"
        assert ids(Filter(tags=("x", "y", "x"))) == "a"
        assert ids(Filter(session="s1")) == "b"
        assert ids(Filter(kinds=("task",), tags=("y",))) == ""
        assert [found.id for found in store.page("a", 1, Filter())] == ["b"]
        assert store.page("", 0, Filter()) == []

    def test_holders_are_the_current_ones_oldest_first(self, store: MemoryStore) -> None:
        """By the time that they speak of."""
        store.put([memory("a", at=3.0, slot="s"), memory("b", at=1.0, slot="s"), memory("c", slot="other")])
        assert [found.id for found in store.holders("s")] == ["b", "a"]

    def test_a_text_is_found_only_where_it_is_exactly_the_same(self, store: MemoryStore) -> None:
        """No folding of case, white space or form; of several with one text the first by id."""
        store.put([memory("b", "Tea"), memory("a", "Tea"), memory("c", "tea"), memory("d", "te\u0301")])
        found = store.with_text(["Tea", "tea", "Tea ", "té", "Tea"])
        assert [one.id if one else None for one in found] == ["a", "c", None, None, "a"]

    def test_forgetting_gives_back_every_version_and_leaves_none(self, store: MemoryStore) -> None:
        """In the order asked, an unknown or repeated id is passed over, all else stays."""
        first, second = memory("m", "zebra"), memory("m", "giraffe", version=2)
        store.put([first, memory("n", "zebra too", tags=("t",)), memory("o", "zebra three")])
        store.put([second])
        assert store.forget(["o", "absent", "m", "o"]) == [memory("o", "zebra three"), first, second]
        assert store.get(["m", "o"]) == [None, None]
        assert store.versions("m") == []
        assert owners_by_words(store, "zebra giraffe", EVERYTHING) == ["n"]
        assert store.stats(None).num_memories == store.stats(None).num_passages == 1
        store.put([memory("m", "a new one under an old id")])
        assert store.versions("m") == [memory("m", "a new one under an old id")]

    def test_a_passage_number_is_never_used_again(self, store: MemoryStore) -> None:
        """A vector index that has not heard of a forgotten one must not give its number to another."""
        store.put([memory("a"), memory("b")])
        gone = set(store.numbers_of(["b"]))
        store.forget(["b"])
        store.put([memory("c")])
        assert gone
        assert gone.isdisjoint(store.recent(10, EVERYTHING))
