"""What the doctor counts, against arithmetic by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest

from openclaw_cache.dialects.usage import Usage
from openclaw_cache.doctor.cache_rules import CACHE_RULES, CacheRules, vendor_of
from openclaw_cache.doctor.diagnosis import Diagnosis
from openclaw_cache.doctor.pauses import Pauses
from openclaw_cache.observe.prices import Prices
from openclaw_cache.request_logs.logged_request import LoggedRequest

RULES = {rule.name: rule for rule in CACHE_RULES}
TEXT = " ".join(f"Rule {i}: say what was done in step {i}, and keep the code simple." for i in range(120))


def request(body: dict[str, Any], **fields: Any) -> LoggedRequest:
    told = {"api": "chat", "headers": [], "session": "s", "model": body.get("model", "")} | fields
    return LoggedRequest(body=body, **told)


def chat(system: str, num_turns: int, **fields: Any) -> dict[str, Any]:
    roles = ("user", "assistant")
    history = [
        {"role": roles[i % 2], "content": f"message {i} about the harbour"} for i in range(2 * num_turns + 1)
    ]
    return {"model": "gpt-5", "messages": [{"role": "system", "content": system}, *history], **fields}


def diagnosed(*requests: LoggedRequest) -> dict[str, Any]:
    diagnosis = Diagnosis(Prices.load())
    for one in requests:
        diagnosis.add(one)
    return diagnosis.as_json(limit=None, with_text=True)


# What caches count.


@pytest.mark.parametrize(
    ("cache", "model", "kept", "cached"),
    [
        ("OpenAI", "gpt-5", 1023, 0),
        ("OpenAI", "gpt-5", 1024, 1024),
        ("OpenAI", "gpt-5", 1300, 1280),  # 10 steps of 128
        ("Anthropic", "claude-sonnet-4-6", 1023, 0),
        ("Anthropic", "claude-sonnet-4-6", 1025, 1025),
        ("Anthropic", "claude-haiku-4-5-20251001", 4095, 0),
        ("this server's engine, vLLM", "m", 15, 0),
        ("this server's engine, vLLM", "m", 1000, 992),  # 62 blocks of 16
        ("SGLang", "m", 1000, 1000),
    ],
)
def test_a_kept_prefix_counts_as_its_cache_counts_it(cache: str, model: str, kept: int, cached: int) -> None:
    assert RULES[cache].cached(model, kept) == cached


@pytest.mark.parametrize(
    ("model", "api", "vendor"),
    [
        ("anthropic/claude-sonnet-4-6", "chat", "anthropic"),
        ("any-name", "messages", "anthropic"),
        ("openai/gpt-5", "chat", "openai"),
        ("o3-mini", "responses", "openai"),
        ("qwen3-32b", "chat", "any"),
        ("openclaw-model", "chat", "any"),
    ],
)
def test_the_vendor_is_told_by_api_and_name(model: str, api: str, vendor: str) -> None:
    assert vendor_of(request({"model": model}, api=api)) == vendor


def test_rules_of_other_vendors_do_not_count() -> None:
    rules = CacheRules()
    rules.count(request({"model": "gpt-5"}), 1300)
    rules.count(request({"model": "qwen"}), 100)
    rows = {row["cache"]: row for row in rules.as_json()}
    assert set(rows) == {"OpenAI", "this server's engine, vLLM", "SGLang"}
    assert (rows["OpenAI"]["num_prefixes"], rows["OpenAI"]["rounded_off_tokens"]) == (1, 20)
    vllm = rows["this server's engine, vLLM"]
    assert (vllm["num_prefixes"], vllm["kept_tokens"], vllm["cached_tokens"]) == (2, 1400, 1296 + 96)


def test_requests_to_anthropic_without_a_mark_are_counted() -> None:
    rules = CacheRules()
    marked = {
        "model": "claude",
        "system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}],
    }
    rules.count_marks(request(marked, api="messages"))
    rules.count_marks(request({"model": "claude", "messages": []}, api="messages"))
    rules.count_marks(request({"model": "gpt", "messages": []}))
    assert (rules.num_unmarked, rules.num_anthropic) == (1, 2)


def test_pauses_count_by_the_lifetimes_they_outlast() -> None:
    pauses = Pauses()
    for earlier, later in ((0.0, 300.0), (0.0, 301.0), (0.0, 4000.0), (None, 5.0)):
        pauses.count(earlier, later, 10)
    shown = pauses.as_json()
    assert shown["num_known"] == 3
    assert [(row["num"], row["kept_tokens"]) for row in shown["pauses"]] == [(2, 20), (1, 10)]


# What is found.


def test_a_stable_session_has_no_finding_and_keeps_everything() -> None:
    shown = diagnosed(*(request(chat(TEXT, turn)) for turn in range(5)))
    assert (shown["findings"], shown["between_sessions"]) == ([], [])
    assert (shown["num_compared"], shown["kept_ratio"], shown["num_lineages"]) == (4, 1.0, 1)


def test_tokens_and_money_are_by_what_the_replies_counted() -> None:
    # Every prompt is counted as 1,000 tokens: nearly all are behind the clock, at 1.25 - 0.125 $ a million.
    bodies = [chat(f"Current time: 10:0{i}\n{TEXT}", 1) for i in range(3)]
    shown = diagnosed(*(request(body, usage=Usage(1000, 5)) for body in bodies))
    (found,) = shown["findings"]
    assert (found["cause"], found["num"]) == ("date", 2)
    assert 1960 < found["lost_tokens"] < 2000
    assert found["lost_usd"] == pytest.approx(found["lost_tokens"] * 1.125e-6, rel=1e-6)
    assert shown["num_estimated"] == 0


def test_two_lines_of_prompts_in_turns_cost_one_slot_and_not_a_tree() -> None:
    tool = {"type": "function", "function": {"name": "run", "description": "d " * 200, "parameters": {}}}
    bodies = [chat(TEXT, turn) | ({"tools": [tool]} if turn % 2 else {}) for turn in range(6)]
    shown = diagnosed(*(request(body) for body in bodies))
    # Of five steps each breaks; a tree lacks only the first of the two with the tool.
    assert shown["num_breaks"] == 5
    by_cause = {one["cause"]: one for one in shown["findings"]}
    assert set(by_cause) == {"tool_added", "tool_missing"}
    assert (by_cause["tool_missing"]["num"], by_cause["tool_missing"]["lost_tokens_with_tree"]) == (2, 0)
    assert by_cause["tool_added"]["lost_tokens_with_tree"] == pytest.approx(
        by_cause["tool_added"]["lost_tokens"] / 3, rel=0.05
    )
    assert shown["kept_ratio"] < 0.01 < 0.7 < shown["kept_ratio_with_tree"]
    assert shown["num_lineages"] == 2


def test_what_a_level_of_the_canonicaliser_would_keep_is_told() -> None:
    def body(turn: int) -> dict[str, Any]:
        line = f"x-anthropic-billing-header: cc_version=2.1.37.fbe; cc_entrypoint=cli; cch={turn:05x};"
        system = [{"type": "text", "text": text} for text in (line, TEXT)]
        return {"model": "claude-opus-4-5", "system": system, "messages": chat("", turn)["messages"][1:]}

    shown = diagnosed(*(request(body(turn), api="messages") for turn in range(3)))
    (found,) = shown["findings"]
    assert found["cause"] == "billing_header"
    for level in ("safe", "full"):
        assert found["canonical"][level] >= 0.97 * found["lost_tokens"]
        assert shown["kept_ratio_canonical"][level] > 0.97
    assert shown["kept_ratio"] < 0.05


def test_findings_come_in_order_of_cost_with_the_worst_place() -> None:
    requests = [request(chat(f"Current time: 10:0{i}\n{TEXT}", i, model="gpt-5")) for i in range(4)]
    later = [chat(TEXT + f"\nToday's date is 2026-11-{10 + i}.", i + 8) for i in range(2)]
    cheap = [request(body, session="t") for body in later]
    shown = diagnosed(*requests, *cheap)
    first, second = shown["findings"]
    assert first["lost_usd"] > second["lost_usd"] > 0
    assert first["worst"]["pointer"] == "/messages/0/content"
    text = requests[3].body["messages"][0]["content"]
    assert first["worst"]["offset"] == text.index("10:03") + 4
    assert "10:0" in first["worst"]["before"]
    assert json.dumps(shown)


def test_a_transcript_is_not_judged_by_prompts_it_does_not_show() -> None:
    history = chat("", 3)["messages"][1:]
    shown = diagnosed(*(request({"messages": history[: 2 * i + 1]}, is_whole=False) for i in range(3)))
    assert (shown["num_partial"], shown["findings"]) == (3, [])


def test_what_providers_measured_stands_beside_what_was_within_reach() -> None:
    bodies = [chat(TEXT, turn) for turn in range(3)]
    shown = diagnosed(*(request(body, usage=Usage(2000, 5, cached_tokens=100)) for body in bodies))
    measured = shown["measured"]
    assert (measured["num_told"], measured["prompt_tokens"], measured["cached_tokens"]) == (2, 4000, 200)
    assert 3800 < measured["kept_tokens"] < 4000


def test_two_sessions_that_differ_in_the_head_are_told_apart_from_breaks() -> None:
    shown = diagnosed(
        request(chat(f"Session: 0ce58e6f-5e7d-4f69-945a-2a6ccd3d2ebb\n{TEXT}", 1), session="one"),
        request(chat(f"Session: 5b1e58ff-5e7d-4f69-945a-2a6ccd3d2ebb\n{TEXT}", 1), session="two"),
    )
    assert (shown["num_breaks"], shown["findings"]) == (0, [])
    (found,) = shown["between_sessions"]
    assert (found["cause"], found["scope"]) == ("id", "between sessions")


def test_a_conversation_that_goes_on_with_another_model_keeps_nothing() -> None:
    first, second = chat(TEXT, 3), chat(TEXT, 4) | {"model": "gpt-5-mini"}
    told = diagnosed(request(first), request(second), request(chat(TEXT, 5) | {"model": "gpt-5-mini"}))
    (found,) = told["findings"]
    assert (found["cause"], found["num"], found["worst"]["pointer"]) == ("identity", 1, "/model")
    assert found["label"] == 'the model "gpt-5" is now "gpt-5-mini"'
    assert found["worst"]["kept_tokens"] == 0
    assert found["lost_tokens"] == found["lost_tokens_with_tree"] > len(TEXT) / 5


def test_a_side_task_of_a_session_may_have_a_model_of_its_own() -> None:
    title = chat(TEXT, 0) | {"model": "small"}
    title["messages"][1]["content"] = "Write a title."
    told = diagnosed(request(chat(TEXT, 3)), request(title), request(chat(TEXT, 4)))
    assert told["findings"] == []
