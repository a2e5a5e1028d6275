"""Exports, imports, capture and forgetting against a real store."""

import json

import pytest

from openclaw_cache.memory.capture.candidates import candidates
from openclaw_cache.memory.forgetting import REDACTED, texts_to_redact
from openclaw_cache.memory.forms.edits import edits, file_tag
from openclaw_cache.memory.forms.exported import Header, History, export_lines, read_lines
from openclaw_cache.memory.forms.markdown import read_markdown
from openclaw_cache.memory.forms.merging import merged
from openclaw_cache.memory.forms.transcript import read_transcript
from openclaw_cache.memory.record import Filter, Memory, Message, Recall, RecalledItem, Turn
from openclaw_cache.memory.retrieval.block import joined
from openclaw_cache.memory.sqlite.store import SqliteStore

EVERY = Filter(of="memory", with_superseded=True)


@pytest.fixture
def store():
    opened = SqliteStore.open(None, key=None)
    yield opened
    opened.close()


def memory(memory_id: str, text: str, version: int = 1, **more: object) -> Memory:
    return Memory(memory_id, text, "fact", ("a", "b"), "api", 1.0, 2.0, float(version), version, **more)


def exported(store: SqliteStore, session: str) -> list[bytes]:
    histories = [store.versions(found.id) for found in store.page("", 100, EVERY)]
    turns = store.turns(None, "", 100)
    recalls = store.recalls(session)
    header = Header(
        agent="main",
        exported_at=1.0,
        num_memories=len(histories),
        num_turns=len(turns),
        num_recalls=len(recalls),
    )
    return list(export_lines(header, histories, turns, recalls))


def take(store: SqliteStore, lines: list[bytes]) -> list[str]:
    outcomes = []
    for item in read_lines(lines):
        match item:
            case History(versions):
                merge = merged(versions, store.get([versions[0].id])[0])
                store.put(merge.puts)
                outcomes.append(merge.outcome)
            case Turn():
                outcomes.append("added" if store.append(item) else "unchanged")
            case Recall():
                store.put_recall(item)
            case _:
                pass
    return outcomes


def test_an_export_makes_the_same_store_and_taken_again_changes_nothing(store: SqliteStore) -> None:
    block = joined([RecalledItem("memory", "mem_2", "- x")])
    store.put([memory("mem_1", "I live in Rome", slot="user.city")])
    store.put([memory("mem_1", "I live in Rome, in the north", 2, slot="user.city")])
    store.put([memory("mem_2", "I live in Oslo", slot="user.city", supersedes=("mem_1",))])
    store.append(
        Turn("turn_1", "k", "s", 1.0, (Message("msg_1", "user", [{"type": "text", "text": "Hi"}], 1.0),))
    )
    store.put_recall(Recall("rec_1", "s", "msg_1", block.text, block.items, block.num_tokens, 1.0))
    lines = exported(store, "s")
    other = SqliteStore.open(None, key=None)
    assert take(other, lines) == ["added", "added", "added"]
    assert exported(other, "s") == lines
    assert take(other, lines) == ["unchanged", "unchanged", "unchanged"]
    assert exported(other, "s") == lines
    assert other.holders("user.city") == store.holders("user.city")


def test_a_file_imported_again_after_an_edit_has_one_new_version(store: SqliteStore) -> None:
    def take_file(text: str) -> tuple[int, int, int]:
        known = store.page("", 100, Filter(of="memory", tags=(file_tag("MEMORY.md"),), with_superseded=True))
        change = edits("MEMORY.md", read_markdown(text, "MEMORY.md"), known, 5.0)
        store.put([*change.added, *change.updated])
        return len(change.added), len(change.updated), change.unchanged

    assert take_file("# M\n- Atlas ships in May.\n- Priya owns Kestrel.") == (2, 0, 0)
    assert take_file("# M\n- Priya owns Kestrel.\n\n- Atlas ships in May.") == (0, 0, 2)
    assert take_file("# M\n- Atlas ships in June.\n- Priya owns Kestrel.") == (0, 1, 1)
    assert take_file("# M\n- Atlas ships in June.\n- Priya owns Kestrel.") == (0, 0, 2)
    texts = {found.text: store.versions(found.id) for found in store.page("", 100, EVERY)}
    assert [version.text for version in texts["Atlas ships in June."]] == [
        "Atlas ships in May.",
        "Atlas ships in June.",
    ]


def test_a_transcript_that_grew_adds_only_what_is_new(store: SqliteStore) -> None:
    def take_transcript(num_lines: int) -> tuple[int, int]:
        entries = [
            {"type": "session", "version": 4, "id": "s1", "timestamp": "2026-11-29T17:30:00Z", "cwd": "/"}
        ]
        for number in range(num_lines):
            role = "user" if number % 2 == 0 else "assistant"
            message = {"role": role, "content": f"line {number}", "timestamp": 1_000 * (number + 1)}
            entries.append({"type": "message", "id": f"e{number}", "parentId": None, "message": message})
        transcript = read_transcript([json.dumps(entry).encode() for entry in entries], "s1.jsonl")
        missing = store.missing("s1", [message_id for message_id, _ in transcript.history])
        for turn in transcript.turns(missing, 9.0):
            store.append(turn)
        stats = store.stats(None)
        return len(missing), stats.num_messages

    assert take_transcript(3) == (3, 3)
    assert take_transcript(3) == (0, 3)
    assert take_transcript(6) == (3, 6)
    assert [m.content for turn in store.turns("s1", "", 10) for m in turn.messages] == [
        f"line {n}" for n in range(6)
    ]


def test_a_captured_memory_that_is_forgotten_stands_in_no_turn_any_more(store: SqliteStore) -> None:
    said = Message("msg_1", "user", "Hi! Please remember that the gate’s code name is “Heron”. Thanks.", 1.0)
    echo = Message(
        "msg_2", "assistant", [{"type": "text", "text": "Noted: the gate’s code name is “Heron”."}], 2.0
    )
    (found,) = candidates([said, echo], 5.0)
    store.append(Turn("turn_1", "k", "s", 1.0, (said, echo)))
    store.put([memory("mem_1", found.text)])
    removed = store.forget(["mem_1"])
    assert store.redact(texts_to_redact(removed), REDACTED) == 2
    left = store.around("msg_1", 0, 1)
    assert [message.content for message in left] == [
        "Hi! Please remember that [forgotten]. Thanks.",
        [{"type": "text", "text": "Noted: [forgotten]."}],
    ]
    assert candidates(left, 5.0) == [], "and is not captured again"
