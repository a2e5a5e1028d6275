"""A body of any API reads as tools, then system texts, then messages."""

from __future__ import annotations

from typing import Any

import pytest

from openclaw_cache.prefix.outline import outline
from unit.prefix_prompts import SHAPES, Prompt, Tool, Turn


def _kinds(body: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(part.kind, part.name, part.pointer) for part in outline(body).parts]


def test_chat_reads_tools_first() -> None:
    body = SHAPES["chat"](Prompt(["You help."], [Tool("exec")], [Turn("user", "Hello")]))
    assert _kinds(body) == [
        ("tool", "exec", "/tools/0"),
        ("system", "system", "/messages/0/content"),
        ("message", "user", "/messages/1"),
    ]
    assert [part.text for part in outline(body).parts[1:]] == ["You help.", "user\nHello"]


def test_a_tool_is_compact_json_in_the_clients_order() -> None:
    assert outline({"tools": [{"b": 1, "a": [1, 2]}]}).parts[0].text == '{"b":1,"a":[1,2]}'


def test_anthropic_reads_its_system_blocks() -> None:
    body = SHAPES["anthropic"](Prompt(["One.", "Two."], [], [Turn("user", "Hello")]))
    assert _kinds(body) == [
        ("system", "system", "/system/0/text"),
        ("system", "system", "/system/1/text"),
        ("message", "user", "/messages/0"),
    ]
    assert _kinds({"system": "One."}) == [("system", "system", "/system")]


def test_responses_reads_instructions_and_items() -> None:
    body = {
        "instructions": "You help.",
        "input": [
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": [{"type": "input_text", "text": "Hello"}]},
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
            {"type": "function_call", "call_id": "c1", "name": "exec", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "done"},
        ],
    }
    assert _kinds(body) == [
        ("system", "system", "/instructions"),
        ("system", "developer", "/input/0/content"),
        ("message", "user", "/input/1"),
        ("message", "assistant", "/input/2"),
        ("message", "assistant", "/input/3"),
        ("message", "tool", "/input/4"),
    ]
    assert _kinds({"input": "Hello"}) == [("message", "user", "/input")]


def test_a_late_system_message_stays_where_it_is() -> None:
    body = {"messages": [{"role": "user", "content": "a"}, {"role": "system", "content": "b"}]}
    assert [(part.kind, part.text) for part in outline(body).parts] == [
        ("message", "user\na"),
        ("message", "system\nb"),
    ]


def test_a_bare_text_is_itself() -> None:
    assert [part.text for part in outline({"prompt": "Hello"}).parts] == ["Hello"]
    assert [part.text for part in outline({"prompt": ["a", "b"]}).parts] == ["a", "b"]
    assert [part.text for part in outline({"prompt": [1, 2]}).parts] == ["[1,2]"]


def test_one_text_reads_as_a_list_with_that_text() -> None:
    as_list = [{"type": "text", "text": "Hello", "cache_control": {"type": "ephemeral"}}]
    for role in ("user", "system"):
        whole = outline({"messages": [{"role": role, "content": "Hello"}]})
        parts = outline({"messages": [{"role": role, "content": as_list}]})
        assert [part.text for part in whole.parts] == [part.text for part in parts.parts]


def test_what_steers_the_reply_is_left_out() -> None:
    body = SHAPES["chat"](Prompt(["You help."], [Tool("exec")], [Turn("user", "Hello")]))
    more = {**body, "temperature": 1, "stream": False, "max_tokens": 7, "user": "u", "prompt_cache_key": "k"}
    assert outline(more).parts == outline(body).parts


def test_a_picture_is_named_and_not_read() -> None:
    url = "data:image/png;base64," + "A" * 100_000
    body = {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}]}
    text = outline(body).parts[0].text
    assert text.startswith("user\n<media image_url ")
    assert len(text) < 100


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"messages": None},
        {"messages": "x"},
        {"messages": 7},
        {
            "messages": [
                None,
                1,
                "x",
                [],
                {},
                {"role": 1},
                {"content": {"a": 1}},
                {"role": "user", "content": [None, 3, {}]},
            ]
        },
        {"messages": [{"role": "system"}, {"role": "system", "content": [1, {"type": "image"}]}]},
        {
            "messages": [
                {
                    "role": "assistant",
                    "tool_calls": [None, {}, {"function": 3}, {"function": {"arguments": 1}}],
                }
            ]
        },
        {
            "messages": [
                {
                    "role": "user",
                    "content": [{"type": "tool_result"}, {"type": "tool_result", "content": {"x": 1}}],
                }
            ]
        },
        {"tools": [None, 1, "x", {}, {"function": None}, {"function": {"name": 3}}]},
        {"tools": {"a": 1}},
        {"system": 3, "input": [3, {"type": 5}], "prompt": {"id": "p"}},
        {"system": [None, 3, {"text": 7}]},
        {
            "input": [
                {"type": "item_reference", "id": "x"},
                {"type": "function_call"},
                {"type": "function_call_output"},
            ]
        },
        {"model": 3, "prompt": [["a"], 1]},
        {"messages": [{"role": "user", "content": "\ud800 lone"}], "tools": [{"name": "\udfff", "n": 2**80}]},
    ],
)
def test_an_odd_body_never_raises(body: dict[str, Any]) -> None:
    prompt = outline(body)
    assert prompt.num_bytes == sum(len(part.text.encode("utf-8", "surrogatepass")) for part in prompt.parts)


def test_a_deeply_nested_tool_never_raises() -> None:
    deep: Any = 1
    for _ in range(5000):
        deep = [deep]
    assert len(outline({"tools": [{"name": "x", "schema": deep}]}).parts) == 1
