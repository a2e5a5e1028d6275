"""Chunk shapes of real senders, and what the same sender's non-streaming API would have answered."""

import json

import orjson
import pytest

from openclaw_cache.dialects.openai import ReplyMerge, merge
from openclaw_cache.errors import MergeError

HEAD = {"id": "c1", "object": "chat.completion.chunk", "created": 7, "model": "m"}


def chunk(
    delta: object = None, *, finish: object = None, index: int = 0, choice: object = None, **top: object
) -> bytes:
    fields = {"index": index, "delta": delta, "finish_reason": finish, **(choice or {})}
    return orjson.dumps({**HEAD, "choices": [fields], **top})


def message(*events: bytes) -> dict[str, object]:
    return merge(events)["choices"][0]["message"]


def test_openai_stream_with_usage() -> None:
    fp = {"service_tier": "default", "system_fingerprint": "fp_1", "usage": None}
    null = {"logprobs": None}
    events = [
        chunk({"role": "assistant", "content": "", "refusal": None}, choice=null, obfuscation="x", **fp),
        chunk({"content": "Hel"}, choice=null, obfuscation="yz", **fp),
        chunk({"content": "lo"}, choice=null, obfuscation="", **fp),
        chunk({}, finish="stop", choice=null, obfuscation="abc", **fp),
        orjson.dumps({**HEAD, "choices": [], **fp, "usage": {"prompt_tokens": 3, "completion_tokens": 0}}),
        b"[DONE]",
    ]
    assert merge(events) == {
        "id": "c1",
        "object": "chat.completion",
        "created": 7,
        "model": "m",
        "service_tier": "default",
        "system_fingerprint": "fp_1",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Hello", "refusal": None},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 3, "completion_tokens": 0},
    }


def test_tool_calls_grow_by_index_and_lose_it() -> None:
    events = [
        chunk({"role": "assistant", "content": None, "tool_calls": [
            {"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"x":'}}]}),
        # repeated and empty names, as vLLM and others send them
        chunk({"tool_calls": [{"index": 0, "id": "", "function": {"name": "f", "arguments": "1}"}}]}),
        chunk({"tool_calls": [{"index": 1, "id": "b", "function": {"name": "g", "arguments": "{}"}}]}),
        chunk({}, finish="tool_calls"),
    ]  # fmt: skip
    assert message(*events) == {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}},
            {"id": "b", "function": {"name": "g", "arguments": "{}"}},
        ],
    }


def test_azure_opens_with_an_empty_chunk_and_filter_results() -> None:
    filtered = {"hate": {"filtered": False, "severity": "safe"}}
    events = [
        orjson.dumps({"id": "", "object": "", "created": 0, "model": "", "choices": [],
                      "prompt_filter_results": [{"prompt_index": 0}]}),
        chunk({"role": "assistant", "content": ""}, choice={"content_filter_results": {}}),
        chunk({"content": "a"}, choice={"content_filter_results": filtered}),
        chunk({"content": "b"}, choice={"content_filter_results": filtered}),
        chunk({}, finish="stop", choice={"content_filter_results": {}}),
    ]  # fmt: skip
    reply = merge(events)
    assert (reply["id"], reply["model"], reply["created"]) == ("c1", "m", 7)
    assert reply["prompt_filter_results"] == [{"prompt_index": 0}]
    assert reply["choices"][0]["content_filter_results"] == filtered


def test_vllm_reasoning_token_ids_and_stop_reason() -> None:
    events = [
        chunk({"role": "assistant", "content": ""}, prompt_token_ids=[1, 2]),
        chunk({"reasoning": "thi"}, choice={"token_ids": [5]}),
        chunk({"reasoning": "nk"}, choice={"token_ids": [5]}),
        chunk({"content": "a"}, choice={"token_ids": [6, 7]}, finish="stop"),
        chunk({}, choice={"stop_reason": None}),
    ]
    reply = merge(events)
    assert reply["prompt_token_ids"] == [1, 2]
    assert reply["choices"][0]["token_ids"] == [5, 5, 6, 7]
    assert reply["choices"][0]["stop_reason"] is None
    assert message(*events) == {"role": "assistant", "content": "a", "reasoning": "think"}


def test_role_in_each_delta_finish_beside_content_and_usage_beside_choices() -> None:
    events = [
        chunk({"role": "assistant", "content": "a"}, finish="", usage={"completion_tokens": 1}),
        chunk({"role": "assistant", "content": "b"}, finish="stop", usage={"completion_tokens": 2}),
    ]
    reply = merge(events)
    assert reply["usage"] == {"completion_tokens": 2}
    assert reply["choices"][0] == {
        "index": 0,
        "message": {"role": "assistant", "content": "ab"},
        "finish_reason": "stop",
    }


def test_keep_alive_chunks_and_missing_deltas_change_nothing() -> None:
    events = [orjson.dumps(HEAD), chunk({"content": "a"}), chunk(None), orjson.dumps({**HEAD, "choices": None}),
              orjson.dumps({**HEAD, "choices": [{"index": 0, "finish_reason": "stop"}]})]  # fmt: skip
    assert message(*events) == {"role": "assistant", "content": "a"}


def test_logprobs_of_the_chunks_are_one_list() -> None:
    def part(token: str) -> dict[str, object]:
        return {"logprobs": {"content": [{"token": token, "logprob": -0.5}], "refusal": None}}

    null = {"logprobs": None}
    token = chunk({"content": "a"}, choice=part("a"))
    events = [chunk({"content": ""}, choice=null), token, token, chunk({}, finish="stop", choice=null)]
    assert merge(events)["choices"][0]["logprobs"] == {
        "content": [{"token": "a", "logprob": -0.5}] * 2,
        "refusal": None,
    }


def test_choices_are_told_apart_and_ordered_by_index() -> None:
    events = [chunk({"content": "b"}, index=1), chunk({"content": "a"}), chunk({"content": "B"}, index=1)]
    assert [(one["index"], one["message"]["content"]) for one in merge(events)["choices"]] == [
        (0, "a"),
        (1, "bB"),
    ]


def test_audio_and_unknown_deltas_add_up() -> None:
    events = [
        chunk({"audio": {"id": "au", "transcript": "he"}, "new": "x"}),
        chunk({"audio": {"data": "AA", "transcript": "y"}, "new": "y", "notes": [1]}),
        chunk({"audio": {"data": "BB", "expires_at": 9}, "notes": [1]}),
    ]
    assert message(*events) == {
        "role": "assistant",
        "content": None,
        "audio": {"id": "au", "transcript": "hey", "data": "AABB", "expires_at": 9},
        "new": "xy",
        "notes": [1, 1],
    }


def test_content_is_null_without_content_and_empty_with_empty_content() -> None:
    assert message(chunk({"role": "assistant"}))["content"] is None
    assert message(chunk({"content": None}))["content"] is None
    assert message(chunk({"content": ""}))["content"] == ""


def test_groq_adds_to_its_own_field_in_the_last_chunk() -> None:
    events = [
        chunk({"content": "a"}, x_groq={"id": "r"}),
        chunk({}, finish="stop", x_groq={"id": "r", "usage": {"n": 1}}),
    ]
    assert merge(events)["x_groq"] == {"id": "r", "usage": {"n": 1}}


@pytest.mark.parametrize(
    "events",
    [
        [],
        [b"[DONE]"],
        [b"{"],
        [b"[]"],
        [b"\xff"],
        [chunk({"content": "a"}), b'{"error":{"message":"overloaded"}}'],
        [chunk({"content": "a"}, note=1), chunk({}, note=2)],
        [chunk({"content": "a"}, choice={"score": 1}), chunk({}, choice={"score": 2})],
        [chunk({"content": "a"}), chunk({"content": [{"type": "text"}]})],
        [chunk({"content": "a"}), chunk({"content": {"x": 1}})],
        [chunk({"n": 1}), chunk({"n": 2})],
        [chunk({"content": "a"}, finish="stop"), chunk({}, finish="length")],
        [chunk({"tool_calls": [{"index": 0, "id": "a"}]}), chunk({"tool_calls": [{"index": 0, "id": "b"}]})],
        [chunk({"tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{}"}}]})],
        [chunk({"content": "a"}), chunk({}, choice={"message": {"content": "a"}})],
        [orjson.dumps({"choices": [{"delta": {"content": "a"}}, {"delta": {"content": "b"}}]})],
        [orjson.dumps({"choices": {"index": 0}})],
        [orjson.dumps({"choices": ["a"]})],
        [chunk("text")],
        [chunk({"content": "a"}, index="0")],
        [chunk({"content": "a"}), chunk({"content": ["b"]})],
        [chunk({"x": ["a"]}), chunk({"x": {"y": 1}})],
        [chunk({"x": ["a"]}), chunk({"x": "b"})],
        [chunk({"x": [{"index": 0}, {"index": 0}]}), chunk({"x": [{"index": 0}]})],
        [b'{"choices":[{"index":0,"delta":{"x":' + b"[" * 300 + b"]" * 300 + b"}}]}"],
        [b'{"x":' + b"[" * 300 + b"]" * 300 + b"}"],
    ],
)  # fmt: skip
def test_stream_that_does_not_add_up_with_certainty_is_refused(events: list[bytes]) -> None:
    with pytest.raises(MergeError):
        merge(events)


def test_merging_as_chunks_arrive_gives_the_same_at_any_time() -> None:
    events = [chunk({"content": "a"}), chunk({"content": "b"}), chunk({}, finish="stop")]
    merged = ReplyMerge()
    for number, event in enumerate(events, 1):
        merged.add(event)
        assert merged.reply() == merge(events[:number])


def test_long_text_costs_no_more_than_its_length() -> None:
    # 100,000 pieces of one string: joining it anew each time would copy 50 GB and run into the time limit
    piece = chunk({"tool_calls": [{"index": 0, "function": {"arguments": "0123456789"}}]})
    merged = ReplyMerge()
    for _ in range(100_000):
        merged.add(piece)
    assert len(json.dumps(merged.reply())) > 1_000_000
