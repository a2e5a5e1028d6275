"""Which requests share a reply, in hand-written cases from public fault reports and RFC 8259."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import orjson
import pytest

from openclaw_cache.errors import RequestError
from openclaw_cache.result.key import MAX_DEPTH, Keyer, canonical, decode, key_of
from openclaw_cache.types import CacheKey, Namespace

SECRET = bytes(range(32))
BODY = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 5}


def request_key(**changes: Any) -> CacheKey:
    fields: dict[str, Any] = {
        "namespace": Namespace("team"),
        "path": "/v1/chat/completions",
        "query": b"",
        "upstream": "local",
        "model_identity": "m@1",
        "epoch": b"e" * 16,
        "headers": [],
        "body": canonical(BODY),
    }
    return Keyer(SECRET).key(**(fields | changes))


def keyed(raw: bytes) -> CacheKey:
    body = decode(raw)
    assert body.keyable, body.why
    return request_key(body=canonical(body.value))


# bodies


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b'{"a":1,"b":[true,null]}', b'{ "b" : [ true , null ] ,\r\n\t"a" : 1 }'),
        (b'{"a":"\xc3\xa9/"}', rb'{"a":"\u00e9\/"}'),
        (b'{"a":"\xf0\x9f\x98\x80"}', rb'{"\u0061":"\ud83d\uDE00"}'),
        (b'{"a":1.5}', b'{"a":15e-1}'),
        (b'{"a":1.0}', b'{"a":1e0}'),
        (b'{"a":0}', b'{"a":-0}'),
        (b'{"a":{"x":1,"y":2}}', b'{"a":{"y":2,"x":1}}'),
        (b'{"a":1}', b'{"a":1,"stream":true,"stream_options":{"include_usage":true}}'),
        (b'{"a":1}', b'{"a":1,"prompt_cache_key":"k","prompt_cache_retention":"24h"}'),
    ],
)
def test_other_spellings_of_one_value_share_a_key(one: bytes, other: bytes) -> None:
    assert keyed(one) == keyed(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b'{"a":1}', b'{"a":1.0}'),
        (b'{"a":1}', b'{"a":"1"}'),
        (b'{"a":1}', b'{"a":true}'),
        (b'{"a":0}', b'{"a":false}'),
        (b'{"a":null}', b"{}"),
        (b'{"a":""}', b'{"a":null}'),
        (b'{"a":[]}', b'{"a":{}}'),
        (b'{"a":[1,2]}', b'{"a":[2,1]}'),
        (b'{"a":"x"}', b'{"a":"X"}'),
        (b'{"a":"x"}', b'{"a":"x "}'),
        (b'{"a":"e\xcc\x81"}', b'{"a":"\xc3\xa9"}'),  # not normalised: models see other tokens
        (b'{"a":18446744073709551615}', b'{"a":18446744073709551614}'),
        (b'{"a":{"stream":true}}', b'{"a":{"stream":false}}'),  # only top-level fields are ignored
        (b'{"a":1,"user":"u"}', b'{"a":1,"user":"v"}'),
        (b'{"a":1,"metadata":{}}', b'{"a":1}'),
    ],
)
def test_other_values_do_not_share_a_key(one: bytes, other: bytes) -> None:
    assert keyed(one) != keyed(other)


@pytest.mark.parametrize(
    "field",
    [
        *("guided_json", "structured_outputs", "chat_template_kwargs", "cache_salt", "min_p", "extra_body"),
        *(
            "reasoning_effort",
            "thinking",
            "response_format",
            "parallel_tool_calls",
            "num_ctx",
            "tools",
            "seed",
        ),
        *("logprobs", "top_logprobs", "n", "stop", "service_tier", "never_heard_of"),
    ],
)
def test_every_field_counts_known_or_not(field: str) -> None:
    seen = {keyed(orjson.dumps(BODY | extra)) for extra in ({}, {field: 1}, {field: 2}, {field: None})}
    assert len(seen) == 4


def test_nested_message_fields_count() -> None:
    answers = [{"role": "tool", "tool_call_id": call, "content": "same"} for call in ("call_1", "call_2")]
    assert len({keyed(orjson.dumps(BODY | {"messages": [answer]})) for answer in answers}) == 2


def test_ignore_drops_user_and_metadata_only_where_named_and_nothing_else() -> None:
    body = {"a": 1, "user": "u", "metadata": {"x": 1}}
    assert canonical(body, frozenset({"user"})) == b'{"a":1,"metadata":{"x":1}}'
    assert canonical(body, frozenset({"user", "metadata", "a"})) == b'{"a":1}'
    assert body == {"a": 1, "user": "u", "metadata": {"x": 1}}


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b'{"a":1,"a":2}', "duplicate-key"),
        (b'{"a":1,"a":1}', "duplicate-key"),
        (rb'{"a":1,"\u0061":2}', "duplicate-key"),
        (b'{"m":[{"x":{"b":1,"c":2,"b":3}}]}', "duplicate-key"),
        (b'{"a":18446744073709551616}', "number-range"),
        (b'{"a":[-9223372036854775809]}', "number-range"),
        (b'{"a":' + b"9" * 5000 + b"}", "number-range"),
        (b'{"a":1e400}', "number-range"),
        (b'{"a":-1e400}', "number-range"),
        (rb'{"a":"\ud800"}', "lone-surrogate"),
        (rb'{"\udc00x":1}', "lone-surrogate"),
    ],
)
def test_what_two_receivers_may_read_differently_is_not_keyable(raw: bytes, why: str) -> None:
    body = decode(raw)
    assert (body.keyable, body.why) == (False, why)
    assert body.value.keys() == json.loads(raw.replace(b"9" * 5000, b"9")).keys()


def test_integers_past_64_bits_keep_their_value_for_policy() -> None:
    assert decode(b'{"max_tokens":18446744073709551616}').value == {"max_tokens": 2**64}


@pytest.mark.parametrize(
    "raw",
    [
        *(b"", b" ", b"{", b"{}x", b"{} {}", b'{"a":}', b'{"a":1,}', b"{'a':1}", b'{"a":01}', b'{"a":.5}'),
        *(b'{"a":NaN}', b'{"a":Infinity}', b'{"a":-Infinity}', b'{"a":+1}', b'{"a":"\n"}', b'{"a":"\\x"}'),
        b"\xef\xbb\xbf{}",  # byte order mark: RFC 8259 §8.1
        b'{"a":"\xff"}',  # not UTF-8
        b'{"a":"\xed\xa0\x80"}',  # a surrogate in UTF-8 is not UTF-8 (RFC 3629 §3)
        b'{"a":"\xc0\xaf"}',  # overlong
        '{"a":1}'.encode("utf-16"),
        *(b"[]", b"null", b'"x"', b"1", b"1e400", b"[1,1e400]", rb'["\ud800"]'),
    ],
)
def test_what_is_not_a_json_object_is_a_400(raw: bytes) -> None:
    with pytest.raises(RequestError) as caught:
        decode(raw)
    assert caught.value.status == 400
    assert len(str(caught.value)) > 10


def nested(depth: int, inner: bytes = b"1") -> bytes:
    return b'{"a":' + b"[" * (depth - 1) + inner + b"]" * (depth - 1) + b"}"


@pytest.mark.parametrize("inner", [b"1", b'" "', rb'"\ud800"', b"1e400"])
@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 1000, 1024, 1025, 5000, 200_000])
def test_nesting_past_the_limit_is_a_400_however_it_is_parsed(depth: int, inner: bytes) -> None:
    with pytest.raises(RequestError) as caught:
        decode(nested(depth, inner))
    assert caught.value.status == 400


def test_nesting_up_to_the_limit_is_keyable() -> None:
    body = decode(nested(MAX_DEPTH))
    assert body.keyable
    assert canonical(body.value) == nested(MAX_DEPTH)
    assert decode(nested(MAX_DEPTH).replace(b"1", b" 1 ")).keyable
    assert not decode(nested(MAX_DEPTH, rb'"\ud800"')).keyable


def test_errors_never_repeat_the_body() -> None:
    with pytest.raises(RequestError) as caught:
        decode(b'{"content":"my secret diagnosis", oops}')
    assert "diagnosis" not in str(caught.value)


# the other fields of a key


@pytest.mark.parametrize(
    "change",
    [
        {"namespace": Namespace("other")},
        {"path": "/v1/completions"},
        {"query": b"api-version=2"},
        {"upstream": "pods"},
        {"model_identity": "m@2"},
        {"epoch": b"f" * 16},
        {"headers": [(b"anthropic-beta", b"x")]},
        {"body": canonical(BODY | {"max_tokens": 6})},
    ],
)
def test_every_part_of_a_request_changes_the_key(change: dict[str, Any]) -> None:
    assert request_key(**change) != request_key()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        # The vector of a public report: fields that are joined without their lengths.
        ({"namespace": "org_1", "path": "2345"}, {"namespace": "org_12345", "path": ""}),
        ({"path": "/a", "query": b"b"}, {"path": "/ab", "query": b""}),
        ({"upstream": "a", "model_identity": "bc"}, {"upstream": "ab", "model_identity": "c"}),
        ({"namespace": "a2:b", "path": "c"}, {"namespace": "a", "path": "b1:c"}),
        ({"headers": [(b"a", b"b"), (b"c", b"d")]}, {"headers": [(b"a", b"b1:c1:d")]}),
        ({"headers": [(b"ab", b"c")]}, {"headers": [(b"a", b"bc")]}),
        ({"headers": [(b"a", b"")]}, {"headers": []}),
        ({"headers": [(b"a", b"1")], "body": b"{}"}, {"headers": [], "body": b"1:a1:12:{}"}),
        ({"headers": [(b"a", b"1"), (b"a", b"2")]}, {"headers": [(b"a", b"2"), (b"a", b"1")]}),
        ({"headers": [(b"a", b"1"), (b"a", b"2")]}, {"headers": [(b"a", b"12")]}),
    ],
)
def test_fields_cannot_flow_into_each_other(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert request_key(**one) != request_key(**other)


def test_order_of_different_headers_does_not_matter() -> None:
    one, other = (b"anthropic-beta", b"x"), (b"openai-beta", b"y")
    assert request_key(headers=[one, other]) == request_key(headers=[other, one])


def test_another_secret_gives_other_keys_and_namespace_ids() -> None:
    mine, theirs = Keyer(SECRET), Keyer(b"x" * 32)
    key = request_key()
    fields = {"namespace": Namespace("team"), "path": "", "query": b"", "upstream": "", "model_identity": ""}
    assert mine.key(**fields, epoch=b"", headers=[], body=b"") != theirs.key(
        **fields, epoch=b"", headers=[], body=b""
    )
    assert mine.store_key(Namespace("team"), key) != theirs.store_key(Namespace("team"), key)


def test_store_keys_show_no_names_share_their_namespace_prefix_and_give_the_key_back() -> None:
    keyer, key = Keyer(SECRET), request_key()
    stored_as = keyer.store_key(Namespace("team"), key)
    assert stored_as.startswith(keyer.namespace_prefix(Namespace("team")))
    assert not stored_as.startswith(keyer.namespace_prefix(Namespace("team2")))
    assert b"team" not in stored_as
    assert key_of(stored_as) == key
    assert len(key) == 32


@pytest.mark.parametrize("foreign", [b"r:", b"r:users:42", b"e:00ff", b"r:" + b"0" * 32 + b":" + b"G" * 64])
def test_keys_of_others_in_the_store_are_recognised(foreign: bytes) -> None:
    assert key_of(foreign) is None


def test_keys_are_equal_in_every_process_whatever_its_hash_seed() -> None:
    program = (
        "from openclaw_cache.result.key import Keyer, canonical, decode\n"
        'body = canonical(decode(b\'{"b":{"z":1,"y":[2]},"a":"x","user":1}\').value, frozenset([\'user\']))\n'
        "k = Keyer(b's' * 32).key(namespace='n', path='/p', query=b'', upstream='u', model_identity='m', epoch=b'e',"
        " headers=[(b'b', b'1'), (b'a', b'2')], body=body)\n"
        "print(Keyer(b's' * 32).store_key('n', k).decode())"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "4242")
    }
    assert len(printed) == 1
    assert len(printed.pop().strip()) == 2 + 32 + 1 + 64
