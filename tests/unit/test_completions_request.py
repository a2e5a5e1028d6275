from typing import Any

import orjson
import pytest

from openclaw_cache.dialects.completions import CompletionsDialect, messages, parse, prompt_text
from openclaw_cache.errors import RequestError


def test_a_request_is_read_with_the_clients_own_values() -> None:
    request = parse(
        {"model": "m", "prompt": "a", "stream": True, "n": 2, "temperature": 0.5, "seed": 7, "max_tokens": 5}
    )
    assert (request.model, request.stream, request.include_usage) == ("m", True, False)
    assert (request.n, request.temperature, request.seed, request.limit) == (2, 0.5, 7, 5)
    assert not request.has_tools
    assert request.state == ""


def test_usage_is_told_in_a_stream_that_asks_for_it() -> None:
    asked = {"model": "m", "prompt": "a", "stream": True, "stream_options": {"include_usage": True}}
    assert parse(asked).include_usage
    assert not parse({**asked, "stream_options": {"include_usage": "yes"}}).include_usage
    assert not parse({**asked, "stream_options": None}).include_usage
    body = {"model": "m", "prompt": "a"}
    told = CompletionsDialect().ask_usage(b'{"model":"m","prompt":"a"}', body)
    assert orjson.loads(told) == {**body, "stream_options": {"include_usage": True}}


@pytest.mark.parametrize(
    ("fields", "n"),
    [({}, None), ({"n": 1}, 1), ({"best_of": 1}, None), ({"best_of": 3}, 3), ({"n": 2, "best_of": 4}, 4),
     ({"n": 2, "best_of": 1}, 2), ({"n": 2, "best_of": None}, 2), ({"best_of": "3"}, "3")],
)  # fmt: skip
def test_candidates_that_are_computed_count_as_choices(fields: dict[str, Any], n: Any) -> None:
    assert parse({"model": "m", "prompt": "a", **fields}).n == n


@pytest.mark.parametrize(
    ("prompt", "num", "texts"),
    [
        ("hello", 1, ["hello"]),
        (["one", "two"], 2, ["one", "two"]),
        ([], 0, []),
        ([1, 2, 3], 1, []),
        ([[1, 2], [3]], 2, []),
        (None, 1, []),
        ("", 1, [""]),
    ],
)
def test_every_form_of_a_prompt_is_read(prompt: Any, num: int, texts: list[str]) -> None:
    body = {"model": "m", "prompt": prompt}
    assert parse(body).num_messages == num
    assert messages(body) == [{"role": "user", "content": text} for text in texts]
    assert prompt_text(body) == "\n".join(texts)


def test_prompt_text_has_what_is_to_follow_the_completion() -> None:
    assert prompt_text({"prompt": "def f():", "suffix": "return x"}) == "def f():\nreturn x"
    assert prompt_text({"prompt": "def f():", "suffix": None}) == "def f():"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ("x", None),
        ({"prompt": "a"}, "model"),
        ({"model": "", "prompt": "a"}, "model"),
        ({"model": "m"}, "prompt"),
        ({"model": "m", "prompt": {"text": "a"}}, "prompt"),
        ({"model": "m", "prompt": 3}, "prompt"),
        ({"model": "m", "prompt": True}, "prompt"),
        ({"model": "m", "prompt": "a", "stream": "true"}, "stream"),
        ({"model": "m", "messages": []}, "prompt"),
    ],
)
def test_what_cannot_be_read_is_refused_by_its_parameter(body: Any, param: str | None) -> None:
    with pytest.raises(RequestError) as refused:
        parse(body)
    assert (refused.value.status, refused.value.param) == (400, param)
