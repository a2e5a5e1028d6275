from typing import Any

import pytest

from openclaw_cache.dialects.openai import REFUSALS, parse, refusal_to_store

CALL = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def refusal(
    message: dict[str, Any] | None = None, *, asked: dict[str, Any] | None = None, **fields: Any
) -> str | None:
    choice = {
        "index": 0,
        "message": message or {"role": "assistant", "content": "a"},
        "finish_reason": "stop",
    }
    top = {name: fields.pop(name) for name in ("usage", "error", "choices") if name in fields}
    reply = {"object": "chat.completion", "choices": [{**choice, **fields}], **top}
    return refusal_to_store(reply, parse({"model": "m", "messages": [], **(asked or {})}))


def test_complete_answers_are_stored() -> None:
    assert refusal() is None
    assert refusal({"content": None, "tool_calls": [CALL]}, finish_reason="tool_calls") is None
    assert refusal({"content": None, "tool_calls": [CALL]}, finish_reason="stop") is None
    assert refusal({"content": " "}) is None
    assert refusal(error=None) is None


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"error": {"message": "x"}}, "error"),
        ({"message": {"content": "a", "refusal": "I cannot"}}, "refusal"),
        ({"finish_reason": "content_filter"}, "filtered"),
        ({"finish_reason": None}, "unfinished"),
        ({"finish_reason": ""}, "unfinished"),
        ({"finish_reason": "function_call"}, "finish"),
        ({"finish_reason": "error"}, "finish"),
        ({"finish_reason": "length"}, "truncated"),
        ({"message": {"content": ""}}, "empty"),
        ({"message": {"content": None, "tool_calls": []}, "finish_reason": "tool_calls"}, "empty"),
        ({"message": {"content": None, "reasoning_content": "only thought"}}, "empty"),
        ({"choices": []}, "shape"),
        ({"message": "a"}, "shape"),
    ],
)
def test_everything_else_is_refused_by_name(fields: dict[str, Any], reason: str) -> None:
    assert refusal(**fields) == reason
    assert reason in REFUSALS


@pytest.mark.parametrize("reply", [None, [], "x", {}, {"object": "chat.completion"}])
def test_what_is_no_reply_is_refused(reply: Any) -> None:
    assert refusal_to_store(reply, parse({"model": "m", "messages": []})) == "shape"


def test_reply_nested_deeper_than_it_could_be_replayed_is_refused() -> None:
    deep: Any = "x"
    for _ in range(300):
        deep = [deep]
    assert refusal({"content": "a", "deep": deep}) == "shape"
    assert (
        refusal(error={}, message={"content": "a"}, choices=[{"error": "x", "index": 0, "message": {}}])
        == "error"
    )


def test_one_unfinished_choice_spoils_the_reply() -> None:
    done = {"index": 0, "message": {"content": "a"}, "finish_reason": "stop"}
    assert refusal(choices=[done, {**done, "index": 1, "finish_reason": None}]) == "unfinished"


@pytest.mark.parametrize(
    ("asked", "usage", "reason"),
    [
        ({"max_tokens": 5}, {"completion_tokens": 5}, None),
        ({"max_completion_tokens": 5}, {"completion_tokens": 5}, None),
        ({"max_tokens": 9, "max_completion_tokens": 5}, {"completion_tokens": 5}, None),
        ({"max_tokens": 5}, {"completion_tokens": 4}, "truncated"),
        ({"max_tokens": 5, "max_completion_tokens": 9}, {"completion_tokens": 5}, "truncated"),
        ({}, {"completion_tokens": 5}, "truncated"),
        ({"max_tokens": 5}, None, "truncated"),
        ({"max_tokens": 5}, {}, "truncated"),
        ({"max_tokens": True}, {"completion_tokens": True}, "truncated"),
    ],
)
def test_length_counts_as_complete_only_at_the_requests_own_limit(
    asked: dict[str, Any], usage: Any, reason: str | None
) -> None:
    assert refusal(asked=asked, usage=usage, finish_reason="length") == reason
