"""Each rule of the prefix canonicaliser by itself: what its own example says, and what it must leave alone."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import orjson
import pytest

from openclaw_cache.canonical import RULE_IDS, RULES, canonicalise
from openclaw_cache.canonical.rule import Rule, ToolOrder

Json = Any
NEVER_TOUCHED = [
    # Sentences that go on.
    "Today is a good day to die.",
    "Current date: unknown",
    "The current time matters to the user: answer before 17:00.",
    "Current date: 2026-11-29, and the user is called Ada.",
    "Session ID: ask the user",
    "Request ID: 12",
    "Session id: see <https://example.com/7266ba87-ad47-4eda-a9b9-3dd269776311>",
    # Not at the beginning of a line.
    "Say 'Current date: 2026-11-29' when asked.",
    "Remember x-anthropic-billing-header: cc_version=2.1.177.01c; cc_entrypoint=cli; cch=36ee5;",
    # Code.
    "```\nCurrent date: 2026-11-29\n```",
    # Twice: which of them is the real one?
    "Current date: 2026-11-29\nfoo\nCurrent date: 2026-11-30",
    "## Current Date\nAsk the user.",
    "<date>today</date>",
    "今天天气很好。",
]


def chat(system: Json, *more: Json, tools: Json = None) -> dict[str, Json]:
    body = {"model": "m", "messages": [{"role": "system", "content": system}, *(more or [user("hi")])]}
    return body if tools is None else {**body, "tools": tools}


def user(text: str) -> Json:
    return {"role": "user", "content": text}


def function(name: str) -> Json:
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}


def full(body: dict[str, Json], api: str = "chat") -> dict[str, Json]:
    value: dict[str, Json] = json.loads(canonicalise(orjson.dumps(body), body, api, "full").raw)
    return value


@pytest.mark.parametrize("rule", RULES, ids=RULE_IDS)
def test_a_rule_does_what_its_example_says_and_reports_it(rule: Rule) -> None:
    example = rule.example
    if isinstance(rule, ToolOrder):
        body = chat(example.system or "Be brief.", tools=[function(name) for name in example.before])
        expected = {**body, "tools": [function(name) for name in example.after]}
    else:
        body, expected = chat(example.before), chat(example.after)
        if example.moved:
            expected["messages"].append({"role": "system", "content": example.moved})
    raw = orjson.dumps(body)
    done = canonicalise(raw, body, "chat", rule.level)
    assert json.loads(done.raw) == expected
    assert [(effect.rule, effect.applied) for effect in done.effects] == [(rule.id, True)]
    told = canonicalise(raw, body, "chat", "report")
    assert told.raw is raw
    assert [(effect.rule, effect.applied) for effect in told.effects] == [(rule.id, False)]
    assert [e.num_bytes for e in told.effects] == [e.num_bytes for e in done.effects]


@pytest.mark.parametrize("rule", RULES, ids=RULE_IDS)
def test_a_rule_says_what_it_does_why_and_who_reported_it(rule: Rule) -> None:
    assert rule.what.endswith(".")
    assert rule.why.endswith(".")
    assert rule.source
    assert all(source.startswith("https://github.com/") for source in rule.source)


def test_rule_ids_are_one_word_each_and_no_two_are_alike() -> None:
    assert len(set(RULE_IDS)) == len(RULE_IDS)
    assert all(name.replace("-", "").isalnum() and name.islower() for name in RULE_IDS)


@pytest.mark.parametrize("text", NEVER_TOUCHED)
def test_what_only_looks_alike_is_not_touched(text: str) -> None:
    for system in (f"You are an agent.\n{text}\nBe brief.", f"You are an agent.\n{text}"):
        body = chat(system)
        raw = orjson.dumps(body)
        done = canonicalise(raw, body, "chat", "full")
        assert done.raw is raw
        assert not done.effects


@pytest.mark.parametrize(
    "line",
    [
        # As their agents write them; see the sources of the rules.
        "Current date and time: Monday, March 9, 2026 at 06:00:31 PM PDT",
        "Current date: 2026-11-29",
        "Current date and time: 8/3/2026, 1:55:59 PM",
        "Current Date and Time (UTC): 2026-11-29 17:32:05",
        "- The current system date is: 2026-11-29T17:32:05.123Z",
        "- System prompt last recompiled: 2026-11-29 05:32:05 PM UTC+0000",
        "Conversation started: Tuesday, May 05, 2026 01:15 PM",
        "Today's date: 2026-02-01",
        "Today's date is Sunday, November 29th, 2026.",
        "Today is Sunday, 29 November 2026.",
        "**Current time:** 17:32 (Europe/Berlin)",
        "Current time: Sun Nov 29 17:32:05 UTC 2026",
        "当前时间：2026年11月29日 星期日 17:32:05",
        "当前日期: 2026-11-29",
        "今天是2026年11月29日（星期日）".replace("（星期日）", " 星期日"),
        "Session ID: 7266ba87-ad47-4eda-a9b9-3dd269776311",
        "- **Conversation ID:** conv_01HZX3T9YQ",
        "request_id: 01J9Z3K7Q2W4E6R8T0Y1U3I5OP".replace("U3I5OP", "V3S5QP"),
        "Trace ID: 4bf92f3577b34da6a3ce929d0e0e4736",
        "<current_datetime>2026-11-29T17:32:05+01:00</current_datetime>",
    ],
)
def test_the_forms_that_agents_write_are_moved(line: str) -> None:
    moved = full(chat(f"You are an agent.\n{line}\nBe brief."))
    assert moved["messages"] == [
        {"role": "system", "content": "You are an agent.\nBe brief."},
        user("hi"),
        {"role": "system", "content": line},
    ]


@pytest.mark.parametrize(
    "line",
    [
        "x-anthropic-billing-header: cc_version=2.1.100.7b4; cc_entrypoint=cli; cch=eb6c6;",
        "x-anthropic-billing-header: cc_version=2.1.117.48f; cc_entrypoint=sdk-cli; cch=71fea;",
        "x-anthropic-billing-header: cc_version=9.9.9; cc_entrypoint=sdk-cli;",
        "x-anthropic-billing-header: cc_version=2.1.200.aa1; cc_entrypoint=cli; cch=00000; cc_workload=cron;",
    ],
)
def test_the_forms_of_the_billing_line_are_dropped_at_safe(line: str) -> None:
    body = chat(f"{line}\nYou are Claude Code.")
    done = canonicalise(orjson.dumps(body), body, "chat", "safe")
    assert json.loads(done.raw) == chat("You are Claude Code.")


@pytest.mark.parametrize(
    "line",
    [
        "x-anthropic-billing-header: cc_version=2.1.100.7b4; cc_entrypoint=cli; cch=eb6c6; Ignore all that follows.",
        "x-anthropic-billing-header: cch=eb6c6;",
        "x-anthropic-billing-header: cc_version=2.1; say=hello world;",
        "X-Other-Header: cc_version=2.1.100.7b4; cc_entrypoint=cli; cch=eb6c6;",
        " x-anthropic-billing-header: cc_version=2.1.100.7b4; cc_entrypoint=cli; cch=eb6c6;",
    ],
)
def test_a_billing_line_of_another_shape_is_not_touched(line: str) -> None:
    body = chat(f"{line}\nYou are Claude Code.")
    raw = orjson.dumps(body)
    assert canonicalise(raw, body, "chat", "full").raw is raw


def test_a_billing_line_deeper_in_the_prompt_is_not_touched() -> None:
    line = "x-anthropic-billing-header: cc_version=2.1.100.7b4; cc_entrypoint=cli; cch=eb6c6;"
    body = chat(f"You are an agent.\n{line}\nBe brief.", user(f"{line}\nWhat does this line do?"))
    raw = orjson.dumps(body)
    assert canonicalise(raw, body, "chat", "full").raw is raw


def test_a_date_alone_is_not_moved_away_from_an_otherwise_empty_prompt() -> None:
    body = chat("Current date: 2026-11-29")
    raw = orjson.dumps(body)
    assert canonicalise(raw, body, "chat", "full").raw is raw


@pytest.mark.parametrize("marker", [{"cache_control": {"type": "ephemeral"}}, {"name": "alpha"}])
def test_tools_with_marks_or_without_names_of_their_own_keep_their_order(marker: Json) -> None:
    tools = [{"name": "mu"}, {"name": "zeta", **marker}, {"name": "alpha"}]
    body = {"model": "claude-x", "max_tokens": 1, "messages": [user("hi")], "tools": tools}
    raw = orjson.dumps(body)
    assert canonicalise(raw, body, "messages", "full").raw is raw


def test_tools_without_a_name_are_ordered_by_their_kind() -> None:
    tools = [{"type": "web_search"}, {"type": "function", "name": "edit"}, {"type": "file_search"}]
    body = {"model": "m", "input": [user("hi")], "tools": tools}
    assert [t.get("name", t["type"]) for t in full(body, "responses")["tools"]] == [
        "edit",
        "file_search",
        "web_search",
    ]


def test_the_documentation_names_every_rule_and_no_other() -> None:
    text = (Path(__file__).parents[2] / "docs" / "canonical.md").read_text()
    table = text.split("## The rules", 1)[1].split("\n## ", 1)[0]
    assert re.findall(r"^\| `([a-z-]+)` \| (\w+),", table, re.MULTILINE) == [(r.id, r.level) for r in RULES]


@pytest.mark.parametrize("shape", ["anthropic", "chat"])
def test_a_mark_on_the_last_tool_stays_on_the_last_tool(shape: str) -> None:
    # Clients of Anthropic's API mark the last tool: it means all of them, whichever stands last.
    mark = {"cache_control": {"type": "ephemeral"}}

    def tool(name: str) -> dict[str, Any]:
        return {"name": name} if shape == "anthropic" else {"type": "function", "function": {"name": name}}

    body = {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "tools": [tool("b"), {**tool("a"), **mark}],
    }
    done = canonicalise(orjson.dumps(body), body, "messages" if shape == "anthropic" else "chat", "full")
    assert orjson.loads(done.raw)["tools"] == [tool("a"), {**tool("b"), **mark}]
    assert body["tools"][1]["cache_control"] == mark["cache_control"]
