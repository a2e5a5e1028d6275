"""Of any body: canonicalising never fails, settles at once, loses no text, and touches nothing but what it lists."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from openclaw_cache.canonical import RULE_IDS, canonicalise

Json = Any
BILLING = "x-anthropic-billing-header: cc_version=2.1.177.01c; cc_entrypoint=cli; cch=36ee5;"
PIECES = (
    BILLING,
    "<!-- openclaw:attempt:STABLE -->",
    "<!-- /openclaw:attempt:STABLE -->",
    "<!-- openclaw:attempt:DYNAMIC -->",
    "<!-- /openclaw:attempt:DYNAMIC -->",
    "Current date: 2026-11-29",
    "Current time: 17:32",
    "## Current Date & Time",
    "## Today",
    "Sunday, February 2, 2026, 6:47 PM (America/Los_Angeles)",
    "2026-02-02",
    "<current_date>2026-11-29</current_date>",
    "- CONVERSATION_ID: 7266ba87-ad47-4eda-a9b9-3dd269776311",
    "当前时间：2026年11月29日 17:32",
    "```",
    "You are an agent.",
    "Be brief 👋",
    "",
    " ",
)
prompts = st.lists(st.sampled_from(PIECES), max_size=8).map("\n".join) | st.text(max_size=20)
markers = st.sampled_from([{}, {}, {"cache_control": {"type": "ephemeral"}}])
blocks = st.builds(
    lambda text, kind, more: {"type": kind, "text": text, **more},
    prompts,
    st.sampled_from(["text", "input_text"]),
    markers,
)
contents = prompts | st.lists(blocks, max_size=3)
roles = st.sampled_from(["system", "developer", "user", "user", "assistant", "tool"])
messages = st.builds(lambda role, content: {"role": role, "content": content}, roles, contents)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)
tools = st.lists(
    st.builds(
        lambda name, more: {"name": name, **more},
        st.sampled_from(["read", "write", "openclaw", "a", "z", ""]),
        markers,
    ),
    max_size=5,
)
models = st.sampled_from(["m", "claude-opus-4-8", "claude-sonnet-4-5"])
conversations = st.builds(
    lambda first, rest: [*first, *rest], st.lists(messages, max_size=2), st.lists(messages, max_size=4)
)
bodies = st.fixed_dictionaries(
    {"model": models},
    optional={
        "messages": conversations,
        "input": conversations | prompts,
        "system": contents,
        "instructions": prompts,
        "tools": tools,
        "store": st.booleans(),
        "previous_response_id": st.just("resp_1"),
        "temperature": st.floats(0, 2),
        "odd": anything,
    },
)
odd_bodies = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(
        ("model", "messages", "input", "system", "instructions", "tools", "store"), anything
    ),
)
apis = st.sampled_from(["chat", "responses", "messages", "completions"])
levels = st.sampled_from(["safe", "full"])


def raw_of(body: Json) -> bytes:
    """As an SDK writes it, whatever is in it."""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def texts(value: Json) -> list[str]:
    """All strings in a value, names of members aside."""
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for item in inner for text in texts(item)]


def words(value: Json) -> Counter[str]:
    return Counter(word for text in texts(value) for word in text.split())


def outside_of_system(body: Json, api: str) -> Json:
    """What no rule may touch: everything but the leading system texts, the tools' order and one new message."""
    rest = {name: value for name, value in body.items() if name not in {"tools", "messages", "input"}}
    if api == "messages":
        rest.pop("system", None)
    if api == "responses":
        rest.pop("instructions", None)
    return rest


@given(bodies | odd_bodies, apis, st.sampled_from(["off", "report"]))
def test_off_and_report_return_the_very_bytes(body: Json, api: str, level: Any) -> None:
    raw = raw_of(body)
    done = canonicalise(raw, body, api, level)
    assert done.raw is raw
    assert not any(effect.applied for effect in done.effects)
    if level == "off":
        assert not done.effects


@given(bodies | odd_bodies, apis, levels)
def test_any_body_gives_json_and_is_itself_not_changed(body: Json, api: str, level: Any) -> None:
    raw, before = raw_of(body), repr(body)
    done = canonicalise(raw, body, api, level)
    assert repr(body) == before
    assert {effect.rule for effect in done.effects} <= set(RULE_IDS)
    assert all(effect.num_places > 0 and effect.num_bytes > 0 for effect in done.effects)
    assert (done.raw is raw) == (not any(effect.applied for effect in done.effects))
    if done.raw is not raw:
        json.loads(done.raw)


@given(bodies, apis, levels)
def test_what_is_canonical_already_stays(body: Json, api: str, level: Any) -> None:
    once = canonicalise(raw_of(body), body, api, level)
    again = canonicalise(once.raw, json.loads(once.raw), api, level)
    assert again.raw is once.raw
    assert not any(effect.applied for effect in again.effects)


@given(bodies, apis)
def test_full_moves_text_and_loses_none_but_what_safe_drops(body: Json, api: str) -> None:
    done = canonicalise(raw_of(body), body, api, "full")
    num_dropped = sum(e.num_places for e in done.effects if e.rule == "claude-code-billing" and e.applied)
    before, after = words(body), words(json.loads(done.raw))
    for word in BILLING.split():
        before[word] -= num_dropped
    # A new message or block has a role and a type of its own.
    more = after - before
    assert not (+before - after) - Counter({"text": 9, "input_text": 9, "system": 9, "developer": 9})
    assert set(more) <= {"text", "system", "developer", "input_text", "message"}
    assert sum(more.values()) <= 3


def unmarked(tool: Json) -> Json:
    return {name: value for name, value in tool.items() if name != "cache_control"}


@given(bodies, apis, levels)
def test_nothing_but_the_listed_places_changes(body: Json, api: str, level: Any) -> None:
    after = json.loads(canonicalise(raw_of(body), body, api, level).raw)
    assert outside_of_system(after, api) == outside_of_system(json.loads(raw_of(body)), api)
    tools, tools_after = (found.get("tools", []) for found in (body, after))
    # A mark on the last tool means all tools: it stays where it is, on whichever is last.
    assert [tool.get("cache_control") for tool in tools_after] == [
        tool.get("cache_control") for tool in tools
    ]
    assert sorted(map(repr, map(unmarked, tools_after))) == sorted(map(repr, map(unmarked, tools)))
    name = "input" if api == "responses" else "messages"
    other = "messages" if api == "responses" else "input"
    assert after.get(other) == body.get(other)
    before_talk, after_talk = body.get(name), after.get(name)
    if not isinstance(before_talk, list):
        assert after_talk == before_talk
        return
    # From the first message on that is nobody's system prompt, every message stays; at most one comes behind.
    heads = {"system", "developer"} if api != "messages" else set()
    first = next((i for i, m in enumerate(before_talk) if m["role"] not in heads), len(before_talk))
    kept = before_talk[first:]
    start = next((i for i, m in enumerate(after_talk) if m["role"] not in heads), len(after_talk))
    assert after_talk[start : start + len(kept)] == kept
    assert [m["role"] for m in after_talk[start + len(kept) :]] in ([], ["system"], ["developer"])


@given(
    st.lists(messages.filter(lambda m: m["role"] in {"user", "assistant", "tool"}), min_size=1, max_size=4),
    levels,
)
def test_no_marker_billing_line_or_date_of_anybody_else_is_touched(talk: list[Json], level: Any) -> None:
    body = {"model": "m", "messages": [{"role": "system", "content": "You are an agent."}, *talk]}
    raw = orjson.dumps(body)
    assert canonicalise(raw, body, "chat", level).raw is raw


@given(st.text(alphabet="Curent dae:0129-T \n\t(){}*#<>/日年月", max_size=150))
def test_lines_that_almost_are_dates_cost_no_more_than_others(text: str) -> None:
    body = {
        "messages": [
            {"role": "system", "content": f"Current date: {text}"},
            {"role": "user", "content": "hi"},
        ]
    }
    canonicalise(raw_of(body), body, "chat", "full")
