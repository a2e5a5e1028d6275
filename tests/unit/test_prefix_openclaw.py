"""What is known to change in OpenClaw's real prompts is found by name; what is stable raises no alarm."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from openclaw_cache.gateway.identity import identify, labels
from openclaw_cache.prefix.comparison import Comparison, compare
from openclaw_cache.prefix.lineage import Lineages
from openclaw_cache.prefix.outline import Outline, outline
from openclaw_cache.prefix.tokens import bytes_per_token

Requests = dict[int, dict[str, Any]]


@pytest.fixture(scope="module")
def requests(data_root: Path) -> Requests:
    """All captured requests by their number."""
    found: Requests = {}
    for file in sorted((data_root / "openclaw").glob("*.json")):
        if file.name != "index.json":
            found.update({request["seq"]: request for request in json.loads(file.read_text())["requests"]})
    return dict(sorted(found.items()))


def _compare(requests: Requests, first: int, second: int) -> Comparison:
    return compare(outline(requests[first]["body"]), outline(requests[second]["body"]))


TRANSITIONS = {
    # name: (earlier, later, cause, part of the label)
    "user turn to heartbeat": (57, 64, "tool_missing", 'tool "openclaw" is missing'),
    "heartbeat to user turn": (64, 65, "tool_added", 'tool "openclaw" is added'),
    "other heartbeat to user turn": (56, 57, "tool_added", 'tool "openclaw" is added'),
    "heartbeat of another agent": (
        58,
        59,
        "skills",
        'skills "add-model-provider", "cloud-image-bake", "configure-channel" and 1 more are missing',
    ),
    "back from another agent": (61, 62, "skills", "are added"),
    "MEMORY.md was written": (68, 118, "workspace_file", 'workspace file "MEMORY.md" is new'),
    "BOOTSTRAP.md is gone": (72, 74, "workspace_file", 'workspace file "BOOTSTRAP.md" is missing'),
    "user turn to memory flush": (
        72,
        73,
        "tool_missing",
        'tools "apply_patch", "edit", "exec" and 7 more are missing (memory flush)',
    ),
    "memory flush to user turn": (73, 74, "tool_added", "are added"),
    "second memory flush": (76, 77, "tool_missing", "(memory flush)"),
    "memory flush to summariser": (77, 78, "role", "another system prompt (summariser)"),
    "after compaction": (74, 76, "compacted", "the history was replaced by a summary"),
    "parent to sub-agent, all schemas": (51, 52, "tool_missing", "and 18 more are missing (sub-agent)"),
    "parent to announcement": (51, 53, "tool_missing", "are missing (sub-agent's announcement)"),
    "announcement to user turn": (53, 54, "tool_added", "are added"),
    "parent to sub-agent": (128, 129, "tool_missing", 'tool "openclaw" is missing'),
    "a recall is not kept": (125, 126, "recall", "an injected block is gone from a user message"),
    "tool search to all schemas": (40, 46, "tool_added", "are added"),
}


@pytest.mark.parametrize("name", TRANSITIONS)
def test_a_transition_that_breaks_is_found_by_name(name: str, requests: Requests) -> None:
    first, second, cause, label = TRANSITIONS[name]
    found = _compare(requests, first, second)
    assert found.cause == cause
    assert label in found.label


def test_a_summariser_shares_nothing_and_is_named_all_the_same(requests: Requests) -> None:
    found = _compare(requests, 74, 75)
    assert (found.difference, found.label, found.turn) == (
        "role",
        "another system prompt (summariser)",
        "summariser",
    )
    assert found.kept_bytes == 0


def _ordinary(requests: Requests) -> list[tuple[int, int]]:
    """Neighbours of a scenario whose messages go on: the earlier ones, the carrier aside, begin the later ones."""
    pairs = []
    by_scenario: dict[str, list[int]] = {}
    for number, request in requests.items():
        by_scenario.setdefault(request["label"].split(".")[0], []).append(number)
    for numbers in by_scenario.values():
        for first, second in pairwise(numbers):
            one, other = requests[first]["body"], requests[second]["body"]
            key = "input" if "input" in one else "messages"
            history = [_plain(message) for message in one.get(key, [])[:-1]]
            same_head = one.get("tools") == other.get("tools") and one.get("system") == other.get("system")
            if (
                one.get("tools")
                and same_head
                and history == [_plain(message) for message in other.get(key, [])[: len(history)]]
            ):
                pairs.append((first, second))
    return pairs


def _plain(message: dict[str, Any]) -> dict[str, Any]:
    """Without marks, and with a single text as one."""
    content = message.get("content")
    if isinstance(content, list) and len(content) == 1 and "text" in content[0]:
        return {**message, "content": content[0]["text"]}
    return message


def test_ordinary_turns_and_tool_steps_raise_no_alarm(requests: Requests) -> None:
    pairs = _ordinary(requests)
    assert len(pairs) >= 40
    for first, second in pairs:
        found = _compare(requests, first, second)
        assert (found.cause, found.difference, found.lost_bytes) == ("", "", 0), (first, second, found.label)


def test_retries_raise_no_alarm(requests: Requests) -> None:
    for first in range(132, 148):
        assert not _compare(requests, first, first + 1).cause, first


def test_heartbeat_to_heartbeat_raises_no_alarm(requests: Requests) -> None:
    for first, second in ((58, 60), (60, 62), (62, 64), (59, 61), (61, 63), (63, 66), (66, 67)):
        assert not _compare(requests, first, second).cause, (first, second)


def test_a_session_keeps_its_lines_apart(requests: Requests) -> None:
    """The main session switches between user turns and heartbeats: only the first of a line breaks."""
    lineages: Lineages[int] = Lineages()
    broken = {}
    for number, request in requests.items():
        headers = [(name.lower().encode(), value.encode()) for name, value in request["headers"]]
        session = identify(headers, labels(request["body"])).session
        found = lineages.add(request["body"]["model"], session, outline(request["body"]), number)
        broken[number] = found.prefix_break()
        if number == 64:
            assert found.previous is not None
            assert found.previous.tag == 62
            assert found.best is not None
            assert found.best.tag == 62
        if number == 65:
            assert found.previous is not None
            assert found.previous.comparison.cause == "tool_added"
            assert found.best is not None
            assert found.best.tag == 57
    assert broken[57] is not None
    assert [broken[number] for number in (60, 61, 62, 63, 64, 65, 66, 67, 68)] == [None] * 9


def test_memory_written_between_turns_costs_the_history_behind_it(requests: Requests) -> None:
    """`- …` is appended to MEMORY.md in a real prompt that has one: all behind it is lost, and nothing before it."""
    body = json.loads(json.dumps(requests[118]["body"]))
    text = body["messages"][0]["content"]
    begin = text.index("/MEMORY.md\n")
    end = text.index("\n<!-- /openclaw:attempt:STABLE", begin)
    body["messages"][0]["content"] = text[:end] + "\n- A new fact." + text[end:]
    earlier = outline(requests[118]["body"])
    found = compare(earlier, outline(body))
    assert (found.cause, found.label) == ("workspace_file", 'workspace file "MEMORY.md" has changed')
    tools = sum(part.num_bytes for part in earlier.parts if part.kind == "tool")
    assert found.kept_bytes == tools + len(text[:end].encode()) + len("\n")
    carrier = earlier.parts[-1].num_bytes
    assert found.reachable_bytes == earlier.num_bytes - carrier


VOLATILE: dict[str, tuple[str, str, str, str]] = {
    "a day passes": ("Current date: 2026-11-29", "Current date: 2026-11-30", "date", '"Current date"'),
    "another zone": ("Time zone: UTC", "Time zone: Asia/Shanghai", "date", '"Time zone"'),
    "another model": (
        "Current model identity: stub/stub-model",
        "Current model identity: stub/other",
        "identity",
        "the model's name",
    ),
    "another level": ("Reasoning=off;", "Reasoning=high;", "identity", "the reasoning level"),
}


@pytest.mark.parametrize("name", VOLATILE)
def test_what_openclaw_writes_into_its_dynamic_part_is_named(name: str, requests: Requests) -> None:
    old, new, cause, label = VOLATILE[name]
    for number in (7, 118, 40):
        first = requests[number]["body"]
        assert old in json.dumps(first)
        second = json.loads(json.dumps(first).replace(old, new, 1))
        found = compare(outline(first), outline(second))
        assert found.difference == cause, found
        assert label in found.label


@pytest.mark.parametrize("trace", ["miniswe", "taubench"])
@pytest.mark.parametrize("order", ["as written", "by time"])
def test_text_traces_raise_no_alarm(trace: str, order: str, data_root: Path) -> None:
    with gzip.open(data_root / "traces" / "lmcache_agent" / f"{trace}.jsonl.gz", "rt") as lines:
        rows = [json.loads(line) for line in lines]
    if order == "by time":
        rows.sort(key=lambda row: row["timestamp"])
    lineages: Lineages[None] = Lineages()
    for row in rows:
        found = lineages.add(trace, row["session_id"], outline({"prompt": row["input"]}), None)
        assert found.prefix_break() is None


def test_tokens_are_estimated_within_a_sixth_of_what_o200k_counts(
    requests: Requests, data_root: Path
) -> None:
    counted = json.loads((data_root / "openclaw" / "index.json").read_text())["requests"]
    for row in counted:
        prompt = outline(requests[row["seq"]]["body"])
        estimate = prompt.num_bytes / bytes_per_token(prompt)
        assert estimate == pytest.approx(row["prompt_tokens"], rel=1 / 6)


def test_marks_for_a_providers_cache_change_nothing(requests: Requests) -> None:
    mark: Callable[[Any], Any] = lambda block: {**block, "cache_control": {"type": "ephemeral"}}  # noqa: E731
    for number in (3, 22, 26, 118):
        body = requests[number]["body"]
        marked = {**body, "tools": [*body["tools"][:-1], mark(body["tools"][-1])]}
        key = "input" if "input" in body else "messages"
        marked[key] = [
            {**message, "content": [mark(block) for block in message["content"]]}
            if isinstance(message.get("content"), list)
            else message
            for message in body[key]
        ]
        assert _texts(outline(marked)) == _texts(outline(body))


def _texts(prompt: Outline) -> list[str]:
    return [part.text for part in prompt.parts]
