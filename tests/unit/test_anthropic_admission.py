from typing import Any

import pytest

from openclaw_cache.dialects.anthropic import REFUSALS, CountTokensDialect, MessagesDialect
from openclaw_cache.dialects.request import Request
from openclaw_cache.errors import MergeError
from support.anthropic_replies import RECORDED

TOOL = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}
THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": "a"}


def refusal(
    *, limit: Any = None, content: Any = ({"type": "text", "text": "a"},), **fields: Any
) -> str | None:
    reply = {
        "type": "message",
        "role": "assistant",
        "content": list(content) if isinstance(content, tuple) else content,
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 1, "output_tokens": 9},
        **fields,
    }
    reason = MessagesDialect().refusal_to_store(reply, Request("m", limit=limit))
    assert reason is None or reason in REFUSALS
    return reason


@pytest.mark.parametrize("name", RECORDED)
def test_whole_messages_are_stored(name: str) -> None:
    assert MessagesDialect().refusal_to_store(RECORDED[name][1], Request("m")) is None


@pytest.mark.parametrize("stop_reason", ["end_turn", "stop_sequence", "tool_use"])
def test_complete_answers_are_stored(stop_reason: str) -> None:
    assert refusal(stop_reason=stop_reason) is None
    assert refusal(stop_reason=stop_reason, content=(THOUGHT, TOOL)) is None
    assert refusal(stop_reason=stop_reason, error=None) is None


@pytest.mark.parametrize(
    ("stop_reason", "reason"),
    [
        (None, "unfinished"),
        ("", "unfinished"),
        ("pause_turn", "unfinished"),
        ("refusal", "refusal"),
        ("model_context_window_exceeded", "truncated"),
        ("max_tokens", "truncated"),
        ("compaction", "finish"),
        ("reason_of_next_year", "finish"),
    ],
)
def test_a_message_that_is_no_whole_answer_is_not_stored(stop_reason: str | None, reason: str) -> None:
    assert refusal(stop_reason=stop_reason) == reason


@pytest.mark.parametrize(
    ("limit", "num_tokens", "stored"),
    [(9, 9, True), (10, 9, False), (8, 9, False), (None, 9, False), (9.0, 9, False), (True, 1, False)],
)
def test_a_truncated_answer_is_stored_only_at_the_requests_own_limit(
    limit: Any, num_tokens: int, stored: bool
) -> None:
    reason = refusal(limit=limit, stop_reason="max_tokens", usage={"output_tokens": num_tokens})
    assert reason == (None if stored else "truncated")


@pytest.mark.parametrize(
    "content",
    [(), ({"type": "text", "text": ""},), (THOUGHT,), ({"type": "redacted_thinking", "data": "a"},)],
)
def test_a_message_without_an_answer_is_not_stored(content: tuple[dict[str, Any], ...]) -> None:
    assert refusal(content=content) == "empty"
    assert refusal(content=content, stop_reason="refusal") == "refusal"


def test_an_answer_of_another_model_in_place_of_the_asked_one_is_not_stored() -> None:
    fallback = {"type": "fallback", "from": {"model": "m"}, "to": {"model": "n"}}
    assert refusal(content=(fallback, {"type": "text", "text": "a"})) == "refusal"


@pytest.mark.parametrize(
    "reply",
    [
        {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
        {"type": "error"},
        {"error": {"message": "x"}},
        {"error": "x", "input_tokens": 5},
    ],
)
def test_an_error_is_not_stored(reply: Any) -> None:
    assert MessagesDialect().refusal_to_store(reply, Request("m")) == "error"
    assert CountTokensDialect().refusal_to_store(reply, Request("m")) == "error"


@pytest.mark.parametrize("reply", [None, [], "a", {}, {"choices": []}, {"type": "message", "content": []}])
def test_what_is_no_message_is_not_stored(reply: Any) -> None:
    assert MessagesDialect().refusal_to_store(reply, Request("m")) == "shape"
    assert CountTokensDialect().refusal_to_store(reply, Request("m")) == "shape"


def test_a_message_that_could_not_be_written_again_is_not_stored() -> None:
    deep: Any = 1
    for _ in range(300):
        deep = [deep]
    assert refusal(content=({**TOOL, "input": {"a": deep}},)) == "shape"


@pytest.mark.parametrize(
    ("reply", "stored"),
    [
        ({"input_tokens": 2095}, True),
        ({"input_tokens": 0, "context_management": {"original_input_tokens": 9}}, True),
        ({"input_tokens": -1}, False),
        ({"input_tokens": 2.0}, False),
        ({"input_tokens": True}, False),
        ({"input_tokens": None}, False),
    ],
)
def test_a_count_of_tokens_is_stored_where_it_is_one(reply: dict[str, Any], stored: bool) -> None:
    assert CountTokensDialect().refusal_to_store(reply, Request("m")) == (None if stored else "shape")


def test_tokens_are_not_counted_in_a_stream() -> None:
    with pytest.raises(MergeError):
        CountTokensDialect().merge([b'{"type":"message_stop"}'])
