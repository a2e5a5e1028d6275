"""Each cause is found by name, in the form of each API, and costs what stands behind it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from openclaw_cache.prefix.causes import CAUSES
from openclaw_cache.prefix.comparison import Comparison, compare, is_worth_an_alarm
from openclaw_cache.prefix.outline import outline
from openclaw_cache.prefix.turns import num_tail
from unit.prefix_prompts import SHAPES, SYSTEM, Prompt, Tool, Turn, long_text, sample

Change = Callable[[Prompt], Prompt]


def _tools(change: Callable[[list[Tool]], list[Tool]]) -> Change:
    return lambda prompt: prompt.changed(tools=change(list(prompt.tools)))


def _turns(change: Callable[[list[Turn]], list[Turn]]) -> Change:
    return lambda prompt: prompt.changed(turns=change(list(prompt.turns)))


def _turn(number: int, **fields: Any) -> Change:
    return _turns(lambda turns: [*turns[:number], replace(turns[number], **fields), *turns[number + 1 :]])


def _system(old: str, new: str) -> Change:
    return lambda prompt: prompt.with_system(old, new)


def _first_line(line: str) -> Change:
    return lambda prompt: prompt.changed(system=[f"{line}\n{prompt.system[0]}"])


def _same(prompt: Prompt) -> Prompt:
    return prompt


def _schema(tool: Tool, **changes: Any) -> Tool:
    return replace(tool, schema={**tool.schema, **changes})


_HEARTBEAT = _turns(
    lambda turns: [*turns[:-1], Turn("user", "Follow the heartbeat monitor scratch context.")]
)
_SUMMARY = "The conversation history before this point was compacted into the following summary:\n<summary>x</summary>"
_RECALL = "\n\n<relevant-memories>\n- The deadline is 2026-12-15\n</relevant-memories>"
_REMINDER = (
    "<system-reminder>\nContents of /home/user/work/CLAUDE.md (project instructions, checked in):\n\n"
    "Use tabs.\nKeep it short.\n# currentDate\nToday's date is 2026-11-29.\n</system-reminder>\n"
)
_RUNTIME = "\n\nRuntime: agent=main | session=agent:main:a | sessionId=f7b1c29a-1367-4b31-b5b5-87fb5746b0ef | host=box"

CASES: dict[str, tuple[Change, Change, str, str]] = {
    # name: (what the earlier prompt has, what the later one has, cause, part of the label)
    "a tool is missing": (
        _same,
        _tools(lambda tools: [t for t in tools if t.name != "openclaw"]),
        "tool_missing",
        'tool "openclaw" is missing',
    ),
    "a tool is missing in a heartbeat": (
        _same,
        lambda p: _HEARTBEAT(_tools(lambda tools: [t for t in tools if t.name != "openclaw"])(p)),
        "tool_missing",
        'tool "openclaw" is missing (heartbeat)',
    ),
    "five tools are missing but one": (
        _same,
        _tools(lambda tools: tools[:1]),
        "tool_missing",
        'tools "exec", "openclaw", "read" and 1 more are missing',
    ),
    "all tools are missing": (_same, _tools(lambda _: []), "tool_missing", "all 5 tools are missing"),
    "a tool is added": (
        _same,
        _tools(lambda tools: [*tools[:2], Tool("mcp_new"), *tools[2:]]),
        "tool_added",
        'tool "mcp_new" is added',
    ),
    "tools where there were none": (
        _tools(lambda _: []),
        _same,
        "tool_added",
        "5 tools where there were none",
    ),
    "a tool is missing and another changed before it": (
        _same,
        _tools(lambda tools: [replace(tools[0], description="No."), *tools[1:4]]),
        "tool_missing",
        'tool "write" is missing, and first differs the description of tool "apply_patch"',
    ),
    "a description changed": (
        _same,
        _tools(lambda tools: [replace(tools[0], description="Since 2026-11-30: careful."), *tools[1:]]),
        "tool_changed",
        'the description of tool "apply_patch"',
    ),
    "a schema changed": (
        _same,
        _tools(lambda tools: [tools[0], _schema(tools[1], required=["path", "limit"]), *tools[2:]]),
        "tool_changed",
        'the schema of tool "exec"',
    ),
    "tools in another order": (
        _same,
        _tools(lambda tools: tools[::-1]),
        "tool_order",
        "the same tools in another order",
    ),
    "keys in another order": (
        _same,
        _tools(lambda tools: [replace(tools[0], schema=dict(reversed(tools[0].schema.items()))), *tools[1:]]),
        "tool_format",
        'tool "apply_patch" has its JSON keys in another order',
    ),
    "white space in a description": (
        _same,
        _tools(lambda tools: [replace(tools[0], description=tools[0].description + "\n"), *tools[1:]]),
        "tool_format",
        'tool "apply_patch" has other white space',
    ),
    "a billing header changed": (
        _first_line("x-anthropic-billing-header: cc_version=2.1.15; cc_entrypoint=cli; cch=0a1b2;"),
        _first_line("x-anthropic-billing-header: cc_version=2.1.15; cc_entrypoint=cli; cch=99fe3;"),
        "billing_header",
        "the billing header",
    ),
    "a billing header came": (
        _same,
        _first_line("x-anthropic-billing-header: cc_version=2.1.15; cch=99fe3;"),
        "billing_header",
        "the billing header",
    ),
    "a billing block changed": (
        lambda p: p.changed(system=["x-anthropic-billing-header: cch=1;", *p.system]),
        lambda p: p.changed(system=["x-anthropic-billing-header: cch=2;", *p.system]),
        "billing_header",
        "the billing header",
    ),
    "a billing block is gone": (
        lambda p: p.changed(system=["x-anthropic-billing-header: cch=1;", *p.system]),
        _same,
        "billing_header",
        "the billing header",
    ),
    "a day passed": (
        _same,
        _system("2026-11-29", "2026-11-30"),
        "date",
        '"Current date" in the system prompt',
    ),
    "a minute passed": (
        _first_line("Current time: Sunday, November 29th, 2026 - 5:52 PM (UTC)"),
        _first_line("Current time: Sunday, November 29th, 2026 - 5:53 PM (UTC)"),
        "date",
        '"Current time" in the system prompt',
    ),
    "a minute passed in Chinese": (
        _first_line("当前时间：2026年11月29日 17:52"),
        _first_line("当前时间：2026年11月29日 17:53"),
        "date",
        '"Current time" in the system prompt',
    ),
    "a day passed in prose": (
        _first_line("Today is Monday, 30 November 2026."),
        _first_line("Today is Tuesday, 1 December 2026."),
        "date",
        '"Today\'s date" in the system prompt',
    ),
    "another time zone": (
        _same,
        _system("Time zone: UTC", "Time zone: Europe/Berlin"),
        "date",
        '"Time zone" in the system prompt',
    ),
    "a session id": (
        _first_line("Session ID: f7b1c29a-1367-4b31-b5b5-87fb5746b0ef"),
        _first_line("Session ID: 0d3c1b2a-1367-4b31-b5b5-87fb5746b0ef"),
        "id",
        "the session id in the system prompt",
    ),
    "a request id": (
        _first_line("request_id=req_011CQabc123"),
        _first_line("request_id=req_011CQabd999"),
        "id",
        "the request id in the system prompt",
    ),
    "a host name": (
        _first_line("Hostname: lobster"),
        _first_line("Hostname: crab"),
        "id",
        "the host name in the system prompt",
    ),
    "another folder": (
        _same,
        _system("Working directory: /home/user/work/main", "Working directory: /home/user/work/second"),
        "path",
        "the working directory in the system prompt",
    ),
    "a file's folder": (
        _same,
        _system("## /home/user/work/main/AGENTS.md", "## /home/user/work/second/AGENTS.md"),
        "path",
        'the folder of workspace file "AGENTS.md"',
    ),
    "tokens used": (
        _first_line("Context used: 45k/200k tokens (22%)"),
        _first_line("Context used: 51k/200k tokens (25%)"),
        "counter",
        "the context used in the system prompt",
    ),
    "a cost": (
        _first_line("Session cost: $0.35"),
        _first_line("Session cost: $0.41"),
        "counter",
        "in the system prompt",
    ),
    "MEMORY.md grew": (
        _same,
        _system(
            "- The project is called Bluefin.",
            "- The project is called Bluefin.\n- The deadline is 2026-12-15.",
        ),
        "workspace_file",
        'workspace file "MEMORY.md" has changed',
    ),
    "AGENTS.md changed": (
        _same,
        _system("Write tests first.", "Write tests last."),
        "workspace_file",
        'workspace file "AGENTS.md" has changed',
    ),
    "MEMORY.md is new": (
        _system(
            "## /home/user/work/main/MEMORY.md\n- The user likes short answers.\n- The project is called Bluefin.\n",
            "",
        ),
        _same,
        "workspace_file",
        'workspace file "MEMORY.md" is new',
    ),
    "MEMORY.md is missing": (
        _same,
        _system(
            "## /home/user/work/main/MEMORY.md\n- The user likes short answers.\n- The project is called Bluefin.\n",
            "",
        ),
        "workspace_file",
        'workspace file "MEMORY.md" is missing',
    ),
    "a skill is missing": (
        _same,
        _system(
            "  <skill>\n    <name>weather</name>\n    <description>Tell the weather.</description>\n  </skill>\n",
            "",
        ),
        "skills",
        'skill "weather" is missing',
    ),
    "a skill is new": (
        _system(
            "  <skill>\n    <name>weather</name>\n    <description>Tell the weather.</description>\n  </skill>\n",
            "",
        ),
        _same,
        "skills",
        'skill "weather" is added',
    ),
    "lines for the owner": (
        _same,
        _system("## Workspace", "In a connected chat, the owner can send /update.\n## Workspace"),
        "owner",
        "lines for the owner",
    ),
    "another model": (
        _same,
        _system("vendor/model-1", "vendor/model-2"),
        "identity",
        "the model's name in the system prompt",
    ),
    "the list of tools in the text": (
        _same,
        _system("- exec: run a command\n", ""),
        "tool_text",
        "the list of tools in the system prompt",
    ),
    "the DYNAMIC part": (
        _same,
        _system("## Runtime", "You are in a direct conversation.\n## Runtime"),
        "dynamic",
        "DYNAMIC part",
    ),
    "line ends": (
        _same,
        lambda p: p.changed(system=[p.system[0].replace("\n", "\r\n")]),
        "system_format",
        "white space",
    ),
    "other text": (_same, _system("Rule 3:", "Rule three:"), "system_changed", "of the system prompt"),
    "another system prompt": (
        _same,
        lambda p: p.changed(
            system=["You are a context summarization assistant. Read the conversation.\n" * 12]
        ),
        "role",
        "another system prompt (summariser)",
    ),
    "the oldest messages are gone": (
        _same,
        _turns(lambda turns: turns[4:]),
        "history_cut",
        "the 4 oldest messages are gone",
    ),
    "the history was compacted": (
        _same,
        _turns(lambda turns: [Turn("user", _SUMMARY), *turns[4:]]),
        "compacted",
        "replaced by a summary",
    ),
    "an answer is gone": (
        _same,
        _turns(lambda turns: [*turns[:3], *turns[4:]]),
        "message_removed",
        "an assistant message is gone",
    ),
    "a message was put in": (
        _same,
        _turns(lambda turns: [*turns[:3], Turn("user", "By the way."), *turns[3:]]),
        "message_inserted",
        "a message was inserted",
    ),
    "a recall was put in": (
        _same,
        _turns(lambda turns: [*turns[:3], Turn("user", _RECALL), *turns[3:]]),
        "recall",
        "an injected message",
    ),
    "a recall is gone from a message": (
        _turn(4, text="And the second one?" + _RECALL),
        _turn(4, text="And the second one?"),
        "recall",
        "an injected block is gone from a user message",
    ),
    "a recall came into a message": (
        _turn(0, text="What is it?"),
        _turn(0, text="What is it?" + _RECALL),
        "recall",
        "an injected block has come into a user message",
    ),
    "a tool result was cleared": (
        _same,
        _turn(2, text="[Old tool result content cleared]"),
        "tool_result",
        "a tool result was shortened",
    ),
    "call ids were stripped": (
        _same,
        lambda p: _turn(1, call_id="call1")(_turn(2, call_id="call1")(p)),
        "message_format",
        "the call id in an assistant message",
    ),
    "white space in an answer": (
        _same,
        _turn(3, text=long_text("answer") + "\n"),
        "message_format",
        "white space in an assistant message",
    ),
    "an answer was rewritten": (
        _same,
        _turn(3, text="Nothing."),
        "message_edited",
        "an assistant message was rewritten",
    ),
    "a question was rewritten": (
        _same,
        _turn(0, text="Who are you?"),
        "message_edited",
        "a user message was rewritten",
    ),
    "a picture changed": (
        _turn(0, image="data:image/png;base64," + "A" * 900),
        _turn(0, image="data:image/png;base64," + "B" * 900),
        "media",
        "a picture or file in a user message",
    ),
    "CLAUDE.md changed in the first message": (
        _turn(0, text=_REMINDER + "Hello."),
        _turn(0, text=_REMINDER.replace("tabs", "spaces") + "Hello."),
        "workspace_file",
        'workspace file "CLAUDE.md" has changed in a user message',
    ),
    "a day passed in the first message": (
        _turn(0, text=_REMINDER + "Hello."),
        _turn(0, text=_REMINDER.replace("11-29", "11-30") + "Hello."),
        "date",
        '"Today\'s date" in a user message',
    ),
    "a session id that is a bare number": (
        _first_line("Session ID: 4711"),
        _first_line("Session ID: 4712"),
        "id",
        "the session id in the system prompt",
    ),
    "a tool is missing and another is new behind it": (
        _same,
        _tools(lambda tools: [*(t for t in tools if t.name != "exec"), Tool("zip")]),
        "tool_missing",
        'tool "exec" is missing',
    ),
    "the description of a parameter": (
        _same,
        _tools(
            lambda tools: [
                tools[0],
                _schema(tools[1], properties={"path": {"type": "string", "description": "There."}}),
                *tools[2:],
            ]
        ),
        "tool_changed",
        'the schema of tool "exec"',
    ),
    "a window that keeps the first message": (
        _same,
        _turns(lambda turns: [turns[0], *turns[3:]]),
        "history_cut",
        "the 2 oldest messages are gone",
    ),
    "a session id in the first message": (
        _turn(0, text="Hello." + _RUNTIME),
        _turn(0, text="Hello." + _RUNTIME.replace("f7b1c29a", "0d3c1b2a")),
        "id",
        '"sessionId" in the Runtime line in a user message',
    ),
}


def _compared(shape: str, before: Change, after: Change) -> Comparison:
    body = SHAPES[shape]
    return compare(outline(body(before(sample()))), outline(body(after(sample()))))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", CASES)
def test_a_cause_is_found_by_name(name: str, shape: str) -> None:
    before, after, cause, label = CASES[name]
    found = _compared(shape, before, after)
    assert (found.difference, found.cause) == (cause, cause)
    assert label in found.label
    assert found.fix == CAUSES[cause].fix
    assert found.lost_bytes > 0


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", CASES)
def test_a_label_holds_no_text_of_the_prompt(name: str, shape: str) -> None:
    before, after, _, _ = CASES[name]
    label = _compared(shape, before, after).label
    for secret in (
        "Bluefin",
        "deadline",
        "short answers",
        "lobster",
        "crab",
        "f7b1c29a",
        "cch=",
        "/home/user",
    ):
        assert secret not in label


def test_every_cause_is_shown_by_a_case_or_a_test_of_its_own() -> None:
    shown = {cause for _, _, cause, _ in CASES.values()} | {"conversation", "text_changed", "reasoning"}
    assert shown == set(CAUSES)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_new_turn_loses_nothing(shape: str) -> None:
    body = SHAPES[shape]
    earlier = outline(body(sample()))
    later = outline(body(sample().and_then(Turn("assistant", "Nothing."), Turn("user", "Good."))))
    found = compare(earlier, later)
    assert found.is_continued
    assert (found.cause, found.difference, found.lost_bytes) == ("", "", 0)
    assert found.kept_bytes == earlier.num_bytes


@pytest.mark.parametrize("shape", SHAPES)
def test_a_carrier_at_the_tail_loses_nothing(shape: str) -> None:
    carrier = Turn(
        "user",
        "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>\n" + long_text("x") + "\n<<<END_OPENCLAW_INTERNAL_CONTEXT>>>",
    )
    body = SHAPES[shape]
    earlier = outline(body(sample().and_then(carrier)))
    later = outline(body(sample().and_then(Turn("assistant", "Nothing."), Turn("user", "Good."), carrier)))
    found = compare(earlier, later)
    assert (found.cause, found.lost_bytes, found.is_continued) == ("", 0, True)
    assert found.kept_bytes == earlier.num_bytes - earlier.parts[-1].num_bytes


def test_a_reminder_that_stays_last_loses_nothing() -> None:
    """A client that puts the same text behind every question; nothing marks it."""
    reminder = Turn("user", long_text("remember"))
    body = SHAPES["chat"]
    earlier = outline(body(sample().and_then(reminder)))
    later = outline(body(sample().and_then(Turn("assistant", "Nothing."), Turn("user", "Good."), reminder)))
    assert compare(earlier, later).lost_bytes == 0


def test_a_message_that_only_mentions_a_carriers_marks_is_none() -> None:
    begin, end = "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>", "<<<END_OPENCLAW_INTERNAL_CONTEXT>>>"

    def tail_of(*messages: tuple[str, str]) -> int:
        body = {"messages": [{"role": role, "content": text} for role, text in messages]}
        return num_tail(outline(body).parts)

    assert tail_of(("user", "hello"), ("user", f"{begin}\nidle\n{end}")) == 1
    assert tail_of(("user", "hello"), ("user", f"What is {begin}\nidle\n{end}")) == 0
    assert tail_of(("user", "hello"), ("user", f"{begin}\nidle\n{end}\nAnd now?")) == 0
    # A system message behind the assistant's own turn is part of the conversation.
    assert tail_of(("user", "hello"), ("system", "It is noon.")) == 1
    assert tail_of(("user", "hello"), ("assistant", "yes"), ("system", "It is noon.")) == 0


def test_what_the_canonicaliser_moves_to_the_tail_loses_nothing() -> None:
    body = SHAPES["chat"]
    first = body(sample())
    first["messages"].append({"role": "system", "content": "Current date: 2026-11-29\n" + long_text("x")})
    second = body(sample().and_then(Turn("assistant", "Nothing."), Turn("user", "Good.")))
    second["messages"].append({"role": "system", "content": "Current date: 2026-11-30\n" + long_text("x")})
    found = compare(outline(first), outline(second))
    assert (found.lost_bytes, found.is_continued) == (0, True)


def test_a_shorter_prompt_that_begins_the_earlier_one_loses_nothing() -> None:
    later = outline(SHAPES["chat"](sample()))
    earlier = outline(SHAPES["chat"](sample().and_then(Turn("assistant", "Nothing."))))
    found = compare(earlier, later)
    assert (found.kept_bytes, found.lost_bytes, found.difference) == (later.num_bytes, 0, "")


def test_a_turn_asked_again_a_minute_later_is_no_alarm() -> None:
    first, again = (
        {"messages": [{"role": "user", "content": f"[Sun 2026-11-29 17:{m} UTC] {long_text('x')}"}]}
        for m in (28, 29)
    )
    found = compare(outline(first), outline(again))
    assert (found.cause, found.difference, found.lost_bytes) == ("", "date", 0)


def test_another_conversation_under_the_same_head_is_no_alarm() -> None:
    other = sample().changed(
        turns=[Turn("user", "Tell me a joke."), Turn("assistant", "No."), Turn("user", "Why?")]
    )
    found = compare(outline(SHAPES["chat"](sample())), outline(SHAPES["chat"](other)))
    assert (found.cause, found.difference) == ("", "conversation")


def test_fixed_text_behind_a_question_is_told() -> None:
    first, second = (
        {"messages": [{"role": "user", "content": f"{q}\n{long_text('rules')}"}]}
        for q in ("What is a cat?", "Who was Ada?")
    )
    assert compare(outline(first), outline(second)).cause == "text_changed"


def test_thinking_that_was_taken_out_of_the_history_is_told() -> None:
    body = SHAPES["anthropic"](sample())
    thought = SHAPES["anthropic"](sample())
    thought["messages"][3]["content"].insert(0, {"type": "thinking", "thinking": "Hm.", "signature": "s"})
    assert compare(outline(thought), outline(body)).cause == "reasoning"
    chat = SHAPES["chat"](sample())
    chat["messages"][4]["reasoning_content"] = "Hm."
    assert compare(outline(chat), outline(SHAPES["chat"](sample()))).cause == "reasoning"


def test_arguments_written_anew_are_told() -> None:
    spaced = _turn(1, text='{ "path" : "src/a.py", "limit" : 10 }')(sample())
    swapped = _turn(1, text='{"limit":10,"path":"src/a.py"}')(sample())
    for shape in ("chat", "responses"):
        for other in (spaced, swapped):
            found = compare(outline(SHAPES[shape](other)), outline(SHAPES[shape](sample())))
            assert found.cause == "message_format", (shape, found)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_pointer_and_offset_name_the_byte(shape: str) -> None:
    """Read from the body as RFC 6901 says: the earlier text has the same bytes up to the offset, and another next."""
    before, after = SHAPES[shape](sample()), SHAPES[shape](sample().with_system("Rule 3:", "Rülé 3:"))
    found = compare(outline(before), outline(after))
    old, new = _at(before, found.pointer).encode(), _at(after, found.pointer).encode()
    assert old[: found.offset] == new[: found.offset]
    assert new[found.offset :].decode().startswith("ülé 3:")


@pytest.mark.parametrize("shape", SHAPES)
def test_offsets_are_bytes_behind_text_that_is_not_ascii(shape: str) -> None:
    first = sample().with_system("Rule 3:", "规则 — 3:")
    before, after = SHAPES[shape](first), SHAPES[shape](first.with_system("3:", "4:"))
    found = compare(outline(before), outline(after))
    assert _at(after, found.pointer).encode()[found.offset :].decode().startswith("4:")

    for other in ("工具 walks.", "工具  runs."):
        before, after = (
            SHAPES[shape](first.changed(tools=[Tool("exec", text)])) for text in ("工具 runs.", other)
        )
        found = compare(outline(before), outline(after))
        assert _at(after, found.pointer).encode()[: found.offset].decode() == "工具 "


def test_what_costs_few_tokens_is_no_alarm_however_many_bytes_it_has() -> None:
    """64 tokens of ASCII are 279 bytes (4.35 each): 250 that are lost are no alarm, 300 are."""
    for lost, cause in ((250, ""), (300, "date")):
        earlier, later = (
            outline({"messages": [{"role": "system", "content": f"Date: 2026-11-{day}\n" + "a" * lost}]})
            for day in ("29", "30")
        )
        found = compare(earlier, later)
        assert found.lost_bytes == lost
        assert (found.difference, found.cause) == ("date", cause)


def test_an_alarm_takes_64_tokens_and_a_hundredth_of_what_was_reachable() -> None:
    assert is_worth_an_alarm(64, 6400)
    assert not is_worth_an_alarm(63.9, 6300)
    assert not is_worth_an_alarm(64, 6401)


def test_the_pointer_names_a_value_in_a_tools_schema() -> None:
    other = _tools(
        lambda tools: [tools[0], _schema(tools[1], properties={"a/b": {"type": "string"}}), *tools[2:]]
    )(sample())
    found = compare(outline(SHAPES["chat"](sample())), outline(SHAPES["chat"](other)))
    assert found.pointer == "/tools/1/function/parameters/properties/a~1b"


def test_the_pointer_of_what_is_missing_is_of_the_earlier_body() -> None:
    other = _tools(lambda tools: tools[:2] + tools[3:])(sample())
    found = compare(outline(SHAPES["anthropic"](sample())), outline(SHAPES["anthropic"](other)))
    assert found.pointer == "/tools/2"


def test_of_messages_that_are_gone_the_first_is_pointed_at_from_its_beginning() -> None:
    def prompt(*numbers: int) -> Any:
        turns = [{"role": "user", "content": f"Question {n}: {long_text(str(n))}"} for n in numbers]
        return outline({"messages": turns})

    found = compare(prompt(1, 2, 3, 4, 5), prompt(1, 4, 5))
    assert (found.label, found.pointer, found.offset) == (
        "the 2 oldest messages are gone",
        "/messages/1",
        0,
    )


def test_excerpts_show_both_sides() -> None:
    found = compare(
        outline(SHAPES["chat"](sample())),
        outline(SHAPES["chat"](sample().with_system("2026-11-29", "2026-12-01"))),
    )
    assert found.before.startswith("Current date: 2026-11-29\n")
    assert found.after.startswith("Current date: 2026-12-01\n")


def test_what_is_lost_is_what_stands_behind_in_both() -> None:
    """By hand: all of the earlier prompt but the digits that changed."""
    first = {
        "messages": [
            {"role": "system", "content": "Day 1\n" + "a" * 400},
            {"role": "user", "content": "b" * 400},
        ]
    }
    second = {
        "messages": [
            {"role": "system", "content": "Day 2\n" + "a" * 400},
            {"role": "user", "content": "b" * 400},
        ]
    }
    found = compare(outline(first), outline(second))
    assert found.kept_bytes == len("Day ")
    assert found.lost_bytes == 400 + len("user\n") + 400


def _at(body: Any, pointer: str) -> Any:
    for key in pointer.split("/")[1:]:
        body = body[int(key)] if isinstance(body, list) else body[key.replace("~1", "/").replace("~0", "~")]
    return body


def test_the_sample_has_no_break_with_itself() -> None:
    assert SYSTEM in sample().system
    for body in SHAPES.values():
        prompt = outline(body(sample()))
        found = compare(prompt, outline(body(sample())))
        assert (found.kept_bytes, found.difference) == (prompt.num_bytes, "")


HOSTILE = {
    "lines": "a\n" * 300_000,
    "one line": "ab" * 300_000,
    "commas": "a," * 300_000,
    "brackets": "[" * 500_000,
    "tags": "<aa>" * 200_000,
    "other tags": "".join(f"<t{number}>" for number in range(100_000)),
    "media": "<media " * 100_000,
    "dashes": "ab-" * 200_000,
    "slashes": "Contents of " + "/a" * 300_000,
    "headings": "## /a/b.md\n" * 60_000,
    "names": "<name>" * 100_000,
    "hex": "0a" * 300_000,
    "days": "Mon " * 150_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_takes_no_quadratic_work(name: str) -> None:
    """Each of these takes minutes where a step is quadratic: the limit on a test's time would show it."""
    text = HOSTILE[name]
    for head in ("x", "[Sun] ", "<aa>"):
        for body, changed in (
            (
                {"messages": [{"role": "user", "content": text}]},
                {"messages": [{"role": "user", "content": head + text}]},
            ),
            ({"system": text, "prompt": text}, {"system": head + text, "prompt": text}),
            ({"tools": [{"name": "t", "d": text}]}, {"tools": [{"name": "t", "d": head + text}]}),
        ):
            earlier = outline(body)
            found = compare(earlier, outline(changed))
            assert found.kept_bytes <= found.reachable_bytes <= earlier.num_bytes


def test_a_message_without_any_text_is_compared_like_any_other() -> None:
    def prompt(*content: Any) -> Any:
        turns = [{"role": "user", "content": "q"}, {"role": "assistant", "content": list(content)}]
        return outline({"messages": [*turns, {"role": "user", "content": "x" * 4000}]})

    thinking = {"type": "thinking", "thinking": "hm", "signature": "s"}
    for one, other in ([prompt(), prompt(thinking)], [prompt(thinking), prompt()]):
        assert compare(one, other).difference


def test_thinking_that_is_an_item_of_its_own_is_named_when_it_goes_or_comes() -> None:
    body = SHAPES["responses"](sample())
    thought = copy.deepcopy(body)
    place = next(n for n, item in enumerate(body["input"]) if item.get("role") == "assistant")
    thought["input"].insert(place, {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "g"})
    assert compare(outline(thought), outline(body)).cause == "reasoning"
    assert compare(outline(body), outline(thought)).cause == "reasoning"
