"""Hints for the provider's own prompt cache: where they go, and when none may be given."""

from __future__ import annotations

import copy
from typing import Any

import orjson
import pytest

from openclaw_cache.gateway.cache_hints import MAX_KEY_CHARACTERS, RoutingKeys, hinted
from openclaw_cache.gateway.cache_hints.minimums import min_tokens
from openclaw_cache.types import Namespace

EPHEMERAL = {"type": "ephemeral"}
LONG = "word " * 4_000  # 20,000 bytes: 5,000 tokens, more than any model's minimum
KEYS = RoutingKeys(b"s" * 32)


def _hint(body: dict[str, Any], dialect: str = "messages", session: str | None = None) -> dict[str, Any]:
    raw, before = orjson.dumps(body), copy.deepcopy(body)
    result = hinted(raw, body, dialect, session, KEYS.of(Namespace("team")))
    assert body == before
    value = orjson.loads(result)
    assert isinstance(value, dict)
    if value == body:
        assert result == raw
    return value


def _places(body: dict[str, Any]) -> list[str]:
    """Where breakpoints are, as paths."""
    found: list[str] = []

    def walk(value: Any, path: str) -> None:
        if isinstance(value, dict):
            if "cache_control" in value:
                assert value["cache_control"] == EPHEMERAL
                found.append(path)
            for name, member in value.items():
                walk(member, f"{path}.{name}" if path else name)
        elif isinstance(value, list):
            for i, item in enumerate(value):
                walk(item, f"{path}.{i}")

    walk(body, "")
    return found


def _request(**changes: Any) -> dict[str, Any]:
    return {
        "model": "claude-opus-4-5-20251101",
        "max_tokens": 10,
        "tools": [
            {"name": "read", "description": LONG, "input_schema": {"type": "object"}},
            {"name": "write", "input_schema": {"type": "object"}},
        ],
        "system": [{"type": "text", "text": "You are Cleo."}, {"type": "text", "text": "Be brief."}],
        "messages": [
            {"role": "user", "content": "Read a and b."},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "Both.", "signature": "c2VhbA=="},
                {"type": "tool_use", "id": "t1", "name": "read", "input": {"path": "a"}},
                {"type": "tool_use", "id": "t2", "name": "read", "input": {"path": "b"}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": "1"},
                {"type": "tool_result", "tool_use_id": "t2", "content": [{"type": "text", "text": "2"}]},
            ]},
            {"role": "assistant", "content": "Done."},
            {"role": "user", "content": "Thanks."},
        ],
        **changes,
    }  # fmt: skip


def test_a_messages_request_gets_four_breakpoints_and_its_texts_become_blocks() -> None:
    marked = _hint(_request())
    assert _places(marked) == ["tools.1", "system.1", "messages.2.content.1", "messages.4.content.0"]
    assert marked["messages"][4]["content"] == [
        {"type": "text", "text": "Thanks.", "cache_control": EPHEMERAL}
    ]
    assert list(marked) == list(_request())


def test_a_system_prompt_that_is_a_text_becomes_a_block() -> None:
    assert _hint(_request(system="Be brief."))["system"] == [
        {"type": "text", "text": "Be brief.", "cache_control": EPHEMERAL}
    ]


def test_the_breakpoint_of_one_turn_is_one_of_the_next() -> None:
    conversation = _request()["messages"]
    first = set(_places(_hint(_request(messages=conversation[:3]))))
    many = [{"type": "tool_use", "id": f"u{i}", "name": "read", "input": {}} for i in range(30)]
    results = [{"type": "tool_result", "tool_use_id": f"u{i}", "content": "x"} for i in range(30)]
    following = [
        *conversation[:3], {"role": "assistant", "content": many}, {"role": "user", "content": results},
    ]  # fmt: skip
    # 60 blocks lie between the two ends: three times as far as the provider looks back.
    second = set(_places(_hint(_request(messages=following))))
    assert "messages.2.content.1" in first & second
    assert "messages.4.content.29" in second


@pytest.mark.parametrize(
    "changes",
    [
        {"cache_control": EPHEMERAL},
        {"cache_control": None},
        {"system": [{"type": "text", "text": LONG, "cache_control": EPHEMERAL}]},
        {"system": [{"type": "text", "text": LONG, "cache_control": {"type": "ephemeral", "ttl": "1h"}}]},
        {"tools": [{"name": "read", "input_schema": {}, "cache_control": EPHEMERAL}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": LONG, "cache_control": None}]}]},
        {"messages": [{"role": "user", "content": [{
            "type": "tool_result", "tool_use_id": "t",
            "content": [{"type": "text", "text": LONG, "cache_control": EPHEMERAL}],
        }]}]},
    ],
)  # fmt: skip
def test_a_client_that_marks_anything_itself_is_left_alone(changes: dict[str, Any]) -> None:
    body = _request(**changes)
    assert _hint(body) == body


def test_a_marker_that_hides_in_an_escape_is_seen() -> None:
    body = _request(system=[{"type": "text", "text": LONG, "cache_control": EPHEMERAL}])
    raw = orjson.dumps(body).replace(b"cache_control", b"cache\\u005fcontrol")
    assert hinted(raw, body, "messages", None, KEYS.of(Namespace("team"))) == raw


def test_talk_of_cache_control_is_no_marker() -> None:
    schema = {"type": "object", "properties": {"cache_control": {"type": "string"}}}
    body = _request(
        system="Explain cache_control.",
        tools=[{"name": "set", "description": LONG, "input_schema": schema}],
        messages=[
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": [
                {"type": "tool_use", "id": "t", "name": "set", "input": {"cache_control": "x"}},
            ]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "ok"}]},
        ],
    )  # fmt: skip
    places = [place for place in _markers(_hint(body)) if "input" not in place]
    assert places == ["tools.0", "system.0", "messages.0.content.0", "messages.2.content.0"]


def _markers(body: dict[str, Any]) -> list[str]:
    return [
        *(f"tools.{i}" for i, tool in enumerate(body["tools"]) if "cache_control" in tool),
        *(f"system.{i}" for i, block in enumerate(body["system"]) if "cache_control" in block),
        *(
            f"messages.{i}.content.{j}"
            for i, message in enumerate(body["messages"])
            for j, block in enumerate(message["content"])
            if "cache_control" in block
        ),
    ]


def test_a_prefix_that_is_too_short_for_the_model_gets_no_breakpoint() -> None:
    # Opus 4.5 caches from 4096 tokens, 16,384 bytes at four to the token: "word " is 5 bytes.
    short, enough = "word " * 3_000, "word " * 3_400
    assert (
        _places(_hint(_request(tools=[], system=short, messages=[{"role": "user", "content": "Hi"}]))) == []
    )
    grown = [{"role": "user", "content": "word " * 400}]
    assert _places(_hint(_request(tools=[], system=short, messages=grown))) == ["messages.0.content.0"]
    assert _places(_hint(_request(tools=[], system=enough, messages=grown))) == [
        "system.0",
        "messages.0.content.0",
    ]
    # Sonnet 4.6 caches from 1024.
    sonnet = _request(model="claude-sonnet-4-6", tools=[], system=short, messages=grown)
    assert _places(_hint(sonnet)) == ["system.0", "messages.0.content.0"]


def test_an_image_is_no_text_however_many_bytes_it_has() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 100_000}}
    body = _request(tools=[], system="x", messages=[{"role": "user", "content": [image]}])
    assert _places(_hint(body)) == []
    body["system"] = LONG
    assert _places(_hint(body)) == ["system.0", "messages.0.content.0"]


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ([{"type": "text", "text": "a"}, {"type": "text", "text": ""}], 0),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": " \n"}], 0),
        ([{"type": "text", "text": "a"}, {"type": "thinking", "thinking": "b", "signature": "c"}], 0),
        ([{"type": "text", "text": "a"}, {"type": "redacted_thinking", "data": "b"}], 0),
        ([{"type": "text", "text": "a"}, {"type": "of_next_year", "text": "b"}], 0),
        ([{"type": "text", "text": "a"}, {"type": "document", "source": {}}], 1),
        ([{"type": "text", "text": ""}], None),
        ("", None),
        (" ", None),
        ([], None),
    ],
)  # fmt: skip
def test_a_block_that_cannot_carry_a_breakpoint_gets_none(content: Any, place: int | None) -> None:
    body = _request(tools=[], system=LONG, messages=[{"role": "user", "content": content}])
    expected = [] if place is None else [f"messages.0.content.{place}"]
    assert _places(_hint(body)) == ["system.0", *expected]


def test_a_tool_that_is_deferred_gets_no_breakpoint() -> None:
    tools = [*_request()["tools"], {"name": "rare", "input_schema": {}, "defer_loading": True}]
    assert "tools.1" in _places(_hint(_request(tools=tools)))


def test_a_prefilled_reply_and_a_system_message_are_not_where_a_request_ends() -> None:
    said = {"role": "user", "content": "Hi"}
    prefilled = [said, {"role": "assistant", "content": "{"}]
    assert _places(_hint(_request(tools=[], system=LONG, messages=prefilled))) == [
        "system.0",
        "messages.0.content.0",
    ]
    instructed = [said, {"role": "system", "content": "Be terse."}]
    assert _places(_hint(_request(tools=[], system=LONG, messages=instructed))) == [
        "system.0",
        "messages.0.content.0",
    ]


@pytest.mark.parametrize(
    "changes",
    [
        {"messages": LONG},
        {"messages": [LONG]},
        {"messages": [{"role": "user"}]},
        {"messages": [{"role": "user", "content": None}]},
        {"messages": [{"role": "tool", "content": LONG}]},
        {"messages": [{"role": "user", "content": [LONG]}]},
        {"system": None},
        {"system": {"text": LONG}},
        {"tools": {"a": LONG}},
        {"tools": [LONG]},
        {"model": None},
    ],
)
def test_a_body_of_a_shape_we_do_not_know_is_left_alone(changes: dict[str, Any]) -> None:
    body = _request(**changes)
    assert _hint(body) == body


@pytest.mark.parametrize(
    ("member", "value"),
    [
        (b'"a":1,"a":2', {"a": 2}),
        (b'"a":123456789012345678901234567890', {"a": 123456789012345678901234567890}),
        (b'"a":"\\ud800"', {"a": "\ud800"}),
        (b'"a":1e999', {"a": float("inf")}),
    ],
)
def test_a_body_that_two_receivers_may_read_differently_is_left_alone(
    member: bytes, value: dict[str, Any]
) -> None:
    raw = orjson.dumps(_request())[:-1] + b"," + member + b"}"
    assert hinted(raw, _request() | value, "messages", None, KEYS.of(Namespace("team"))) == raw


def test_a_body_with_white_space_and_numbers_of_all_kinds_keeps_its_values() -> None:
    numbers = {"a": 1, "b": 1.0, "c": -0.5, "d": 1e300, "e": 18446744073709551615, "f": None, "g": "\x7f é 𝄞"}
    body = _request(metadata=numbers)
    raw = orjson.dumps(body, option=orjson.OPT_INDENT_2)
    marked = orjson.loads(hinted(raw, body, "messages", None, KEYS.of(Namespace("team"))))
    assert repr(marked["metadata"]) == repr(numbers)
    assert len(_places(marked)) == 4


@pytest.mark.parametrize(
    ("model", "tokens"),
    [
        # platform.claude.com/docs/en/build-with-claude/prompt-caching
        ("claude-opus-5", 512),
        ("claude-opus-4-8", 1024),
        ("claude-sonnet-4-5-20250929", 1024),
        ("claude-opus-4-20250514", 1024),
        ("claude-opus-4-7", 2048),
        ("claude-opus-4-5", 4096),
        ("claude-haiku-4-5-20251001", 4096),
        ("claude-3-5-haiku-latest", 2048),
        # the same models elsewhere
        ("us.anthropic.claude-sonnet-4-6-v1:0", 1024),
        ("anthropic/claude-opus-4.7", 2048),
        ("claude-sonnet-4-5@20250929", 1024),
        # not in the table: no other model's minimum
        ("claude-opus-5-5", 4096),
        ("claude-opus-50", 4096),
        ("MiniMax-M2.5", 4096),
        ("", 4096),
    ],
)
def test_each_model_has_its_own_minimum_and_an_unknown_one_the_largest(model: str, tokens: int) -> None:
    assert min_tokens(model) == tokens


@pytest.mark.parametrize("dialect", ["count_tokens", "completions", "embeddings", "of_next_year"])
def test_other_dialects_are_left_alone(dialect: str) -> None:
    for body in (_request(), _chat()):
        assert _hint(body, dialect) == body


def _chat(**changes: Any) -> dict[str, Any]:
    return {
        "model": "gpt-5",
        "messages": [{"role": "system", "content": LONG}, {"role": "user", "content": "Hi"}],
        **changes,
    }


def _key(body: dict[str, Any], session: str | None = None, dialect: str = "chat") -> Any:
    return _hint(body, dialect, session).get("prompt_cache_key")


def test_a_chat_request_gets_a_key_behind_its_own_bytes() -> None:
    raw = orjson.dumps(_chat(), option=orjson.OPT_INDENT_2) + b"\n"
    result = hinted(raw, _chat(), "chat", "s1", lambda material: "k")
    assert result == raw[:-2] + b',"prompt_cache_key":"k"}\n'


def test_the_key_is_that_of_the_conversation_where_it_is_known() -> None:
    one, other = _chat(), _chat(messages=[{"role": "user", "content": LONG}])
    assert _key(one, "s1") == _key(other, "s1") is not None
    assert _key(one, "s1") != _key(one, "s2")
    assert _key(one, "s1") != _key(one)


def test_the_key_is_else_that_of_tools_and_system_prompt() -> None:
    said = [
        *_chat()["messages"],
        {"role": "assistant", "content": "Hello"},
        {"role": "user", "content": "Bye"},
    ]
    assert _key(_chat()) == _key(_chat(messages=said, temperature=0)) is not None
    other = [{"role": "system", "content": LONG + "."}, {"role": "user", "content": "Hi"}]
    assert _key(_chat(messages=other)) != _key(_chat())
    assert _key(_chat(tools=[{"type": "function", "function": {"name": "f"}}])) != _key(_chat())


def test_without_session_tools_and_system_prompt_there_is_no_key() -> None:
    assert _key(_chat(messages=[{"role": "user", "content": LONG}])) is None
    assert _key({"model": "gpt-5", "input": LONG}, dialect="responses") is None


def test_a_prompt_below_1024_tokens_gets_no_key() -> None:
    # 4,096 bytes at four to the token; the role "system" is 6 of them.
    assert _key(_chat(messages=[{"role": "system", "content": "x" * 4_089}]), "s") is None
    assert _key(_chat(messages=[{"role": "system", "content": "x" * 4_090}]), "s") is not None
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 9_000}}
    assert _key(_chat(messages=[{"role": "user", "content": [image]}]), "s") is None


@pytest.mark.parametrize(
    "changes",
    [
        {"prompt_cache_key": "mine"},
        {"prompt_cache_key": None},
        {"prompt_cache_retention": "24h"},
        {"prompt_cache_options": {"mode": "explicit"}},
        {"previous_response_id": "resp_1"},
        {"conversation": "conv_1"},
        {"prompt": {"id": "pmpt_1"}},
    ],
)
def test_a_client_with_hints_or_state_of_its_own_gets_no_key(changes: dict[str, Any]) -> None:
    for dialect in ("chat", "responses"):
        body = _chat(instructions=LONG, input="Hi", **changes)
        assert _hint(body, dialect, "s") == body


def test_a_responses_request_gets_a_key_by_its_instructions() -> None:
    body = {"model": "gpt-5", "instructions": LONG, "input": "Hi"}
    assert _key(body, dialect="responses") == _key(body | {"input": "Bye"}, dialect="responses") is not None
    assert _key(body, dialect="responses") != _key(body | {"instructions": LONG + "."}, dialect="responses")
    items = [{"role": "developer", "content": LONG}, {"role": "user", "content": "Hi"}]
    assert _key({"model": "gpt-5", "input": items}, dialect="responses") is not None


def test_keys_are_short_and_differ_by_namespace_and_secret() -> None:
    spaces = [("a", b"bc"), ("ab", b"c"), ("abc", b""), ("", b"abc")]
    keys = {RoutingKeys(secret).of(Namespace(n))(m) for secret in (b"1" * 32, b"2" * 32) for n, m in spaces}
    assert len(keys) == 8
    assert all(0 < len(key) <= MAX_KEY_CHARACTERS and key.isalnum() for key in keys)
    assert RoutingKeys(b"1" * 32).of(Namespace("a"))(b"m") == RoutingKeys(b"1" * 32).of(Namespace("a"))(b"m")


@pytest.mark.parametrize("key", ["", "x" * (MAX_KEY_CHARACTERS + 1), "\ud800"])
def test_a_key_that_the_provider_would_refuse_is_not_sent(key: str) -> None:
    raw = orjson.dumps(_chat())
    assert hinted(raw, _chat(), "chat", "s", lambda material: key) == raw
