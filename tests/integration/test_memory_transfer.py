"""Export and import: all of it, the same again, from other programs' files, and nothing twice."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from support.memory_site import Agent, without_vectors
from support.served import Served

MEMORY_MD = """# Memory

## Preferences
- Prefers tea over coffee
- Uses the editor Helix

## People
Ada is the lead of project Atlas.
"""


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Served]:
    async with without_vectors(tmp_path) as running:
        yield running


def said(role: str, text: str, at_ms: int) -> dict[str, Any]:
    return {"role": role, "content": text, "timestamp": at_ms}


async def filled(agent: Agent) -> None:
    """Versions, superseded memories, two sessions, and a recall."""
    first = await agent.store("I live in Rome.", slot="user.city", tags=["a", "b"], time=100)
    await agent.store("I live in Oslo.", slot="user.city", time=200)
    await agent.send("PATCH", f"memories/{first['id']}", {"text": "I lived in Rome."})
    for number in range(3):
        messages = [
            said("user", f"Question {number}?", 1000 * number + 1),
            said("assistant", f"Reply {number}.", 1000 * number + 2),
        ]
        await agent.post("turns", {"key": f"k{number}", "session_id": f"s{number % 2}", "messages": messages})
    await agent.post(
        "context:assemble", {"session_id": "s0", "messages": [], "prompt": "Where do I live, Oslo?"}
    )


def parsed(export: bytes) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    header, *lines = (json.loads(line) for line in export.splitlines())
    return header, lines


async def test_an_export_imported_elsewhere_is_the_same_export(gateway: Served) -> None:
    one, two = Agent(gateway, "one"), Agent(gateway, "two")
    await filled(one)
    answer = await one.send("GET", "export")
    assert answer.headers["content-type"] == "application/x-ndjson"
    header, lines = parsed(answer.body)
    assert (header["agent"], header["num_memories"], header["num_turns"]) == ("one", 2, 3)
    assert [sum(kind in line for line in lines) for kind in ("memory", "turn", "recall")] == [2, 3, 1]
    assert [version["text"] for version in lines[0]["memory"]] == ["I live in Rome.", "I lived in Rome."]
    report = await two.post("import?format=jsonl", answer.body)
    assert report == {"added": 6, "updated": 0, "unchanged": 0, "skipped": []}
    again_header, again = parsed((await two.send("GET", "export")).body)
    assert again == lines
    assert {**again_header, "agent": "one", "exported_at": 0} == {**header, "exported_at": 0}


async def test_an_import_that_is_repeated_changes_nothing(gateway: Served) -> None:
    one, two = Agent(gateway, "one"), Agent(gateway, "two")
    await filled(one)
    export = (await one.send("GET", "export")).body
    await two.post("import", export)
    assert await two.post("import", export) == {"added": 0, "updated": 0, "unchanged": 6, "skipped": []}
    assert await one.post("import", export) == {"added": 0, "updated": 0, "unchanged": 6, "skipped": []}


async def test_a_broken_line_is_named_and_the_others_are_taken(gateway: Served) -> None:
    one, two = Agent(gateway, "one"), Agent(gateway, "two")
    await one.store("a")
    await one.store("b")
    lines = (await one.send("GET", "export")).body.splitlines()
    report = await two.post("import", b"\n".join([lines[0], b"{broken", *lines[1:]]))
    assert (report["added"], [one["line"] for one in report["skipped"]]) == (2, [2])
    cut_short = await Agent(gateway, "three").post("import", b"\n".join(lines[:-1]))
    assert cut_short["added"] == 1
    assert "missing" in cut_short["skipped"][0]["reason"]


async def test_what_is_no_export_is_refused_and_makes_no_agent(gateway: Served) -> None:
    agent = Agent(gateway)
    for body in (b"", b"hello", b'{"format": "other"}', b"\xff\xfe"):
        status, error = await agent.refused("POST", "import?format=jsonl", body)
        assert (status, error["code"]) == (400, "not_importable")
    status, error = await agent.refused("POST", "import?format=markdown&path=MEMORY.md", b"\xff\xfe\x00")
    assert (status, error["code"]) == (400, "not_importable")


async def test_memory_files_are_taken_in_and_followed_as_they_are_edited(gateway: Served) -> None:
    agent = Agent(gateway)
    path = "import?format=markdown&path=MEMORY.md"
    first = await agent.post(path, MEMORY_MD.encode())
    assert (first["added"], first["updated"], first["skipped"]) == (3, 0, [])
    assert await agent.post(path, MEMORY_MD.encode()) == {
        "added": 0, "updated": 0, "unchanged": 3, "skipped": [],
    }  # fmt: skip
    (found,) = [text for text in await agent.find("which editor") if "Helix" in text]
    edited = await agent.post(
        path, MEMORY_MD.replace("Uses the editor Helix", "Uses the editor Zed").encode()
    )
    assert (edited["added"], edited["updated"], edited["unchanged"]) == (0, 1, 2)
    texts = await agent.texts()
    assert found not in texts
    assert any("Zed" in text for text in texts)
    assert len(texts) == 3
    shown = (await agent.get("memories?tag=file:MEMORY.md"))["memories"]
    assert {memory["provenance"]["path"] for memory in shown} == {"MEMORY.md"}
    assert {memory["source"] for memory in shown} == {"import"}


async def test_what_was_changed_here_is_not_overwritten_by_its_file(gateway: Served) -> None:
    agent = Agent(gateway)
    path = "import?format=markdown&path=MEMORY.md"
    await agent.post(path, MEMORY_MD.encode())
    (memory,) = [m for m in (await agent.get("memories"))["memories"] if "tea" in m["text"]]
    await agent.send("PATCH", f"memories/{memory['id']}", {"text": "Prefers mate now"})
    await agent.post(path, MEMORY_MD.encode())
    texts = await agent.texts()
    assert "Prefers mate now" in texts
    assert not any("tea over coffee" in text for text in texts)


async def test_a_file_that_says_what_is_remembered_already_adds_nothing(gateway: Served) -> None:
    agent = Agent(gateway)
    await agent.post("import?format=markdown&path=memory/a.md", b"- The harbour master is Ines.\n")
    texts = await agent.texts()
    report = await agent.post("import?format=markdown&path=memory/b.md", b"- The harbour master is Ines.\n")
    assert (report["added"], report["unchanged"]) == (0, 1)
    assert await agent.texts() == texts


async def test_a_daily_file_gives_its_day(gateway: Served) -> None:
    agent = Agent(gateway)
    await agent.post("import?format=markdown&path=memory/2026-11-03.md", b"- Moved the launch to March\n")
    (memory,) = (await agent.get("memories"))["memories"]
    assert memory["time"].startswith("2026-11-03")


async def test_a_transcript_becomes_turns_once(gateway: Served) -> None:
    agent = Agent(gateway)
    entries: list[dict[str, Any]] = [
        {"type": "session", "version": 3, "id": "sess-1", "timestamp": "2026-11-03T10:00:00Z"}
    ]
    for number in range(2):
        for role, text in (
            ("user", f"How deep is lock {number}?"),
            ("assistant", f"Lock {number} is 4 m deep."),
        ):
            message = {
                "role": role,
                "content": [{"type": "text", "text": text}],
                "timestamp": 1_000 + len(entries),
            }
            entries.append({"type": "message", "id": f"e{len(entries)}", "message": message})
    raw = "\n".join(json.dumps(entry) for entry in entries).encode()
    report = await agent.post("import?format=transcript&path=sess-1.jsonl", raw + b"\nbroken")
    assert (report["added"], report["unchanged"], len(report["skipped"])) == (4, 0, 1)
    assert (await agent.post("import?format=transcript&path=sess-1.jsonl", raw))["added"] == 0
    (hit, *_) = (await agent.post("turns:search", {"query": "how deep is lock 1"}))["results"]
    assert hit["session"] == "sess-1"
    turns = (await agent.get("turns?session=sess-1"))["turns"]
    assert [turn["origin"] for turn in turns] == ["import", "import"]
    assert hit["turn"] in [turn["id"] for turn in turns]


async def test_what_stood_around_a_message_is_shown_within_the_tokens(gateway: Served) -> None:
    agent = Agent(gateway)
    messages = [said("user" if i % 2 == 0 else "assistant", f"word{i} " * 20, i + 1) for i in range(10)]
    await agent.post("turns", {"key": "k", "session_id": "s", "messages": messages})
    (hit,) = (await agent.post("turns:search", {"query": "word5", "limit": 1}))["results"]
    reply = await agent.post("turns:expand", {"id": hit["message"], "before": 2, "after": 1})
    assert [m["content"].split()[0] for m in reply["messages"]] == ["word3", "word4", "word5", "word6"]
    assert reply["truncated"] is False
    little = await agent.post(
        "turns:expand", {"id": hit["message"], "before": 2, "after": 1, "max_tokens": 100}
    )
    shown = [m["content"].split()[0] for m in little["messages"]]
    assert "word5" in shown
    assert len(shown) < 4
    assert little["truncated"] is True
    tiny = await agent.post("turns:expand", {"id": hit["message"], "max_tokens": 5})
    assert (len(tiny["messages"]), tiny["truncated"]) == (1, True)
    assert tiny["messages"][0]["content"].startswith("word5")
    whole = await agent.post("turns:expand", {"id": hit["turn"], "max_tokens": 100_000})
    assert [m["content"].split()[0] for m in whole["messages"]] == [f"word{i}" for i in range(10)]
