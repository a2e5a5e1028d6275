"""Chunk shapes of real senders, and what the same sender's non-streaming API would have answered."""

from typing import Any

import orjson
import pytest

from openclaw_cache.dialects.completions import merge
from openclaw_cache.errors import MergeError

HEAD = {"id": "cmpl-1", "object": "text_completion", "created": 7, "model": "gpt-3.5-turbo-instruct"}


def chunk(text: Any = "", *, index: Any = 0, finish: Any = None, choice: Any = None, **top: Any) -> bytes:
    fields = {"text": text, "index": index, "logprobs": None, "finish_reason": finish, **(choice or {})}
    return orjson.dumps({**HEAD, "choices": [fields], **top})


def choice(text: str, *, index: int = 0, finish: str | None = "stop", **fields: Any) -> dict[str, Any]:
    return {"text": text, "index": index, "logprobs": None, "finish_reason": finish, **fields}


def test_openai_stream_with_usage() -> None:
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    events = [
        chunk("Hel", usage=None),
        chunk("lo", usage=None),
        chunk(finish="stop", usage=None),
        orjson.dumps({**HEAD, "choices": [], "usage": usage}),
        b"[DONE]",
    ]
    assert merge(events) == {**HEAD, "choices": [choice("Hello")], "usage": usage}


def test_several_prompts_give_several_choices_in_order() -> None:
    events = [
        chunk("b", index=1),
        chunk("a"),
        chunk("B", index=1, finish="length"),
        chunk("A", finish="stop"),
    ]
    assert merge(events)["choices"] == [choice("aA"), choice("bB", index=1, finish="length")]


def test_logprobs_grow_with_the_tokens() -> None:
    told = [
        {"tokens": ["He"], "token_logprobs": [-0.5], "top_logprobs": None, "text_offset": [0]},
        {"tokens": ["l", "lo"], "token_logprobs": [-1.5, None], "top_logprobs": None, "text_offset": [2, 3]},
    ]
    events = [
        chunk("He", choice={"logprobs": told[0]}),
        chunk("llo", choice={"logprobs": told[1]}),
        chunk(finish="stop"),
    ]
    assert merge(events)["choices"][0]["logprobs"] == {
        "tokens": ["He", "l", "lo"],
        "token_logprobs": [-0.5, -1.5, None],
        "top_logprobs": None,
        "text_offset": [0, 2, 3],
    }


@pytest.mark.parametrize(
    "second",
    [
        {"tokens": ["b"], "top_logprobs": [{"b": -1}]},
        {"tokens": ["b"], "top_logprobs": None, "x": 1},
        {"tokens": ["b"]},
        {"tokens": None, "top_logprobs": None},
    ],
)
def test_logprobs_that_would_lose_their_token_do_not_add_up(second: dict[str, Any]) -> None:
    first = {"tokens": ["a"], "top_logprobs": None}
    with pytest.raises(MergeError):
        merge([chunk("a", choice={"logprobs": first}), chunk("b", choice={"logprobs": second})])


def test_vllm_token_ids_stop_reason_and_growing_usage() -> None:
    events = [
        chunk("a", choice={"stop_reason": None, "token_ids": [5], "prompt_token_ids": [1, 2]},
              usage={"completion_tokens": 1}),
        chunk("b", choice={"stop_reason": 13, "token_ids": [6, 7]}, finish="stop", usage={"completion_tokens": 3}),
    ]  # fmt: skip
    reply = merge(events)
    assert reply["choices"][0]["token_ids"] == [5, 6, 7]
    assert reply["choices"][0]["prompt_token_ids"] == [1, 2]
    assert reply["choices"][0]["stop_reason"] == 13
    assert reply["usage"] == {"completion_tokens": 3}


def test_heads_of_chunks_are_stamped_anew_and_padding_is_dropped() -> None:
    later = {
        **orjson.loads(chunk("b", finish="stop")),
        "created": 8,
        "id": "other",
        "obfuscation": "xx",
        "p": "y",
    }
    reply = merge(
        [chunk("a", system_fingerprint=None), orjson.dumps({**later, "system_fingerprint": "fp_1"})]
    )
    assert (reply["id"], reply["created"], reply["system_fingerprint"]) == ("cmpl-1", 7, "fp_1")
    assert "obfuscation" not in reply
    assert "p" not in reply


def test_a_lone_choice_needs_no_index_and_an_absent_text_is_none() -> None:
    events = [
        chunk("a", index=None),
        orjson.dumps({**HEAD, "choices": [{"finish_reason": "stop"}]}),
        chunk(None),
    ]
    assert merge(events)["choices"] == [choice("a")]


@pytest.mark.parametrize(
    "event",
    [
        b'{"error":{"message":"x"}}',
        b'{"object":"error","message":"x"}',
        b"not json",
        b"[]",
        b"",
        b'{"choices":{}}',
        b'{"choices":["a"]}',
        b'{"choices":[{"index":"0","text":"a"}]}',
        b'{"choices":[{"index":true,"text":"a"}]}',
        b'{"choices":[{"text":"a"},{"text":"b"}]}',
        b'{"choices":[{"index":0,"text":3}]}',
        b'{"choices":[{"index":0,"finish_reason":"length"}]}',
        b'{"choices":[],"provider":"other"}',
        b'{"choices":[{"index":0,"text":"","x":' + b"[" * 400 + b"]" * 400 + b"}]}",
        b'{"x":' + b"[" * 400 + b"]" * 400 + b"}",
    ],
)
def test_what_breaks_a_rule_is_not_merged(event: bytes) -> None:
    with pytest.raises(MergeError):
        merge([chunk("a", finish="stop", provider="mine"), event])


def test_a_stream_without_chunks_is_no_reply() -> None:
    with pytest.raises(MergeError):
        merge([])
    with pytest.raises(MergeError):
        merge([b"[DONE]"])


def test_a_choice_that_never_finished_says_so() -> None:
    assert merge([chunk("a"), chunk("b", finish="")])["choices"][0]["finish_reason"] is None
