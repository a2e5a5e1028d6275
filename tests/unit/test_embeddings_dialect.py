"""Taking an embeddings batch apart and putting replies together: expected bytes are written out by hand."""

from __future__ import annotations

import base64
import json
import struct
from typing import Any

import pytest

from openclaw_cache.dialects.embeddings import (
    MAX_INPUTS,
    Vector,
    apportion,
    input_text,
    parse,
    prompt_tokens,
    put_together,
    read_stored,
    take_apart,
    weight,
)
from openclaw_cache.errors import MergeError, RequestError

# The shape of https://platform.openai.com/docs/api-reference/embeddings/create, with digits that no writer keeps
# by accident: a trailing zero, an exponent, a negative zero.
OPENAI = (
    b'{"object":"list","data":['
    b'{"object":"embedding","index":0,"embedding":[0.0023064250,-9.3e-3,-0.0]},'
    b'{"object":"embedding","index":1,"embedding":[1,2.50,3E2]}'
    b'],"model":"text-embedding-3-small","usage":{"prompt_tokens":8,"total_tokens":8}}'
)
# What vLLM adds, in its order of members.
VLLM = (
    b'{"id":"embd-1","object":"list","created":1700000000,"model":"e5","data":['
    b'{"index":0,"object":"embedding","embedding":[0.5]},{"index":1,"object":"embedding","embedding":[0.25]}],'
    b'"usage":{"prompt_tokens":5,"total_tokens":5,"completion_tokens":0,"prompt_tokens_details":null}}'
)


def taken(reply: bytes, *inputs: Any, is_float32: bool = True) -> list[Vector]:
    return take_apart(reply, inputs, is_float32=is_float32)


def in_base64(*numbers: float) -> str:
    return base64.b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()


def saying(*embeddings: Any, **fields: Any) -> bytes:
    data = [{"object": "embedding", "index": i, "embedding": e} for i, e in enumerate(embeddings)]
    return json.dumps({"object": "list", "data": data, "model": "m", **fields}).encode()


SWAPPED = b'{"data":[{"index":1,"embedding":[2.0]},{"index":0,"embedding":[1.0]}],"model":"m"}'


# Requests.


@pytest.mark.parametrize(
    ("value", "inputs"),
    [
        ("a", ["a"]),
        (["a"], ["a"]),
        (["a", "b", "a"], ["a", "b", "a"]),
        ([1, 2], [[1, 2]]),
        ([[1, 2]], [[1, 2]]),
        ([[1, 2], [3]], [[1, 2], [3]]),
    ],
)
def test_the_four_forms_of_input_are_read_as_a_list_of_inputs(value: Any, inputs: Any) -> None:
    assert list(parse({"model": "m", "input": value}).inputs) == inputs


@pytest.mark.parametrize(
    "value",
    [None, "", [], [""], ["a", ""], [[]], [[1], []], ["a", [1]], [1, "a"], [1.0], [[1.0]], [True], [None], 3, {"a": 1},
     ["a"] * (MAX_INPUTS + 1), [[1], 2]],
)  # fmt: skip
def test_any_other_input_is_left_to_the_upstream(value: Any) -> None:
    assert list(parse({"model": "m", "input": value}).inputs) == []


def test_a_body_without_input_is_left_to_the_upstream_since_some_take_messages_instead() -> None:
    assert list(parse({"model": "m", "messages": []}).inputs) == []


def test_a_long_list_of_tokens_is_one_input() -> None:
    assert len(parse({"model": "m", "input": [5] * (MAX_INPUTS + 1)}).inputs) == 1


@pytest.mark.parametrize("model", [None, "", 3, ["m"]])
def test_a_body_without_a_model_is_refused_by_name(model: Any) -> None:
    with pytest.raises(RequestError) as refused:
        parse({"model": model, "input": "a"})
    assert (refused.value.status, refused.value.param) == (400, "model")


def test_a_text_weighs_its_bytes_and_tokens_weigh_one_each() -> None:
    assert (weight("ab"), weight("猫"), weight([7, 8, 9])) == (2, 3, 3)


def test_tokens_are_text_as_they_stand_in_json() -> None:
    assert (input_text("a\nb"), input_text([1, 20])) == ("a\nb", "[1,20]")


# Shares.


@pytest.mark.parametrize(
    ("total", "weights", "shares"),
    [
        (10, [1, 1, 1], [4, 3, 3]),  # 3.33 each: of equal remainders the first rounds up
        (10, [1, 2, 4], [1, 3, 6]),  # 1.43, 2.86, 5.71: the larger remainders round up
        (7, [0, 0], [4, 3]),
        (5, [0, 3], [0, 5]),
        (0, [3, 4], [0, 0]),
        (1, [5], [1]),
    ],
)
def test_a_total_is_shared_by_largest_remainder(total: int, weights: list[int], shares: list[int]) -> None:
    assert apportion(total, weights) == shares


# Replies taken apart.


def test_each_input_gets_the_reply_it_would_have_got_alone_with_the_digits_of_the_upstream() -> None:
    first, second = taken(OPENAI, "abcde", "abc")
    assert first.reply == (
        b'{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.0023064250,-9.3e-3,-0.0]}],'
        b'"model":"text-embedding-3-small","usage":{"prompt_tokens":5,"total_tokens":5}}'
    )
    assert second.reply == (
        b'{"object":"list","data":[{"object":"embedding","index":0,"embedding":[1,2.50,3E2]}],'
        b'"model":"text-embedding-3-small","usage":{"prompt_tokens":3,"total_tokens":3}}'
    )
    assert [v.prompt_tokens for v in (first, second)] == [5, 3]


def test_members_that_we_do_not_know_stay_and_keep_their_places() -> None:
    first, second = taken(VLLM, "aa", "aaa")
    assert second.reply == (
        b'{"id":"embd-1","object":"list","created":1700000000,"model":"e5",'
        b'"data":[{"index":0,"object":"embedding","embedding":[0.25]}],'
        b'"usage":{"prompt_tokens":3,"total_tokens":3,"completion_tokens":0,"prompt_tokens_details":null}}'
    )
    assert put_together([first, second], first) == VLLM


def test_an_item_keeps_members_of_its_own() -> None:
    reply = b'{"data":[{"index":0,"embedding":[1],"text":"x","score":1.50}],"model":"m"}'
    [vector] = taken(reply, "a")
    again = put_together([vector, vector], vector)
    assert again == (
        b'{"data":[{"index":0,"embedding":[1],"text":"x","score":1.50},'
        b'{"index":1,"embedding":[1],"text":"x","score":1.50}],"model":"m"}'
    )


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (saying([1.0]), "one vector too few"),
        (saying([1.0], [2.0], [3.0]), "one vector too many"),
        (saying([1.0], [2.0]).replace(b'"index": 1', b'"index": 0'), "an index twice"),
        (saying([1.0], [2.0]).replace(b'"index": 1', b'"index": 2'), "an index missing"),
        (SWAPPED, "out of order"),
        (saying([1.0], [2.0]).replace(b'"index": 1', b'"index": 1.0'), "an index that is no integer"),
        (saying([1.0], [2.0]).replace(b'"index": 1', b'"position": 1'), "no index"),
        (saying([1.0], [2.0, 3.0]), "vectors of two lengths"),
        (saying([1.0], None), "null"),
        (saying([1.0], [None]), "null in a vector"),
        (saying([1.0], ["1.0"]), "text in a vector"),
        (saying([1.0], [float("nan")]), "NaN, which is no JSON"),
        (saying([1.0], [[1.0]]), "a matrix"),
        (saying([], []), "empty vectors"),
        (saying("", ""), "empty base64"),
        (saying(in_base64(1.0), "AAAA=AAA"), "no base64"),
        (saying(in_base64(1.0), "AAAA\u00e9AA="), "no ASCII"),
        (saying(in_base64(1.0), in_base64(float("nan"))), "NaN in base64"),
        (saying(in_base64(1.0), in_base64(float("inf"))), "infinity in base64"),
        (saying("AAA=", "AAA="), "two bytes are no 32-bit float"),
        (saying([1.0], [2.0], error={"message": "overloaded"}), "an error beside the vectors"),
        (b'{"error":{"message":"no"}}', "an error"),
        (b'{"object":"list","data":{}}', "data that is no list"),
        (b'{"object":"list","data":[1,2]}', "items that are no objects"),
        (b"[]", "no object"), (b"", "nothing"), (b"<html>", "no JSON"), (b'{"data":[', "cut off"),
        (b'\xef\xbb\xbf{"data":[]}', "a byte order mark"),
        (saying([1.0], [2.0], note="\u00e9").replace(b"\\u00e9", b"\xff"), "no UTF-8"),
        (b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b',"data":[]}', "nested without end"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_a_reply_that_leaves_any_doubt_is_not_taken_apart(reply: bytes, why: str) -> None:
    with pytest.raises(MergeError):
        taken(reply, "a", "b")


def test_base64_of_other_numbers_than_floats_is_not_looked_into() -> None:
    minus_one_as_int8 = base64.b64encode(b"\xff" * 6).decode()
    assert not parse({"model": "m", "input": "a", "output_dtype": "int8"}).is_float32
    assert parse({"model": "m", "input": "a", "dimensions": 6}).is_float32
    [vector] = taken(saying(minus_one_as_int8), "a", is_float32=False)
    assert json.loads(vector.reply)["data"][0]["embedding"] == minus_one_as_int8


@pytest.mark.parametrize(
    ("usage", "first", "second"),
    [
        (
            {"prompt_tokens": 8, "total_tokens": 9},
            {"prompt_tokens": 4, "total_tokens": 5},
            {"prompt_tokens": 4, "total_tokens": 4},
        ),
        ({"total_tokens": 3}, {"total_tokens": 2}, {"total_tokens": 1}),
        (
            {"prompt_tokens": 2, "cost": 0.5, "x": None, "y": True, "z": -1},
            {"prompt_tokens": 1, "cost": 0.5, "x": None, "y": True, "z": -1},
            {"prompt_tokens": 1, "cost": 0.5, "x": None, "y": True, "z": -1},
        ),
        (None, None, None),
        ("many", "many", "many"),
    ],
)  # fmt: skip
def test_every_count_of_a_usage_is_shared_and_all_else_repeated(usage: Any, first: Any, second: Any) -> None:
    vectors = taken(saying([1.0], [2.0], usage=usage), "a", "b")
    assert [json.loads(v.reply)["usage"] for v in vectors] == [first, second]
    assert json.loads(put_together(vectors, vectors[0]))["usage"] == usage


def test_a_provider_that_tells_only_the_total_has_told_the_prompt() -> None:
    assert [v.prompt_tokens for v in taken(saying([1.0], [2.0], usage={"total_tokens": 3}), "a", "b")] == [
        2,
        1,
    ]
    assert taken(saying([1.0]), "a")[0].prompt_tokens is None


@pytest.mark.parametrize(
    ("reply", "tokens"),
    [
        (OPENAI, 8),
        (saying([1.0], usage={"total_tokens": 4}), 4),
        (saying([1.0]), None),
        (b"no", None),
        (b"[]", None),
    ],
)
def test_the_tokens_of_any_reply_are_read_where_it_tells_them(reply: bytes, tokens: int | None) -> None:
    assert prompt_tokens(reply) == tokens


# Replies put together.


def test_the_same_batch_put_together_is_the_same_reply() -> None:
    vectors = taken(OPENAI, "abcde", "abc")
    assert put_together([read_stored(v.reply) for v in vectors], vectors[0]) == OPENAI


def test_vectors_stand_in_the_order_of_the_inputs_and_are_numbered_anew() -> None:
    first, second = taken(OPENAI, "abcde", "abc")
    assert put_together([second, first, second], second) == (
        b'{"object":"list","data":['
        b'{"object":"embedding","index":0,"embedding":[1,2.50,3E2]},'
        b'{"object":"embedding","index":1,"embedding":[0.0023064250,-9.3e-3,-0.0]},'
        b'{"object":"embedding","index":2,"embedding":[1,2.50,3E2]}'
        b'],"model":"text-embedding-3-small","usage":{"prompt_tokens":11,"total_tokens":11}}'
    )


def test_vectors_of_two_models_or_lengths_or_encodings_are_of_different_kinds() -> None:
    replies = [
        saying([1.0, 2.0]),
        saying([1.0, 2.0], model="other"),
        saying([1.0]),
        saying(in_base64(1.0, 2.0)),
        saying(in_base64(1.0)),
    ]
    kinds = [taken(reply, "a")[0].kind for reply in replies]
    assert len(set(kinds)) == 5
    assert taken(saying([7.25, -8.5e-3]), "b")[0].kind == kinds[0]


@pytest.mark.parametrize(
    "stored", [b"", b"{}", OPENAI, b'{"data":[{}]}', b'{"choices":[]}', b'{"data":[{"index":0}]}']
)
def test_what_is_no_stored_vector_is_not_taken_for_one(stored: bytes) -> None:
    with pytest.raises(MergeError):
        read_stored(stored)
