"""The replay has the shape of OpenAI's own stream, and OpenAI's own SDK reads the reply back from it."""

from typing import Any

import orjson
import pytest
from openai import APIError

from openclaw_cache.dialects.completions import CompletionsDialect, parse, shape_fault, split
from openclaw_cache.dialects.usage import Usage
from openclaw_cache.errors import RequestError
from support.responses_replies import client, read

HEAD = {"id": "cmpl-1", "object": "text_completion", "created": 7, "model": "m"}
USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}


def choice(text: Any, *, index: Any = 0, finish: Any = "stop", **fields: Any) -> dict[str, Any]:
    return {"text": text, "index": index, "logprobs": None, "finish_reason": finish, **fields}


def reply(*choices: Any, **top: Any) -> dict[str, Any]:
    return {**HEAD, "choices": list(choices), "usage": USAGE, **top}


def chunks(stream: bytes) -> list[dict[str, Any]]:
    events = [event.data for event in read(stream)]
    assert events[-1] == b"[DONE]"
    return [orjson.loads(event) for event in events[:-1]]


def test_a_completion_is_replayed_chunk_by_chunk() -> None:
    stream = split(reply(choice("Hello, world")), include_usage=True, max_piece_chars=8)
    told = [("Hello, w", None), ("orld", None), ("", "stop")]
    assert chunks(stream) == [
        *({**HEAD, "choices": [choice(text, finish=finish)], "usage": None} for text, finish in told),
        {**HEAD, "choices": [], "usage": USAGE},
    ]
    assert stream.endswith(b"\n\ndata: [DONE]\n\n")


def test_usage_stays_out_of_a_stream_that_did_not_ask_for_it() -> None:
    asked = {"model": "m", "prompt": "a", "stream": True}
    dialect = CompletionsDialect()
    assert b"usage" not in dialect.split(reply(choice("a")), parse(asked))
    asked["stream_options"] = {"include_usage": True}
    assert chunks(dialect.split(reply(choice("a")), parse(asked)))[-1]["usage"] == USAGE


def test_usage_that_is_not_there_is_not_invented() -> None:
    without = reply(choice("a"))
    del without["usage"]
    assert b"usage" not in split(without, include_usage=True)


def test_choices_follow_each_other() -> None:
    stream = split(
        reply(choice("ab"), choice("cd", index=3, finish="length")), include_usage=False, max_piece_chars=1
    )
    told = [(one["choices"][0]["index"], one["choices"][0]["text"], one["choices"][0]["finish_reason"])
            for one in chunks(stream)]  # fmt: skip
    assert told == [
        (0, "a", None),
        (0, "b", None),
        (0, "", "stop"),
        (3, "c", None),
        (3, "d", None),
        (3, "", "length"),
    ]


def test_each_token_keeps_its_logprobs_where_the_tokens_spell_the_text() -> None:
    logprobs = {
        "tokens": ["He", "llo"],
        "token_logprobs": [None, -2.5],
        "top_logprobs": None,
        "text_offset": [0, 2],
    }
    told = [(one["choices"][0]["text"], one["choices"][0]["logprobs"])
            for one in chunks(split(reply(choice("Hello", logprobs=logprobs)), include_usage=False))]  # fmt: skip
    assert told == [
        ("He", {"tokens": ["He"], "token_logprobs": [None], "top_logprobs": None, "text_offset": [0]}),
        ("llo", {"tokens": ["llo"], "token_logprobs": [-2.5], "top_logprobs": None, "text_offset": [2]}),
        ("", None),
    ]


@pytest.mark.parametrize(
    "logprobs",
    [
        {"tokens": ["He", "l"], "token_logprobs": [-1, -2]},
        {"tokens": ["bytes:\\xe4", "llo"], "token_logprobs": [-1, -2]},
        {"tokens": ["He", "llo"], "token_logprobs": [-1]},
        {"tokens": ["He", "llo"], "x": 1},
        {"tokens": "Hello"},
        {"content": [{"token": "Hello"}]},
        {},
        [1],
    ],
)
def test_other_logprobs_come_whole_in_the_last_chunk(logprobs: Any) -> None:
    told = [(one["choices"][0]["text"], one["choices"][0]["logprobs"])
            for one in chunks(split(reply(choice("Hello", logprobs=logprobs)), include_usage=False))]  # fmt: skip
    assert told == [("Hello", None), ("", logprobs)]


def test_unknown_fields_travel_once() -> None:
    stored = reply(choice("a", stop_reason=5), provider="p")
    stream = split(stored, include_usage=False)
    assert chunks(stream)[0]["provider"] == "p"
    assert chunks(stream)[-1]["choices"][0]["stop_reason"] == 5
    assert stream.count(b'"provider"') == stream.count(b'"stop_reason"') == 1


@pytest.mark.parametrize(
    "stored",
    [
        None, [], {}, {"choices": []}, {"choices": [1]}, reply(choice("a", index=None)), reply(choice("a", index=True)),
        reply(choice(None)), reply({"index": 0, "message": {}}), reply(choice("a", finish=3)),
        reply(choice("a", index=1), choice("b")), reply(choice("a"), choice("b")),
        reply(choice("a"), obfuscation="x"), reply(choice("a"), p="x"), reply(choice("a"), error={"message": "x"}),
        reply(choice("a"), object="error"),
    ],
)  # fmt: skip
def test_a_reply_that_would_lose_something_is_refused(stored: Any) -> None:
    assert shape_fault(stored) is not None
    if isinstance(stored, dict):
        with pytest.raises(ValueError, match="cannot be replayed"):
            split(stored, include_usage=True)


def test_openais_own_sdk_reads_the_stream_back_as_the_reply() -> None:
    logprobs = {
        "tokens": ["世", "界"],
        "token_logprobs": [-1.0, -2.0],
        "top_logprobs": [{}, {}],
        "text_offset": [0, 1],
    }
    stored = reply(
        choice("Hello, 世界 🧑‍🚀" * 60), choice("世界", index=1, finish="length", logprobs=logprobs)
    )
    texts, finish, tokens, usage = ["", ""], ["", ""], [], None
    for one in client(split(stored, include_usage=True)).completions.create(
        model="m", prompt="a", stream=True
    ):
        usage = one.usage or usage
        for told in one.choices:
            texts[told.index] += told.text
            finish[told.index] = told.finish_reason or finish[told.index]
            tokens += told.logprobs.tokens or () if told.logprobs else ()
    assert texts == [one["text"] for one in stored["choices"]]
    assert finish == ["stop", "length"]
    assert tokens == ["世", "界"]
    assert usage is not None
    assert usage.to_dict() == USAGE


def test_openais_own_sdk_raises_the_error_that_ends_a_stream() -> None:
    begun = b"".join(
        one + b"\n\n" for one in split(reply(choice("a" * 600)), include_usage=False).split(b"\n\n")[:2]
    )
    error = RequestError(502, "the upstream broke off", kind="upstream_error", code="broken")
    stream = client(begun + CompletionsDialect().error_event(error)).completions.create(
        model="m", prompt="a", stream=True
    )
    with pytest.raises(APIError, match="the upstream broke off"):
        list(stream)


def test_the_usage_of_a_stream_is_that_of_its_reply() -> None:
    dialect = CompletionsDialect()
    stream = split(reply(choice("a")), include_usage=True)
    events = [event.data for event in read(stream)]
    assert dialect.usage(reply(choice("a"))) == dialect.stream_usage(events) == Usage(3, 2)
    assert [dialect.is_usage_event(event) for event in events] == [False, False, True, False]
    assert dialect.stream_usage([b'{"usage":', b"[DONE]"]) is None


def test_a_replay_is_followed_to_its_end() -> None:
    progress = CompletionsDialect().progress()
    for event in read(split(reply(choice("a")), include_usage=True)):
        assert not progress.has_end
        progress.add(event.data, event.event)
    assert progress.has_end
    assert not progress.has_error
