"""Equal key ⇔ equal JSON value, for arbitrary values in arbitrary spellings."""

from __future__ import annotations

import json
import random
import struct
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from openclaw_cache.errors import RequestError
from openclaw_cache.result.key import IGNORED, Keyer, canonical, decode
from openclaw_cache.types import CacheKey, Namespace

KEYER = Keyer(b"k" * 32)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
names = st.one_of(st.sampled_from(["a", "b", "stream", "user", "metadata", "prompt_cache_key", "n"]), texts)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.sampled_from([0, 1, 2, 2**53, 2**53 + 1, 2**64 - 1, -(2**63)]),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0.0, -0.0, 1.0, 1e16, 1e22, 5e-324]),
    st.sampled_from(["", "1", "1.0", "true", "null"]),
    texts,
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4),
    max_leaves=20,
)
bodies = st.dictionaries(names, values, max_size=5)
raw_fields = st.binary(max_size=6)


def same(one: Any, other: Any) -> bool:
    """Equality of JSON values, written without looking at the code under test."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float):
        return struct.pack("d", one) == struct.pack("d", other)
    return bool(one == other)


def spell(value: Any, choose: random.Random) -> str:
    """Write a JSON value in one of its many spellings."""

    def gap() -> str:
        return choose.choice(["", "", "", " ", "\n", "\t ", "\r\n"])

    def text(characters: str) -> str:
        written = []
        for character in characters:
            plain = json.dumps(character, ensure_ascii=False)[1:-1]
            escaped = "".join(
                f"\\u{unit:04x}" for (unit,) in struct.iter_unpack(">H", character.encode("utf-16-be"))
            )
            written.append(choose.choice([plain, escaped, escaped.upper().replace("\\U", "\\u")]))
        return f'"{"".join(written)}"'

    if isinstance(value, str):
        return text(value)
    if isinstance(value, list):
        return "[" + ",".join(gap() + spell(item, choose) + gap() for item in value) + "]"
    if isinstance(value, dict):
        members = list(value.items())
        choose.shuffle(members)
        return (
            "{"
            + ",".join(
                f"{gap()}{text(name)}{gap()}:{gap()}{spell(item, choose)}{gap()}" for name, item in members
            )
            + "}"
        )
    if isinstance(value, float):
        return choose.choice([repr(value), f"{value:.17e}", f"{value:.17E}"])
    return json.dumps(value)


def changed(value: Any, choose: random.Random, new: Any) -> Any:
    """A copy of a value with one thing in it, at any depth, replaced by `new`."""
    if isinstance(value, dict) and value and choose.random() < 0.8:
        name = choose.choice(sorted(value))
        return value | {name: changed(value[name], choose, new)}
    if isinstance(value, list) and value and choose.random() < 0.8:
        at = choose.randrange(len(value))
        return [*value[:at], changed(value[at], choose, new), *value[at + 1 :]]
    return new


def visible(body: dict[str, Any]) -> dict[str, Any]:
    return {
        name: item
        for name, item in body.items()
        if name not in ("stream", "stream_options", "prompt_cache_key", "prompt_cache_retention")
    }


def key(body: dict[str, Any], raw: bytes | None = None) -> CacheKey:
    decoded = decode(json.dumps(body).encode() if raw is None else raw)
    assert decoded.keyable, decoded.why
    return KEYER.key(
        namespace=Namespace("n"),
        path="/p",
        query=b"",
        upstream="u",
        model_identity="m",
        epoch=b"e",
        headers=(),
        body=canonical(decoded.value),
    )


@given(body=bodies, choose=st.randoms(use_true_random=False))
def test_every_spelling_of_a_body_decodes_to_it_and_has_its_key(
    body: dict[str, Any], choose: random.Random
) -> None:
    raw = spell(body, choose).encode()
    assert same(decode(raw).value, body)
    assert key(body, raw) == key(body)


@given(one=bodies, other=bodies)
@example(one={"a": 1}, other={"a": 1.0})
@example(one={"a": 0.0}, other={"a": -0.0})
@example(one={"a": 2**53}, other={"a": float(2**53)})
@example(one={"stream": True}, other={})
def test_keys_are_equal_exactly_where_values_are(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert (key(one) == key(other)) == same(visible(one), visible(other))


@given(body=bodies, new=values, choose=st.randoms(use_true_random=False))
def test_any_change_anywhere_in_a_body_changes_its_key(
    body: dict[str, Any], new: Any, choose: random.Random
) -> None:
    other = changed(body, choose, new)
    if isinstance(other, dict):
        assert (key(body) == key(other)) == same(visible(body), visible(other))


@given(body=bodies, name=st.text(st.characters(exclude_categories=["Cs"]), max_size=8), extra=values)
def test_any_further_field_changes_the_key(body: dict[str, Any], name: str, extra: Any) -> None:
    if name not in body and name not in IGNORED:
        assert key(body) != key(body | {name: extra})


@given(body=bodies, ignore=st.sets(st.sampled_from(["user", "metadata"])))
def test_ignoring_a_field_is_the_same_as_its_absence(body: dict[str, Any], ignore: set[str]) -> None:
    without = {name: item for name, item in body.items() if name not in ignore}
    assert canonical(body, frozenset(ignore)) == canonical(without)


@given(body=bodies, choose=st.randoms(use_true_random=False), extra=values)
def test_a_member_written_twice_is_found_at_any_depth(
    body: dict[str, Any], choose: random.Random, extra: Any
) -> None:
    twice = (
        f'{{"deep":[{{"x":{spell(extra, choose)},"y":{spell(body, choose)},"x":{spell(extra, choose)}}}]}}'
    )
    decoded = decode(twice.encode())
    assert (decoded.keyable, decoded.why) == (False, "duplicate-key")


headers = st.lists(st.tuples(st.sampled_from([b"a", b"b", b"ab"]), raw_fields), max_size=4)
fields = st.fixed_dictionaries(
    {
        "namespace": st.text("ab:1", max_size=3),
        "path": st.text("ab:1", max_size=3),
        "query": st.binary(max_size=2),
        "upstream": st.text("ab:1", max_size=3),
        "model_identity": st.text("ab:1", max_size=3),
        "epoch": st.binary(max_size=2),
        "headers": headers,
        "body": raw_fields,
    }
)


def by_name(sent: list[tuple[bytes, bytes]]) -> dict[bytes, list[bytes]]:
    grouped: dict[bytes, list[bytes]] = {}
    for name, text in sent:
        grouped.setdefault(name, []).append(text)
    return grouped


@given(
    one=fields, other=fields, mix=st.sets(st.sampled_from(["namespace", "path", "query", "headers", "body"]))
)
def test_two_requests_share_a_key_exactly_where_every_field_is_equal(
    one: dict[str, Any], other: dict[str, Any], mix: set[str]
) -> None:
    other = one | {name: other[name] for name in mix}
    equal = {**one, "headers": by_name(one["headers"])} == {**other, "headers": by_name(other["headers"])}
    assert (KEYER.key(**one) == KEYER.key(**other)) == equal


@given(raw=st.binary(max_size=40) | st.text('{}[]":,0123.eE+- \\utrfalsn', max_size=30).map(str.encode))
def test_bytes_of_any_kind_are_a_body_as_the_standard_library_reads_it_or_a_400(raw: bytes) -> None:
    def refuse(_: str) -> None:
        raise ValueError

    try:
        expected = json.loads(raw.decode(), parse_constant=refuse)
    except ValueError:
        expected = None
    if isinstance(expected, dict):
        assert same(decode(raw).value, expected)
        return
    with pytest.raises(RequestError) as caught:
        decode(raw)
    assert caught.value.status == 400
