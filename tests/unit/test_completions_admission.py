from typing import Any

import pytest

from openclaw_cache.dialects.completions import parse, refusal_to_store
from openclaw_cache.dialects.openai import REFUSALS


def choice(text: Any = "a", finish: Any = "stop", **fields: Any) -> dict[str, Any]:
    return {"text": text, "index": 0, "logprobs": None, "finish_reason": finish, **fields}


def refusal(*choices: Any, asked: dict[str, Any] | None = None, **top: Any) -> str | None:
    reply = {
        "object": "text_completion",
        "choices": [{**one, "index": n} for n, one in enumerate(choices)],
        **top,
    }
    return refusal_to_store(reply, parse({"model": "m", "prompt": "a", **(asked or {})}))


def test_complete_answers_are_stored() -> None:
    assert refusal(choice()) is None
    assert refusal(choice(" "), choice("b")) is None
    assert refusal(choice(), error=None) is None


@pytest.mark.parametrize(
    ("choices", "top", "reason"),
    [
        ([choice()], {"error": {"message": "x"}}, "error"),
        ([choice()], {"object": "error"}, "error"),
        ([choice(error={"code": 500})], {}, "error"),
        ([choice(finish=None)], {}, "unfinished"),
        ([choice(finish="")], {}, "unfinished"),
        ([choice(), choice(finish=None)], {}, "unfinished"),
        ([choice(finish="content_filter")], {}, "filtered"),
        ([choice(finish="abort")], {}, "finish"),
        ([choice(finish="length")], {}, "truncated"),
        ([choice("")], {}, "empty"),
        ([choice(), choice("")], {}, "empty"),
        ([choice(None)], {}, "shape"),
        ([], {}, "shape"),
    ],
)
def test_everything_else_is_refused_by_name(choices: list[Any], top: dict[str, Any], reason: str) -> None:
    assert refusal(*choices, **top) == reason
    assert reason in REFUSALS


@pytest.mark.parametrize("reply", [None, [], "x", {}, {"object": "text_completion"}])
def test_what_is_no_reply_is_refused(reply: Any) -> None:
    assert refusal_to_store(reply, parse({"model": "m", "prompt": "a"})) == "shape"


def test_a_reply_nested_deeper_than_it_could_be_replayed_is_refused() -> None:
    deep: Any = "x"
    for _ in range(300):
        deep = [deep]
    assert refusal(choice(), deep=deep) == "shape"


@pytest.mark.parametrize(
    ("limit", "finishes", "num_tokens", "reason"),
    [
        (5, ["length"], 5, None),
        (0, ["length"], 0, None),  # the prompt scored and echoed
        (5, ["length", "length"], 10, None),
        (5, ["length"], 4, "truncated"),
        (5, ["length"], 6, "truncated"),
        (5, ["length", "length"], 9, "truncated"),
        (5, ["length", "stop"], 10, "truncated"),
        (5, ["length", "stop"], 8, "truncated"),
        (16, ["length"], 16, None),
        (None, ["length"], 16, "truncated"),  # the upstream's default, which may change
        (5, ["length"], None, "truncated"),
        (True, ["length"], True, "truncated"),
        (5, ["stop", "stop"], 3, None),
    ],
)
def test_length_counts_as_complete_only_where_the_requests_own_limit_cut_every_choice(
    limit: Any, finishes: list[str], num_tokens: Any, reason: str | None
) -> None:
    choices = [choice(finish=finish) for finish in finishes]
    asked = {} if limit is None else {"max_tokens": limit}
    assert refusal(*choices, asked=asked, usage={"completion_tokens": num_tokens}) == reason


def test_length_without_usage_is_truncated() -> None:
    assert refusal(choice(finish="length"), asked={"max_tokens": 5}) == "truncated"
