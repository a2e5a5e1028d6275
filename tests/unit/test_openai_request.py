import json

import orjson
import pytest

from openclaw_cache.dialects.openai import ask_usage, error_body, error_event, parse, prompt_text
from openclaw_cache.errors import RequestError

USER = {"role": "user", "content": "hi"}


def body(**fields: object) -> dict[str, object]:
    return {"model": "m", "messages": [USER], **fields}


def test_absent_fields_and_null_fields_read_alike() -> None:
    nulls = dict.fromkeys(["stream", "stream_options", "n", "temperature", "seed", "max_tokens", "tools"])
    assert parse(body(**nulls)) == parse(body())
    assert not parse(body()).stream
    assert not parse(body()).has_tools


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"model": None}, "model"), ({"model": ""}, "model"), ({"model": 3}, "model"),
        ({"messages": None}, "messages"), ({"messages": "hi"}, "messages"),
        ({"stream": "true"}, "stream"), ({"stream": 1}, "stream"),
    ],
)  # fmt: skip
def test_what_we_cannot_go_on_without_is_refused_by_name(change: dict[str, object], param: str) -> None:
    with pytest.raises(RequestError) as refused:
        parse(body(**change))
    assert (refused.value.status, refused.value.param) == (400, param)


@pytest.mark.parametrize("value", [[], "x", None, 1])
def test_body_that_is_no_object_is_refused(value: object) -> None:
    with pytest.raises(RequestError):
        parse(value)


def test_everything_else_is_left_for_the_upstream_to_judge() -> None:
    request = parse(body(messages=[None, 3, {"role": "user"}], temperature="hot", n=[], max_tokens=-1))
    assert (request.temperature, request.n, request.limit) == ("hot", [], -1)


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": [{"type": "function"}]},
        {"functions": [{"name": "f"}]},
        {"messages": [USER, {"role": "tool", "tool_call_id": "1", "content": "x"}]},
        {"messages": [USER, {"role": "function", "name": "f", "content": "x"}]},
        {"messages": [USER, {"role": "assistant", "tool_calls": [{"id": "1"}]}]},
        {"messages": [USER, {"role": "assistant", "function_call": {"name": "f"}}]},
    ],
)
def test_tools_are_seen_offered_or_in_the_history(fields: dict[str, object]) -> None:
    assert parse(body(**fields)).has_tools


def test_empty_tool_fields_are_no_tools() -> None:
    history = [USER, {"role": "assistant", "content": "x", "tool_calls": []}]
    assert not parse(body(tools=[], functions=[], messages=history)).has_tools


def test_limit_is_the_newer_field_where_both_are_set() -> None:
    assert parse(body(max_tokens=5)).limit == 5
    assert parse(body(max_tokens=5, max_completion_tokens=7)).limit == 7
    assert parse(body()).limit is None


def test_prompt_text_has_all_text_and_nothing_else() -> None:
    parts = [
        {"type": "text", "text": "b"},
        {"type": "image_url", "image_url": {"url": "no"}},
        {"type": "text"},
    ]
    messages = [
        {"role": "system", "content": "a"},
        {"role": "user", "content": parts},
        {"content": None},
        3,
        USER,
    ]
    assert prompt_text({"messages": messages}) == "a\nb\nhi"


def test_usage_is_asked_for_without_touching_another_byte() -> None:
    raw = b' {\n "model" : "m", "x": 1.0, "messages":[] }'
    asked = ask_usage(raw, json.loads(raw))
    assert asked == b' {"stream_options":{"include_usage":true},\n "model" : "m", "x": 1.0, "messages":[] }'


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (None, {"include_usage": True}),
        ({}, {"include_usage": True}),
        ({"include_usage": False, "x": 1}, {"include_usage": True, "x": 1}),
        ("bad", "bad"),
    ],
)
def test_usage_is_added_to_stream_options_that_are_there(options: object, expected: object) -> None:
    value = {"model": "m", "stream_options": options, "messages": []}
    asked = json.loads(ask_usage(orjson.dumps(value), value))
    assert asked == {**value, "stream_options": expected}
    assert list(asked) == list(value)


def test_error_has_openais_shape() -> None:
    error = RequestError(404, "no such model", code="model_not_found", param="model")
    assert json.loads(error_body(error)) == {
        "error": {
            "message": "no such model",
            "type": "invalid_request_error",
            "param": "model",
            "code": "model_not_found",
        }
    }
    assert error_event(error) == b"data: " + error_body(error) + b"\n\ndata: [DONE]\n\n"


@pytest.mark.parametrize(
    ("change", "state"),
    [
        ({"store": True}, "store"),
        ({"store": False}, ""),
        ({"web_search_options": {}}, "web_search_options"),
        ({"web_search_options": None}, ""),
        ({"messages": [{"role": "assistant", "audio": {"id": "audio_abc"}}, USER]}, "audio"),
        ({"messages": [{"role": "user", "content": [{"type": "file", "file": {"file_id": "file-1"}}]}]}, "file_id"),
        ({"messages": [{"role": "user", "content": [{"type": "file", "file": {"file_data": "data:,x"}}]}]}, ""),
        ({"messages": [USER, {"role": "assistant", "audio": None, "content": [{"type": "text", "text": "x"}]}]}, ""),
    ],
)  # fmt: skip
def test_what_the_upstream_keeps_or_searches_for_a_request_is_its_state(
    change: dict[str, object], state: str
) -> None:
    # developers.openai.com, API reference, chat completions: `store`, `web_search_options`, files and audio by id.
    assert parse(body(**change)).state == state
