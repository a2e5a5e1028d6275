"""OpenClaw's session transcripts, as its own type declarations describe them (2026.9)."""

import json
from typing import Any

import pytest

from openclaw_cache.memory.context.host import HostMessage
from openclaw_cache.memory.context.identity import message_ids
from openclaw_cache.memory.forms.fault import FormError, Skipped
from openclaw_cache.memory.forms.transcript import Transcript, read_transcript

NOW = 1_796_000_000.0
HEADER = {
    "type": "session",
    "version": 4,
    "id": "sess-1",
    "timestamp": "2026-11-29T17:30:00.000Z",
    "cwd": "/w",
}


def entry(number: int, message: dict[str, Any]) -> dict[str, Any]:
    parent = f"e{number - 1}" if number else None
    return {
        "type": "message",
        "id": f"e{number}",
        "parentId": parent,
        "timestamp": f"2026-11-29T17:30:{number:02d}.000Z",
        "message": message,
    }


def user(text: str, at: int) -> dict[str, Any]:
    return {"role": "user", "content": text, "timestamp": at}


def reply(text: str, at: int) -> dict[str, Any]:
    return {
        "role": "assistant",
        "content": [{"type": "text", "text": text}],
        "api": "openai-completions",
        "provider": "x",
        "model": "m",
        "usage": {"input": 1, "output": 1},
        "stopReason": "stop",
        "timestamp": at,
    }


CALL = {"type": "toolCall", "id": "c1", "name": "read", "arguments": {"path": "x"}}
RESULT = {
    "role": "toolResult",
    "toolCallId": "c1",
    "toolName": "read",
    "content": [{"type": "text", "text": "file"}],
    "isError": False,
    "details": {"secret": 1},
    "timestamp": 3_000,
}
HIDDEN = {"role": "custom", "customType": "x", "content": "-", "excludeFromContext": True, "timestamp": 4_600}
ENTRIES: list[dict[str, Any]] = [
    HEADER,
    entry(0, user("Hello there.", 1_000)),
    entry(1, {"role": "assistant", "content": [CALL], "timestamp": 2_000}),
    entry(2, RESULT),
    entry(3, reply("Done.", 4_000)),
    {"type": "model_change", "id": "e4", "parentId": "e3", "provider": "x", "modelId": "m"},
    {"type": "compaction", "id": "e5", "parentId": "e4", "summary": "s", "firstKeptEntryId": "e3"},
    entry(6, {"role": "user", "content": "<<<", "timestamp": 4_500, "runtimeContextCarrier": True}),
    entry(7, HIDDEN),
    entry(8, user("[OpenClaw heartbeat poll]", 5_000)),
    entry(9, reply("HEARTBEAT_OK", 6_000)),
]


def read(entries: list[dict[str, Any]], path: str = "sessions/sess-1.jsonl") -> Transcript:
    return read_transcript([json.dumps(e).encode() + b"\n" for e in entries], path)


def test_messages_become_turns_from_each_user_message_to_the_next() -> None:
    transcript = read(ENTRIES)
    assert (transcript.session, transcript.skipped) == ("sess-1", [])
    turns = transcript.turns([i for i, _ in transcript.history], NOW)
    assert [[m.role for m in turn.messages] for turn in turns] == [
        ["user", "assistant", "toolResult", "assistant"],
        ["user", "assistant"],
    ]
    assert [(t.session, t.origin, t.is_heartbeat, t.at) for t in turns] == [
        ("sess-1", "import", False, 1.0),
        ("sess-1", "import", True, 5.0),
    ]
    result = turns[0].messages[2]
    assert (result.tool_call, result.tool_name, result.at) == ("c1", "read", 3.0)
    assert result.content == [{"type": "text", "text": "file"}], "and no details"


def test_a_message_has_the_id_that_it_has_when_the_host_shows_it() -> None:
    shown = [HostMessage("user", "Hello there.", 1_000)]
    assert read(ENTRIES).history[0][0] == message_ids("sess-1", shown)[0]


def test_reading_again_gives_the_same_and_a_longer_file_adds_what_is_new() -> None:
    before, now = (
        read(ENTRIES),
        read([*ENTRIES, entry(10, user("More?", 7_000)), entry(11, reply("Yes.", 8_000))]),
    )
    stored = {i for i, _ in before.history}
    assert before.turns([], NOW) == []
    missing = [i for i, _ in now.history if i not in stored]
    assert [[m.content for m in t.messages] for t in now.turns(missing, NOW)] == [
        ["More?", [{"type": "text", "text": "Yes."}]]
    ]
    assert [t.key for t in read(ENTRIES).turns(stored, NOW)] == [t.key for t in before.turns(stored, NOW)]


def test_a_turn_that_was_imported_half_gets_its_other_half() -> None:
    half, whole = read(ENTRIES[:2]), read(ENTRIES[:5])
    missing = [i for i, _ in whole.history if i not in {i for i, _ in half.history}]
    first, rest = half.turns([i for i, _ in half.history], NOW), whole.turns(missing, NOW)
    assert [len(t.messages) for t in (*first, *rest)] == [1, 3]
    assert first[0].key != rest[0].key


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"type":"message","id":"x"', "not a JSON object"),
        (b"[1]", "not a JSON object"),
        (b"\xff", "not a JSON object"),
        (b'{"type":"message","id":"x"}', "an entry without a message"),
        (b'{"type":"message","message":{"content":"no role"}}', "an entry without a message"),
        (b'{"type":"message","message":{"role":"user"}}', "a message without content"),
        (b'{"type":"hologram"}', "not an entry of a known type"),
    ],
)
def test_a_broken_line_is_passed_over_by_number_and_reason(line: bytes, reason: str) -> None:
    lines = [json.dumps(e).encode() for e in ENTRIES]
    transcript = read_transcript([*lines[:3], line, b"", *lines[3:]], "x.jsonl")
    assert transcript.skipped == [Skipped(4, reason)]
    assert len(transcript.history) == 6


def test_the_session_is_the_files_name_where_no_header_says_it() -> None:
    assert read(ENTRIES[1:], "a/b/5f0c-22.jsonl").session == "5f0c-22"
    assert read(ENTRIES[1:], "a/b/5f0c-22.jsonl.deleted.2026-11-29").session == "5f0c-22"


def test_old_entries_have_the_time_of_their_line() -> None:
    old = {
        "type": "message",
        "timestamp": "1970-01-01T00:00:09.000Z",
        "message": {"role": "user", "content": "Hi"},
    }
    assert read([old], "s.jsonl").turns([read([old], "s.jsonl").history[0][0]], NOW)[0].at == 9.0


def test_commands_that_the_user_ran_are_logged_as_the_host_shows_them() -> None:
    ran = entry(1, {"role": "bashExecution", "command": "ls", "output": "a", "timestamp": 1})
    (logged,) = read([HEADER, ran]).history
    assert (logged[1].role, logged[1].content) == ("custom", "$ ls\na")


@pytest.mark.parametrize("lines", [[], [b"# Memory"], [b"{}"], [b'{"type":"other"}']])
def test_what_is_no_transcript_is_refused(lines: list[bytes]) -> None:
    with pytest.raises(FormError, match="no transcript"):
        read_transcript(lines, "x.jsonl")


def test_a_newer_version_is_refused_by_name() -> None:
    with pytest.raises(FormError, match="version 5"):
        read([{**HEADER, "version": 5}])
