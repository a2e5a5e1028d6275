import json
from typing import Any

import pytest
from openai._streaming import SSEDecoder
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletionChunk

from openclaw_cache.dialects.openai import shape_fault, split
from openclaw_cache.dialects.sse import SseParser

USAGE = {
    "prompt_tokens": 3,
    "completion_tokens": 0,
    "total_tokens": 3,
    "prompt_tokens_details": {"cached_tokens": 0},
}


def reply(message: dict[str, Any], **choice: Any) -> dict[str, Any]:
    fields = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop", **choice}
    return {
        "id": "c1",
        "object": "chat.completion",
        "created": 7,
        "model": "m",
        "choices": [fields],
        "usage": USAGE,
    }


def chunks(stream: bytes) -> list[dict[str, Any]]:
    *events, done = SseParser().feed(stream)
    assert done.data == b"[DONE]"
    return [json.loads(event.data) for event in events]


def deltas(stream: bytes) -> list[dict[str, Any]]:
    return [chunk["choices"][0]["delta"] for chunk in chunks(stream) if chunk["choices"]]


def test_stream_opens_with_the_role_and_ends_with_finish_usage_and_done() -> None:
    stream = split(reply({"content": "Hello"}), include_usage=True, max_piece_chars=3)
    head = {"id": "c1", "object": "chat.completion.chunk", "created": 7, "model": "m"}
    bodies: list[tuple[dict[str, Any], str | None]] = [
        ({"role": "assistant", "content": ""}, None), ({"content": "Hel"}, None), ({"content": "lo"}, None),
        ({}, "stop"),
    ]  # fmt: skip
    assert chunks(stream) == [
        *(
            {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], "usage": None}
            for delta, finish in bodies
        ),
        {**head, "choices": [], "usage": USAGE},
    ]


def test_usage_stays_out_of_a_stream_that_did_not_ask_for_it() -> None:
    assert b"usage" not in split(reply({"content": "a"}), include_usage=False)


def test_usage_that_is_not_there_is_not_invented() -> None:
    without = reply({"content": "a"})
    del without["usage"]
    assert b"usage" not in split(without, include_usage=True)


def test_reasoning_comes_before_content_and_tool_calls_after_it() -> None:
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}}
    message = {"content": "c", "tool_calls": [call], "reasoning_content": "r", "refusal": None}
    stream = split(reply(message, finish_reason="tool_calls"), include_usage=False, max_piece_chars=4)
    assert deltas(stream) == [
        {"role": "assistant", "content": "", "refusal": None},
        {"reasoning_content": "r"},
        {"content": "c"},
        {
            "tool_calls": [
                {"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}
            ]
        },
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"x"'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": ":1}"}}]},
        {},
    ]


def test_content_of_a_reply_of_tool_calls_stays_null() -> None:
    calls = [{"id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}]
    assert deltas(split(reply({"content": None, "tool_calls": calls}), include_usage=False))[0] == {
        "role": "assistant",
        "content": None,
    }


def test_each_token_keeps_its_logprobs_where_the_tokens_spell_the_content() -> None:
    tokens = [{"token": "He", "logprob": -1}, {"token": "llo", "logprob": -2}]
    stream = split(
        reply({"content": "Hello"}, logprobs={"content": tokens, "refusal": None}), include_usage=False
    )
    told = [
        (one["choices"][0]["delta"].get("content"), one["choices"][0]["logprobs"]) for one in chunks(stream)
    ]
    assert told == [
        ("", None),
        ("He", {"content": [tokens[0]], "refusal": None}),
        ("llo", {"content": [tokens[1]], "refusal": None}),
        (None, None),
    ]


def test_unknown_fields_travel_once() -> None:
    stored = {**reply({"content": "a", "x": {"y": [1]}}, stop_reason=5), "provider": "p"}
    first, *_, last = chunks(split(stored, include_usage=False))
    assert first["provider"] == "p"
    assert first["choices"][0]["delta"]["x"] == {"y": [1]}
    assert last["choices"][0]["stop_reason"] == 5
    assert split(stored, include_usage=False).count(b'"provider"') == 1


@pytest.mark.parametrize(
    "stored",
    [
        None, [], {}, {"choices": []}, {"choices": [1]}, {"choices": [{"index": 0}]},
        {"choices": [{"index": "0", "message": {}}]},
        {"choices": [{"index": 1, "message": {}}, {"index": 0, "message": {}}]},
        {"choices": [{"index": 0, "message": {}}, {"index": 0, "message": {}}]},
        reply({"content": "a"}, delta={}),
        reply({"content": "a"}, finish_reason=3),
        reply({"tool_calls": {"id": "a"}}),
        reply({"tool_calls": ["a"]}),
        reply({"tool_calls": [{"id": "a", "index": 4}]}),
    ],
)  # fmt: skip
def test_reply_that_would_lose_something_is_refused(stored: Any) -> None:
    assert shape_fault(stored) is not None
    if isinstance(stored, dict):
        with pytest.raises(ValueError, match="cannot be replayed"):
            split(stored, include_usage=True)


@pytest.mark.parametrize(
    "message",
    [
        {"content": "Hello, 世界 🧑‍🚀" * 30, "refusal": None},
        {"content": None, "refusal": "no", "annotations": []},
        {"content": "", "refusal": None},
        {"content": None, "refusal": None, "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":"' + "é" * 300 + '"}'}},
            {"id": "b", "type": "function", "function": {"name": "g", "arguments": "{}"}}]},
    ],
)  # fmt: skip
def test_openais_own_sdk_reads_the_stream_back_as_the_reply(message: dict[str, Any]) -> None:
    stored = reply(message, logprobs=None)
    state: ChatCompletionStreamState[None] = ChatCompletionStreamState()
    for event in SSEDecoder().iter_bytes(iter([split(stored, include_usage=True)])):
        if event.data != "[DONE]":
            list(state.handle_chunk(ChatCompletionChunk.model_validate(event.json())))
    built = state.get_final_completion().to_dict(mode="json")
    told = built["choices"][0]["message"]  # type: ignore[index]
    for call in told.get("tool_calls") or ():  # fields of the SDK, not of the wire
        call.pop("index", None)
        call["function"].pop("parsed_arguments", None)
    assert {name: told.get(name) for name in message} == message
    assert built["choices"][0]["finish_reason"] == "stop"  # type: ignore[index]
    assert built["usage"] == USAGE
