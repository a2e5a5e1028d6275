"""Rules of the hints over random bodies: nothing but hints is added, and nothing fails."""

from __future__ import annotations

import copy
import json
from typing import Any

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw_cache.gateway.cache_hints import RoutingKeys, hinted
from openclaw_cache.types import Namespace

KEY_OF = RoutingKeys(b"s" * 32).of(Namespace("team"))
EPHEMERAL = {"type": "ephemeral"}
LONG = "word " * 4_000

_text = st.sampled_from(["", " ", "a", "é\n", LONG])
_block = st.one_of(
    st.builds(lambda text: {"type": "text", "text": text}, _text),
    st.just({"type": "thinking", "thinking": "x", "signature": "y"}),
    st.builds(lambda text: {"type": "tool_use", "id": "t", "name": "n", "input": {"x": text}}, _text),
    st.builds(lambda text: {"type": "tool_result", "tool_use_id": "t", "content": text}, _text),
    st.just({"type": "image", "source": {"type": "base64", "data": "AAAA"}}),
)
_content = st.one_of(_text, st.lists(_block, max_size=30))
_tool = st.builds(
    lambda name, text, later: (
        {"name": name, "description": text, "input_schema": {}} | ({"defer_loading": True} if later else {})
    ),
    st.sampled_from(["a", "b"]),
    _text,
    st.booleans(),
)
_roles = st.sampled_from(["user", "assistant", "system"])
_messages = st.lists(
    st.builds(lambda role, content: {"role": role, "content": content}, _roles, _content), max_size=8
)
_model = st.sampled_from(["claude-opus-5", "claude-opus-4-5", "other"])
_requests = st.fixed_dictionaries(
    {"model": _model, "messages": _messages},
    optional={"tools": st.lists(_tool, max_size=3), "system": _content, "max_tokens": st.integers(0, 9)},
)
_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=5) | _text,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=3) | st.just("cache_control"), inner, max_size=3)
    ),
    max_leaves=8,
)  # fmt: skip
_members = st.sampled_from(
    [
        "model",
        "messages",
        "tools",
        "system",
        "input",
        "instructions",
        "functions",
        "role",
        "content",
        "prompt_cache_key",
    ]
)
_bodies = st.dictionaries(_members, _json | _messages | st.just(LONG), max_size=6)
_dialects = st.sampled_from(["messages", "chat", "responses", "completions", "count_tokens"])


def _without_markers(marked: Any, original: Any) -> tuple[Any, int]:
    """The value without the breakpoints, and how many there were. A block made of a text becomes that text."""
    if isinstance(original, str) and isinstance(marked, list):
        assert marked == [{"type": "text", "text": original, "cache_control": EPHEMERAL}]
        return original, 1
    if isinstance(original, list):
        parts = [_without_markers(m, o) for m, o in zip(marked, original, strict=True)]
        return [value for value, _ in parts], sum(count for _, count in parts)
    if isinstance(original, dict):
        kept = dict(marked)
        count = 0 if kept.pop("cache_control", None) is None else 1
        assert list(kept) == list(original)
        members = {name: _without_markers(kept[name], original[name]) for name in original}
        return {name: value for name, (value, _) in members.items()}, count + sum(
            n for _, n in members.values()
        )
    return marked, 0


@given(_requests)
@settings(max_examples=200, deadline=None)
def test_a_request_without_its_breakpoints_is_what_the_client_sent(body: dict[str, Any]) -> None:
    raw, before = orjson.dumps(body), copy.deepcopy(body)
    result = hinted(raw, body, "messages", None, KEY_OF)
    assert body == before
    value, count = _without_markers(orjson.loads(result), body)
    assert value == body
    assert count <= 4
    assert (result == raw) == (count == 0)


@given(_requests)
@settings(max_examples=100, deadline=None)
def test_hints_are_not_added_twice(body: dict[str, Any]) -> None:
    once = hinted(orjson.dumps(body), body, "messages", None, KEY_OF)
    assert hinted(once, orjson.loads(once), "messages", None, KEY_OF) == once


@given(st.lists(st.tuples(_content, _content), min_size=2, max_size=5))
@settings(max_examples=100, deadline=None)
def test_each_turn_finds_the_breakpoint_of_the_turn_before(turns: list[tuple[Any, Any]]) -> None:
    def last_marker(messages: list[Any]) -> set[tuple[int, int]]:
        body = {"model": "claude-opus-5", "system": LONG, "messages": messages}
        value = orjson.loads(hinted(orjson.dumps(body), body, "messages", None, KEY_OF))
        return {
            (i, j)
            for i, message in enumerate(value["messages"])
            if isinstance(message["content"], list)
            for j, block in enumerate(message["content"])
            if "cache_control" in block
        }

    messages: list[Any] = []
    left: set[tuple[int, int]] = set()
    for asked, replied in turns:
        messages = [*messages, {"role": "user", "content": asked}]
        places = last_marker(messages)
        assert left <= places
        left = {place for place in places if place[0] == len(messages) - 1}
        messages = [*messages, {"role": "assistant", "content": replied}]


@given(_bodies, _dialects, st.none() | st.just("s"), st.booleans())
@settings(max_examples=300, deadline=None)
def test_no_body_makes_it_fail_and_none_is_changed_but_by_a_hint(
    body: dict[str, Any], dialect: str, session: str | None, ascii_only: bool
) -> None:
    raw = json.dumps(body, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    result = hinted(raw, body, dialect, session, KEY_OF)
    if dialect in {"chat", "responses"} and result != raw:
        added = result[len(raw) - 1 :]
        assert raw[:-1] + added == result
        assert list(json.loads(b"{" + added[1:])) == ["prompt_cache_key"]
    elif dialect not in {"chat", "responses", "messages"}:
        assert result == raw
    elif result != raw:
        assert _without_markers(orjson.loads(result), body)[0] == body
