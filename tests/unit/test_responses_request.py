import json
from pathlib import Path
from typing import Any

import pytest

from openclaw_cache.dialects.responses import ResponsesDialect, messages, parse, prompt_text
from openclaw_cache.errors import RequestError

STATELESS = {"model": "m", "input": "hello", "store": False}


def test_a_request_is_read_with_the_clients_own_values() -> None:
    request = parse({**STATELESS, "stream": True, "temperature": 0, "max_output_tokens": 8192, "seed": 3})
    assert request.model == "m"
    assert request.stream
    assert (request.temperature, request.limit, request.seed, request.n) == (0, 8192, 3, None)
    assert not request.has_tools
    assert request.state == ""


def test_every_stream_tells_its_usage() -> None:
    request = parse({**STATELESS, "stream": True})
    assert request.wants_usage
    assert ResponsesDialect().ask_usage(b"{}", {}) == b"{}"
    assert not ResponsesDialect().is_usage_event(b'{"choices":[],"usage":{"prompt_tokens":1}}')


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ([], None),
        ({"input": "a"}, "model"),
        ({"model": "", "input": "a"}, "model"),
        ({"input": "a", "prompt": {"id": "pmpt_1"}}, "model"),
        ({"model": "m", "input": {"role": "user"}}, "input"),
        ({"model": "m", "input": 3}, "input"),
        ({"model": "m", "input": "a", "stream": "yes"}, "stream"),
        ({"model": "m", "input": "a", "stream": 1}, "stream"),
    ],
)
def test_what_cannot_be_read_is_refused_by_its_parameter(body: Any, param: str | None) -> None:
    with pytest.raises(RequestError) as refused:
        parse(body)
    assert (refused.value.status, refused.value.param) == (400, param)


@pytest.mark.parametrize("body", [{}, {"input": None}])
def test_a_missing_input_is_left_for_the_upstream_to_judge(body: dict[str, Any]) -> None:
    request = parse({"model": "m", "previous_response_id": "resp_1", **body})
    assert request.num_messages == 0


@pytest.mark.parametrize(
    ("fields", "has_tools"),
    [
        ({"tools": [{"type": "function", "name": "f"}]}, True),
        ({"tools": []}, False),
        ({"tools": None}, False),
        ({"input": [{"type": "function_call", "call_id": "a"}]}, True),
        ({"input": [{"type": "function_call_output", "call_id": "a", "output": "x"}]}, True),
        ({"input": [{"type": "custom_tool_call", "call_id": "a"}]}, True),
        ({"input": [{"type": "shell_call_output", "call_id": "a"}]}, True),
        ({"input": [{"type": "additional_tools", "tools": []}]}, True),
        ({"input": [{"role": "user", "content": "a"}, {"type": "message", "role": "assistant"}]}, False),
        ({"input": [{"type": "reasoning", "encrypted_content": "x"}, {"type": "compaction"}]}, False),
    ],
)
def test_tools_are_seen_where_they_are_offered_and_where_they_were_used(
    fields: dict[str, Any], has_tools: bool
) -> None:
    assert parse({**STATELESS, **fields}).has_tools is has_tools


def test_instructions_come_first_and_items_keep_their_role() -> None:
    user = {"role": "user", "content": [{"type": "input_text", "text": "hi"}]}
    developer = {"type": "message", "role": "developer", "content": "be brief"}
    call = {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"}
    body = {"instructions": "You are X", "input": [developer, user, call, "stray"]}
    assert messages(body) == [{"role": "system", "content": "You are X"}, developer, user]
    assert parse({**STATELESS, **body}).num_messages == 4


def test_a_string_of_input_is_one_user_message() -> None:
    assert messages({"input": "hi"}) == [{"role": "user", "content": "hi"}]
    assert messages({"instructions": ["x"], "input": None}) == []
    assert parse({"model": "m", "input": "hi"}).num_messages == 1


def test_prompt_text_has_every_text_that_the_model_reads() -> None:
    body = {
        "instructions": "one",
        "input": [
            {"role": "user", "content": "two"},
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "three"},
                    {"type": "input_image", "image_url": "data:image/png;base64,AA"},
                ],
            },
            {"role": "assistant", "content": [{"type": "output_text", "text": "four"}, {"refusal": "five"}]},
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "six"}]},
            {"type": "function_call", "arguments": '{"seven":7}'},
            {"type": "function_call_output", "output": "eight"},
            {"type": "function_call_output", "output": [{"type": "input_text", "text": "nine"}]},
            {"type": "custom_tool_call", "input": "ten"},
            {"type": "shell_call_output", "output": [{"stdout": "eleven", "stderr": "twelve"}]},
            3,
        ],
    }
    assert prompt_text(body).split("\n") == [
        *("one", "two", "three", "four", "five", "six", '{"seven":7}'),
        *("eight", "nine", "ten", "eleven", "twelve"),
    ]
    assert prompt_text({"input": "only"}) == "only"


def test_captured_requests_of_openclaw_are_stateless_and_keep_their_conversation(data_root: Path) -> None:
    captured = json.loads((data_root / "openclaw" / "resp.json").read_text())["requests"]
    bodies = [one["body"] for one in captured if one["path"] == "/v1/responses"]
    assert [len(messages(body)) for body in bodies] == [3, 5, 7]
    for body in bodies:
        request = parse(body)
        assert request.model == "resp-model"
        assert (request.stream, request.limit, request.has_tools) == (True, 8192, True)
        assert request.state == ""  # store: false, and functions only
        assert request.num_messages == len(body["input"])
        first = messages(body)[0]
        assert first["role"] == "system"
        assert prompt_text(body).startswith(first["content"][0]["text"])
