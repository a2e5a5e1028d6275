import dataclasses
import json
from typing import Any

import pytest

from openclaw_cache.engine.chat import Message
from openclaw_cache.engine.request import ChatRequest, parse
from openclaw_cache.errors import RequestError

USER = {"role": "user", "content": "hello"}


def parsed(**fields: Any) -> ChatRequest:
    return parse(json.dumps({"model": "m", "messages": [USER], **fields}).encode())


def refused(**fields: Any) -> RequestError:
    with pytest.raises(RequestError) as caught:
        parsed(**fields)
    assert caught.value.status == 400
    return caught.value


def deep(num: int) -> list[Any]:
    return [] if num == 1 else [deep(num - 1)]


def test_what_is_not_given_has_the_documented_defaults() -> None:
    request = parsed()
    assert (request.temperature, request.top_p, request.n, request.seed) == (0.0, 1.0, 1, None)
    assert (request.stop, request.top_logprobs, request.stream, request.include_usage) == (
        (),
        None,
        False,
        False,
    )


def test_null_means_not_given() -> None:
    nullable = [
        "temperature",
        "top_p",
        "n",
        "seed",
        "stop",
        "stream",
        "stream_options",
        "max_tokens",
        "tools",
    ]
    assert parsed(**dict.fromkeys(nullable)) == parsed()


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"temperature": 2.1}, "temperature"),
        ({"temperature": "hot"}, "temperature"),
        ({"temperature": True}, "temperature"),
        ({"top_p": -0.1}, "top_p"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"max_completion_tokens": -1}, "max_completion_tokens"),
        ({"n": 0}, "n"),
        ({"n": 129}, "n"),
        ({"seed": 2**63}, "seed"),
        ({"stop": ""}, "stop"),
        ({"stop": ["a", "b", "c", "d", "e"]}, "stop"),
        ({"stop": [1]}, "stop"),
        ({"stream": 1}, "stream"),
        ({"stream_options": {"include_usage": "yes"}}, "stream_options.include_usage"),
        ({"top_logprobs": 3}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"model": ""}, "model"),
        ({"model": None}, "model"),
        ({"messages": []}, "messages"),
        ({"messages": "hello"}, "messages"),
        ({"tools": {"type": "function"}}, "tools"),
        ({"tools": ["f"]}, "tools"),
        ({"messages": [USER, {"role": "user\n", "content": ""}]}, "messages[1].role"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        ({"messages": [USER, {"role": "assistant", "tool_calls": [deep(500)]}]}, "messages[1].tool_calls"),
    ],
)
def test_a_wrong_value_is_refused_by_name(fields: dict[str, Any], param: str) -> None:
    error = refused(**fields)
    assert (error.param, error.code) == (param, "invalid_value")
    assert f"'{param}'" in error.message


@pytest.mark.parametrize(
    "fields",
    [
        {"frequency_penalty": 0.5},
        {"presence_penalty": -1},
        {"logit_bias": {"50": 1}},
        {"response_format": {"type": "json_object"}},
        {"response_format": {"type": "json_schema", "json_schema": {}}},
        {"tool_choice": "required"},
        {"tool_choice": {"type": "function", "function": {"name": "f"}}},
        {"modalities": ["text", "audio"]},
        {"audio": {"voice": "x"}},
    ],
)
def test_what_the_engine_cannot_do_is_refused_by_name(fields: dict[str, Any]) -> None:
    error = refused(**fields)
    assert (error.param, error.code) == (next(iter(fields)), "unsupported_parameter")


@pytest.mark.parametrize(
    "fields",
    [
        {"frequency_penalty": 0, "presence_penalty": 0.0, "logit_bias": {}, "modalities": ["text"]},
        {"response_format": {"type": "text"}},
        {"tools": [], "tool_choice": "auto"},
        {"tool_choice": "none", "parallel_tool_calls": True},
        {"user": "u", "metadata": {}, "prompt_cache_key": "k", "store": False, "a_new_field": [1]},
    ],
)
def test_what_changes_nothing_is_accepted(fields: dict[str, Any]) -> None:
    assert parsed(**fields) == parsed()


def test_tools_go_to_the_chat_template_as_they_came_and_change_nothing_else() -> None:
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"z": 1, "a": 2}}}]
    request = parsed(tools=tools, tool_choice="auto")
    assert json.dumps(request.tools) == json.dumps(tools)  # the order of keys is part of the prompt
    assert dataclasses.replace(request, tools=None) == parsed()


def test_an_image_is_refused_with_its_place() -> None:
    content = [
        {"type": "text", "text": "what is this?"},
        {"type": "image_url", "image_url": {"url": "data:,"}},
    ]
    error = refused(messages=[{"role": "user", "content": content}])
    assert (error.param, error.code) == ("messages[0].content[1]", "unsupported_content")


def test_text_parts_are_one_text_and_developer_means_system() -> None:
    messages = [
        {"role": "developer", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        USER,
    ]
    assert parsed(messages=messages).messages == (Message("system", "ab"), Message("user", "hello"))


def test_earlier_tool_calls_and_their_results_reach_the_model_as_text() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a":1}'}}
    messages = [
        USER,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "2"},
    ]
    _, called, result = parsed(messages=messages).messages
    assert called.role == "assistant"
    assert '"name":"add"' in called.content
    assert r'"arguments":"{\"a\":1}"' in called.content
    assert result == Message("tool", "2")


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"x"', b'{"model": "\\ud800"}', b"\xff"])
def test_a_body_that_is_no_json_object_is_refused(body: bytes) -> None:
    with pytest.raises(RequestError) as caught:
        parse(body)
    assert caught.value.status == 400


def test_max_completion_tokens_goes_before_its_deprecated_name() -> None:
    assert parsed(max_tokens=5, max_completion_tokens=7).max_tokens == 7
    assert parsed(max_tokens=5).max_tokens == 5


def test_without_a_limit_the_reply_may_fill_the_window() -> None:
    assert parsed().sampling(100, window=128).max_tokens == 28
    assert parsed(max_tokens=28).sampling(100, window=128).max_tokens == 28


@pytest.mark.parametrize(("fields", "num_prompt"), [({}, 128), ({}, 500), ({"max_tokens": 29}, 100)])
def test_what_does_not_fit_the_window_is_context_length_exceeded_with_numbers(
    fields: dict[str, Any], num_prompt: int
) -> None:
    with pytest.raises(RequestError) as caught:
        parsed(**fields).sampling(num_prompt, window=128)
    error = caught.value
    assert (error.status, error.code, error.param) == (400, "context_length_exceeded", "messages")
    assert "128 tokens" in error.message
    assert f"{num_prompt} tokens" in error.message
