"""`/admin/analyze` says what a scripted load was: its counts are those of the script, added up by hand."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from support.scripted_upstream import Exchange, ScriptedUpstream
from support.served import Served, served

PRICES = """prices:
  gpt-4o: {input: 2, output: 8, cached_input: 0.5}
  dear-1: {input: 100, output: 100, cached_input: 10}
"""
REPLY_USAGE = {"prompt_tokens": 1000, "completion_tokens": 10, "total_tokens": 1010}


async def answer(exchange: Exchange) -> None:
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "gpt-4o",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}
        ],
        "usage": REPLY_USAGE,
    }
    raw = json.dumps(body).encode()
    await exchange.head(200, {"content-type": "application/json", "content-length": str(len(raw))})
    await exchange.send(raw)


@pytest.fixture
async def gateway(tmp_path: Path, upstream: ScriptedUpstream) -> AsyncIterator[Served]:
    upstream.script = answer
    prices = tmp_path / "prices.yaml"
    prices.write_text(PRICES)
    async with served(tmp_path / "data", [upstream.url], savings__prices_file=prices) as running:
        yield running


def agent_turn(system: str, *turns: str, session: str = "s1") -> dict[str, Any]:
    messages = [{"role": "system", "content": system}]
    for i, text in enumerate(turns):
        messages.append({"role": "user" if i % 2 == 0 else "assistant", "content": text})
    return {"model": "gpt-4o", "messages": messages, "prompt_cache_key": session}


async def analysed(gateway: Served, time_range: str = "last 1h") -> Any:
    answered = await gateway.get(f"/admin/analyze?time_range={time_range.replace(' ', '+')}")
    assert answered.status == 200, answered.body
    return answered.json()


async def test_a_scripted_load_is_told_as_it_was(gateway: Served) -> None:
    for prompt in ("one", "two", "one", "one", "two"):  # two misses, three hits
        assert (await gateway.ask(agent_turn("Be brief.", prompt))).status == 200
    await gateway.ask(agent_turn("Be brief.", "one"), headers={"cache-control": "no-store"})
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
    await gateway.ask({**agent_turn("Be brief.", "three"), "tools": tools})
    found = await analysed(gateway)
    assert found["requests"]["outcomes"] == {"exact": 4, "miss": 2, "bypass": 1}
    assert found["requests"]["bypasses"] == {"tools": 1}
    assert found["hit_ratio"]["result"] == {
        "ratio": 0.6667, "num_hits": 4, "num_lookups": 6, "before": None, "num_lookups_before": 0, "change": None,
    }  # fmt: skip
    # 2 × (1,000 × $2 + 10 × $8) a million.
    (new,) = found["misses"]
    assert new == {"reason": "new", "num": 2, "share": 1.0, "computed_tokens": 2020, "spent_usd": 0.00416}
    top = found["top_prompts"][0]
    assert (top["num_asked"], top["tokens"], top["last_outcome"]) == (4, 4 * 1010, "exact")
    assert {row["layer"]: row["layer_saved_tokens"] for row in found["memory"]}["result"] == 4 * 1010
    while "lookup" not in found["latency"]:  # the history takes figures in once a second
        found = await analysed(gateway)
    assert found["latency"]["lookup"]["result"]["num"] == 6
    assert [step["step"] for step in found["diagnosis"]] == [1, 2, 3, 4, 5]


async def test_a_broken_prefix_is_the_first_finding_with_its_cause_and_its_price(gateway: Served) -> None:
    rules = " ".join(f"Rule {i}: be exact and kind." for i in range(400))
    history = ("hello", "yes")
    await gateway.ask(agent_turn(f"Current time: 2026-11-30 10:00\n{rules}", *history[:1]))
    await gateway.ask(agent_turn(f"Current time: 2026-11-30 10:01\n{rules}", *history, "and now?"))
    found = await analysed(gateway)
    (cause,) = found["prefixes"]["causes"]
    assert (cause["cause"], cause["num"]) == ("date", 1)
    first = found["findings"][0]
    assert (first["id"], first["about"]) == ("prefix_break", "date")
    place, cost = first["said"]
    assert place["values"]["what"] == {
        "code": "label.in_system",
        "values": {"what": {"code": "label.heading", "values": {"name": "Current time"}}},
    }
    assert cost == {"code": "finding.prefix_break_cost", "values": {"n": 1, "lost_tokens": first["tokens"]}}
    assert first["advised"] == [{"code": "fix.date", "values": {}}]
    assert cause["said"] == [place["values"]["what"]]
    last = (await gateway.get("/admin/prefixes")).json()["breaks"][0]
    row = (await gateway.get("/admin/requests")).json()["requests"][0]["prefix_break"]
    assert last["said"] == row["said"] == cause["said"]
    # The prompt is 1,000 tokens by the upstream's own count, and all but its head was computed again.
    assert 900 < first["tokens"] <= 1000
    # What is cached costs $0.50 a million instead of $2.
    assert first["usd"] == pytest.approx(first["tokens"] * 1.5e-6, abs=1e-6)
    assert "10:01" not in json.dumps(found)


async def test_a_dear_models_break_goes_before_a_cheap_ones_with_more_tokens(gateway: Served) -> None:
    rules = " ".join(f"Rule {i}: be exact and kind." for i in range(400))
    for model, heads in (
        ("gpt-4o", ["Session ID: 0001-aaaa", "Session ID: 0002-aaaa", "Session ID: 0003-aaaa"]),
        ("dear-1", ["Current time: 2026-11-30 10:00", "Current time: 2026-11-30 10:01"]),
    ):
        turns: tuple[str, ...] = ("hello",)
        for head in heads:
            await gateway.ask({**agent_turn(f"{head}\n{rules}", *turns, session=model), "model": model})
            turns = (*turns, "yes", "and now?")
    found = await analysed(gateway)
    breaks = [row for row in found["findings"] if row["id"] == "prefix_break"]
    assert [row["about"] for row in breaks] == ["date", "id"]
    assert breaks[0]["tokens"] < breaks[1]["tokens"]
    assert breaks[0]["usd"] == pytest.approx(breaks[0]["tokens"] * 90e-6, abs=1e-6)
    assert breaks[1]["usd"] == pytest.approx(breaks[1]["tokens"] * 1.5e-6, abs=1e-6)


async def test_without_a_history_what_can_be_told_is_told(tmp_path: Path, upstream: ScriptedUpstream) -> None:
    async with served(tmp_path / "data", [upstream.url], observe__history=False) as gateway:
        assert set(await analysed(gateway)) == {"time_range", "semantic"}


@pytest.mark.parametrize("text", ["last week and a bit", "last 0m", "2026-11-30/2026-11-29"])
async def test_a_time_that_is_none_is_refused_by_name(gateway: Served, text: str) -> None:
    answered = await gateway.get(f"/admin/analyze?time_range={text.replace(' ', '+')}")
    assert answered.status == 400
    assert answered.json()["error"]["param"] == "time_range"
