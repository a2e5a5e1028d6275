"""Exports of a store: what is read back, and what is said of damaged ones."""

import json

import msgspec
import pytest

from openclaw_cache.memory.forms.exported import Header, History, export_lines, read_lines
from openclaw_cache.memory.forms.fault import FormError, Skipped
from openclaw_cache.memory.forms.merging import Merge, merged
from openclaw_cache.memory.record import Memory, Message, Provenance, Recall, RecalledItem, Turn
from openclaw_cache.memory.retrieval.block import joined

HEADER = Header(agent="main", exported_at=5.0, num_memories=1, num_turns=1, num_recalls=1)
OLD = Memory("mem_1", "I live in Rome", "fact", ("asked",), "capture", 1.0, 2.0, 2.0, slot="user.city")
NEW = Memory("mem_1", "I live in Utrecht", "fact", (), "api", 3.0, 2.0, 4.0, 2, "user.city", ("mem_0",), None)
TURN = Turn("turn_1", "k", "s", 1.0, (Message("msg_1", "user", [{"type": "text", "text": "Hi\n"}], 1.0),))
_BLOCK = joined([RecalledItem("memory", "mem_1", "- b")])
RECALL = Recall("rec_1", "s", "msg_1", _BLOCK.text, _BLOCK.items, _BLOCK.num_tokens, 1.0)


def exported() -> list[bytes]:
    return list(export_lines(HEADER, [(OLD, NEW)], [TURN], [RECALL]))


def test_an_export_is_one_json_object_a_line_that_any_program_reads() -> None:
    header, memory, turn, recall = [json.loads(line) for line in exported()]
    assert header["format"] == "openclaw-cache-memory"
    assert (header["version"], header["agent"], header["num_memories"]) == (1, "main", 1)
    assert [v["text"] for v in memory["memory"]] == ["I live in Rome", "I live in Utrecht"]
    assert turn["turn"]["messages"][0]["content"] == [{"type": "text", "text": "Hi\n"}]
    assert recall["recall"]["text"] == _BLOCK.text
    assert all(line.endswith(b"\n") and line.count(b"\n") == 1 for line in exported())


def test_what_was_exported_is_read_back() -> None:
    assert list(read_lines(exported())) == [HEADER, History((OLD, NEW)), TURN, RECALL]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b'{"turn": {"id": "t", "x": ' + b"[" * 100_000, "not JSON"),
        (b"{}", "neither a memory, nor a turn, nor a recall"),
        (b'{"secret words": 1}', "a field that is unknown"),
        (b'{"memory": []}', "the versions are not those of one memory, in order"),
    ],
)
def test_a_broken_line_is_passed_over_by_number_and_reason_and_the_rest_is_read(
    line: bytes, reason: str
) -> None:
    header, memory, *rest = exported()
    assert list(read_lines([header, line, memory, b"\n", *rest])) == [
        HEADER,
        Skipped(2, reason),
        History((OLD, NEW)),
        TURN,
        RECALL,
    ]


def test_a_reason_never_quotes_the_text() -> None:
    line = exported()[1].replace(b'"I live in Rome"', b"5")
    (skipped,) = [item for item in read_lines([exported()[0], line]) if isinstance(item, Skipped)][:1]
    assert skipped.line == 2
    assert "str" in skipped.reason
    assert "Utrecht" not in skipped.reason


def test_an_export_that_ends_early_says_what_is_missing() -> None:
    items = list(read_lines(exported()[:2]))
    assert items[2:] == [
        Skipped(3, "the export ends early: 1 lines of kind turn are missing"),
        Skipped(3, "the export ends early: 1 lines of kind recall are missing"),
    ]


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"\n",
        b"# Memory\n",
        b"{}",
        b'{"format": "x"}',
        exported()[1],
        exported()[0].replace(b"memory", b"other", 1),
    ],
)
def test_what_does_not_begin_with_a_header_is_refused(first: bytes) -> None:
    with pytest.raises(FormError, match="header"):
        list(read_lines([first]))


def test_a_newer_version_is_refused_by_name() -> None:
    newer = exported()[0].replace(b'"version":1', b'"version":2')
    with pytest.raises(FormError, match="version 2"):
        list(read_lines([newer]))


def changed(memory: Memory, text: str, version: int, updated_at: float) -> Memory:
    return Memory(memory.id, text, "fact", (), "api", 1.0, 2.0, updated_at, version)


def test_an_unknown_memory_comes_with_all_its_versions() -> None:
    assert merged((OLD, NEW), None) == Merge("added", (OLD, NEW))


def test_a_known_one_gets_the_versions_that_it_lacks() -> None:
    assert merged((OLD, NEW), OLD) == Merge("updated", (NEW,))


def test_the_same_version_changes_nothing_though_it_was_superseded_since() -> None:
    superseded = msgspec.structs.replace(NEW, superseded_by="mem_9")
    assert merged((OLD, NEW), superseded) == Merge("unchanged")


def test_of_two_that_were_changed_apart_the_later_one_is_current() -> None:
    mine = changed(OLD, "I live in Oslo", 2, updated_at=9.0)
    assert merged((OLD, NEW), mine) == Merge("unchanged")
    mine = changed(OLD, "I live in Oslo", 2, updated_at=3.0)
    outcome = merged((OLD, NEW), mine)
    assert [(m.text, m.version) for m in outcome.puts] == [("I live in Utrecht", 3)]
    assert merged((OLD, NEW), outcome.puts[-1]) == Merge("unchanged"), "and again changes nothing"


def test_provenance_survives() -> None:
    told = Memory("m", "t", "f", (), "s", 1, 1, 1, provenance=Provenance("s", "t", "m", "p", 3))
    header = Header(agent="a", exported_at=1, num_memories=1, num_turns=0, num_recalls=0)
    assert list(read_lines(export_lines(header, [(told,)], [], [])))[1] == History((told,))
