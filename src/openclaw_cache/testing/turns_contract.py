"""What every log of turns does."""
# ruff: noqa: S101 - these are tests: assert is how they speak

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from openclaw_cache.memory.record import Filter, Recall
from openclaw_cache.testing.memory_samples import (
    AWKWARD_TEXTS,
    memory,
    message,
    owners_by_words,
    recall,
    turn,
)

if TYPE_CHECKING:
    from openclaw_cache.memory.store import MemoryStore
    from openclaw_cache.types import Json

LOSSLESS = [
    None,
    True,
    1,
    1.0,
    -0.0,
    2**70,
    1e-7,
    "",
    [],
    {},
    {"b": 1, "a": [None, {"x": "\0"}], "": "empty name"},
    "\ud800 half of a pair",
    [{"type": "text", "text": "hello"}, {"type": "toolCall", "id": "c1", "name": "f", "arguments": {"q": 1}}],
    *AWKWARD_TEXTS,
]


class TurnsContract:
    """The part about turns and recalls; `store` is open, and empty for each test."""

    def test_a_turn_comes_back_with_every_field(self, store: MemoryStore) -> None:
        """The log is lossless."""
        full = turn(
            "t1",
            message("g1", "question", at=1.5),
            message("g2", [{"type": "text", "text": "looking"}], role="assistant", at=2.5),
            message("g3", "found", role="toolResult", at=3.5, tool_call="call1", tool_name="search"),
            session="s1",
            at=1.25,
            session_key="agent:main:x",
            is_heartbeat=True,
            origin="reconciled",
        )
        assert store.append(full) is True
        assert store.turn("t1") == full
        assert store.turn("absent") is None

    @pytest.mark.parametrize("content", LOSSLESS, ids=range(len(LOSSLESS)))
    def test_any_content_comes_back_unchanged(self, store: MemoryStore, content: Json) -> None:
        """Type, order of keys and every character stay."""
        store.append(turn("t", message("g", content)))
        (found,) = store.around("g", 0, 0)
        assert json.dumps(found.content) == json.dumps(content)

    def test_a_known_key_is_not_stored_again(self, store: MemoryStore) -> None:
        """A host that asks twice has one turn; another session's key is another key."""
        first = turn("t1", message("g1"), key="1", session="a")
        assert store.append(first) is True
        assert store.append(turn("t2", message("g2"), key="1", session="a")) is False
        assert store.append(turn("t3", message("g3"), key="1", session="b")) is True
        assert store.turns(None, "", 10) == [first, turn("t3", message("g3"), key="1", session="b")]

    def test_a_known_message_stays_where_it_is(self, store: MemoryStore) -> None:
        """A message is in one turn of its session; another session may have its own of that id."""
        store.append(turn("t1", message("g1", "first"), message("g1", "twice in one turn")))
        assert store.append(turn("t2", message("g1", "again"), message("g2", "new"))) is True
        assert store.append(turn("t3", message("g1", "child's"), session="child")) is True
        assert [len(found.messages) for found in store.turns(None, "", 10)] == [1, 1, 1]
        assert [found.content for found in store.around("g1", 5, 5)] == ["first", "new"]
        assert store.stats(None).num_messages == 3

    def test_turns_come_in_the_order_in_which_they_were_stored(self, store: MemoryStore) -> None:
        """Whatever their times and ids, of one session or of all, page by page."""
        for number in (5, 3, 9, 1):
            store.append(
                turn(f"t{number}", message(f"g{number}"), session=f"s{number % 3}", at=100.0 - number)
            )

        def ids(session: str | None, after: str, limit: int) -> list[str]:
            return [found.id for found in store.turns(session, after, limit)]

        assert ids(None, "", 10) == ["t5", "t3", "t9", "t1"]
        assert ids(None, "", 2) == ["t5", "t3"]
        assert ids(None, "t3", 2) == ["t9", "t1"]
        assert ids("s0", "", 10) == ["t3", "t9"]
        assert ids("s0", "t3", 10) == ["t9"]
        assert (
            ids("absent", "", 10) == ids(None, "absent", 10) == ids(None, "t1", 10) == ids(None, "", 0) == []
        )

    def test_around_a_message_is_its_own_session(self, store: MemoryStore) -> None:
        """Across turns, in order, cut at both ends."""
        for number in range(5):
            store.append(
                turn(f"t{number}", message(f"g{number}a"), message(f"g{number}b"), session=f"s{number % 2}")
            )

        def ids(around: str, before: int, after: int) -> list[str]:
            return [found.id for found in store.around(around, before, after)]

        assert ids("g2a", 1, 2) == ["g0b", "g2a", "g2b", "g4a"]
        assert ids("g0a", 5, 0) == ["g0a"]
        assert ids("g4b", 0, 5) == ["g4b"]
        assert ids("g3a", 100, 100) == ["g1a", "g1b", "g3a", "g3b"]
        assert ids("absent", 5, 5) == []

    def test_a_message_names_its_turn(self, store: MemoryStore) -> None:
        """Where several sessions have it, the turn that had it first."""
        store.append(turn("t1", message("a"), message("b")))
        store.append(turn("t2", message("b"), message("c")))
        store.append(turn("t3", message("a"), session="child"))
        assert store.turn_ids(["c", "absent", "b", "a", "c"]) == ["t2", None, "t1", "t1", "t2"]
        assert store.turn_ids([]) == []

    def test_sessions_are_those_that_have_something(self, store: MemoryStore) -> None:
        """Turns or recalls; in the order in which they came; not those that are only asked about or dropped."""
        store.append(turn("t1", session="b"))
        store.put_recall(recall("r", session="a"))
        store.append(turn("t2", session="c"))
        store.append(turn("t3", session="b"))
        store.fork("absent", "child")
        store.recalls("asked")
        store.drop_session("c")
        assert store.sessions() == ["b", "a"]

    def test_missing_are_those_that_the_session_does_not_have(self, store: MemoryStore) -> None:
        """In the order asked; another session's messages do not count."""
        store.append(turn("t", *(message(f"g{number}") for number in range(5000))))
        asked = [f"g{number}" for number in range(4998, 5003)]
        assert store.missing("s", asked) == ["g5000", "g5001", "g5002"]
        assert store.missing("absent", ["g1", "g0"]) == ["g1", "g0"]
        assert store.missing("s", []) == []

    def test_the_session_of_a_key_is_that_of_its_newest_turn(self, store: MemoryStore) -> None:
        """By time, since an old transcript may be imported later."""
        store.append(turn("t1", session="old", at=1.0, session_key="k"))
        store.append(turn("t2", session="new", at=3.0, session_key="k"))
        store.append(turn("t3", session="imported", at=2.0, session_key="k"))
        store.append(turn("t4", session="other", at=9.0, session_key="other"))
        assert store.session_of("k") == "new"
        assert store.session_of("absent") is None

    def test_messages_are_found_by_their_words(self, store: MemoryStore) -> None:
        """Text, text parts and tool calls alike, in any role."""
        call = {"type": "toolCall", "name": "lookup", "arguments": {"animal": "giraffe"}}
        store.append(
            turn(
                "t",
                message("g1", "the zebra"),
                message("g2", [{"type": "text", "text": "an okapi"}, call], role="assistant"),
                message("g3", "a tapir", role="toolResult"),
            )
        )
        for words, owner in {"zebra": "g1", "okapi": "g2", "giraffe": "g2", "tapir": "g3"}.items():
            assert owners_by_words(store, words, Filter()) == [owner]

    def test_redacting_leaves_no_occurrence(self, store: MemoryStore) -> None:
        """In every part of every message, within words, within JSON that is a text, and where two overlap."""
        said = 'I "live" in Porto'
        store.append(
            turn(
                "t1",
                message("g1", f"well, {said}!"),
                message("g2", [{"type": "text", "text": said * 2}, {"args": json.dumps({"note": said})}]),
                message("g3", 'in general I "live" in Portobello', role="toolResult"),
                message("g4", "i LIVE in porto"),
            )
        )
        store.append(turn("t2", message("h1", {"deep": [{said: [said]}]}), session="other"))
        assert store.redact([said, "live", ""], "[gone]") == 4
        assert [found.content for found in store.around("g1", 0, 9)] == [
            "well, [gone]!",
            [{"type": "text", "text": "[gone][gone]"}, {"args": '{"note": "[gone]"}'}],
            "in general [gone]bello",
            "i LIVE in porto",
        ]
        assert store.around("h1", 0, 0)[0].content == {"deep": [{"[gone]": ["[gone]"]}]}
        assert owners_by_words(store, "Porto", Filter()) == ["g4"]
        assert owners_by_words(store, "bello", Filter()) == ["g3"]
        assert store.redact([said], "[gone]") == store.redact([], "x") == store.redact([""], "x") == 0

    def test_redacting_a_long_message_finds_what_lies_across_passages(self, store: MemoryStore) -> None:
        """A text is found wherever the message was cut for search."""
        words = " ".join(f"x{number}y" for number in range(3000))
        said = " ".join(f"x{number}y" for number in range(100, 2500))
        store.append(turn("t", message("g", words)))
        assert store.redact([said], "[gone]") == 1
        assert "x1000y" not in str(store.around("g", 0, 0)[0].content)
        assert owners_by_words(store, "x1000y", Filter()) == []
        assert owners_by_words(store, "x2999y", Filter()) == ["g"]

    def test_redacting_reaches_recalls(self, store: MemoryStore) -> None:
        """Their text and the lines that it consists of."""
        store.put_recall(recall("r1", "", ("m1", "- lives in Porto"), ("m2", "- has a cat")))
        store.put_recall(recall("r2", "g1", ("m2", "- has a cat")))
        assert store.redact(["lives in Porto"], "[gone]") == 1
        first, second = store.recalls("s")
        assert first.text == "<notes>\n- [gone]\n- has a cat\n</notes>"
        assert [item.line for item in first.items] == ["- [gone]", "- has a cat"]
        assert second == recall("r2", "g1", ("m2", "- has a cat"))

    def test_redacting_a_message_takes_its_line_out_of_recalls_however_that_puts_it(
        self, store: MemoryStore
    ) -> None:
        """A line is made harmless and may be cut, so it need not hold the text as it was said."""
        store.append(turn("t", message("g1", "I  live in <Porto>"), message("g2", "a cat")))
        store.put_recall(recall("r1", "", ("g1", "- I live in ‹Porto>"), ("g2", "- a cat")))
        store.put_recall(recall("r2", "g1", ("g1", "- I live in ‹Porto>")))
        assert store.redact(["live in <Porto>"], "[gone]") == 3
        (left,) = store.recalls("s")
        assert left.text == "<notes>\n- a cat\n</notes>"
        assert [item.line for item in left.items] == ["- a cat"]
        assert store.recalls_with("g1") == []
        assert store.recalls_with("g2") == [left]

    def test_redacting_leaves_memories_alone(self, store: MemoryStore) -> None:
        """Another memory that says the same was not to be forgotten."""
        store.put([memory("m", "lives in Porto")])
        assert store.redact(["lives in Porto"], "[gone]") == 0
        assert store.get(["m"]) == [memory("m", "lives in Porto")]

    def test_the_first_recall_of_a_place_stays(self, store: MemoryStore) -> None:
        """A turn that is asked for again gets the same bytes, also where nothing was recalled."""
        first = recall("r1", "g1", ("m1", "one"))
        nothing = Recall(id="r3", session="s", after="g2", text="", items=(), num_tokens=0, at=1.0)
        assert store.put_recall(first) == first
        assert store.put_recall(recall("r2", "g1", ("m2", "two"))) == first
        assert store.put_recall(nothing) == nothing
        assert store.put_recall(recall("r4", "g2", ("m2", "two"))) == nothing
        other = recall("r5", "g1", session="other")
        assert store.put_recall(other) == other
        assert store.recalls("s") == [first, nothing]
        assert store.recalls("absent") == []
        assert store.stats(None).num_recalls == 2

    def test_recalls_are_found_by_whom_they_speak_of(self, store: MemoryStore) -> None:
        """So that a forgotten memory can be taken out of all of them."""
        one = recall("r1", "", ("m1", "a"), ("m2", "b"), ("m1", "c"))
        two = recall("r2", "", ("m1", "a"), session="other")
        store.put_recall(one)
        store.put_recall(two)
        assert store.recalls_with("m1") == [one, two]
        assert store.recalls_with("m2") == [one]
        assert store.recalls_with("absent") == []

    def test_recalls_are_written_anew_by_id_and_empty_ones_go(self, store: MemoryStore) -> None:
        """What is unknown meanwhile is passed over."""
        store.put_recall(recall("r1", "", ("m1", "a"), ("m2", "b")))
        store.put_recall(recall("r2", "g1", ("m1", "a")))
        shorter = recall("r1", "", ("m2", "b"))
        emptied = replace(recall("r2", "g1"), text="")
        store.replace_recalls([shorter, emptied, recall("absent", "g9")])
        assert store.recalls("s") == [shorter]
        assert store.recalls_with("m1") == []
        assert store.recalls_with("m2") == [shorter]

    def test_a_forked_session_begins_with_its_parents_recalls(self, store: MemoryStore) -> None:
        """Under ids of their own, in order; what the child has already stays; the parent's are untouched."""
        parents = [recall("r1", "", ("m1", "a")), recall("r2", "g1", ("m2", "b"))]
        for one in parents:
            store.put_recall(one)
        own = store.put_recall(recall("r3", "g1", ("m3", "c"), session="child"))
        store.fork("s", "child")
        store.fork("s", "child")
        store.fork("absent", "empty")
        mine, inherited = store.recalls("child")
        assert mine == own
        assert inherited == replace(parents[0], id=inherited.id, session="child")
        assert inherited.id not in {"r1", "r2", "r3"}
        assert store.recalls("s") == parents
        assert store.recalls_with("m1") == [parents[0], inherited]

    def test_a_dropped_session_leaves_nothing(self, store: MemoryStore) -> None:
        """Turns, messages, passages and recalls go; other sessions and memories stay."""
        for session in ("a", "b"):
            store.append(turn(f"t{session}1", message(f"g{session}", f"zebra {session}"), session=session))
            store.append(turn(f"t{session}2", session=session, session_key="k"))
            store.put_recall(recall(f"r{session}", "", ("m", "x"), session=session))
        store.put([memory("m", "zebra m")])
        store.put_recall(recall("r", "ga", ("gb", "- zebra b"), ("m", "- zebra m"), session="a"))
        assert store.drop_session("b") == 2
        assert store.drop_session("b") == 0
        assert [found.id for found in store.turns(None, "", 10)] == ["ta1", "ta2"]
        assert store.around("gb", 1, 1) == []
        assert store.recalls("b") == []
        assert sorted(owners_by_words(store, "zebra", Filter())) == ["ga", "m"]
        assert [found.id for found in store.recalls_with("m")] == ["ra", "r"]
        assert store.recalls("a")[1].text == "<notes>\n- zebra m\n</notes>"
        assert store.recalls_with("gb") == []
        assert store.session_of("k") == "a"
        assert store.append(turn("tb1", message("gb"), session="b")) is True
