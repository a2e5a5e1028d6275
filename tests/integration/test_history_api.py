"""`/admin/history` and `/admin/savings` of a real gateway, with sums by hand, and the command `savings`."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from openclaw_cache.testing.valkey import running_valkey
from support.every_api import CHAT, MESSAGES, Api, answer_all, two_vendors
from support.scripted_upstream import ScriptedUpstream
from support.served import Served, served

PRICES = """
prices:
  gpt-*: {input: 2, output: 8, cached_input: 0.5}
  claude-*: {input: 3, output: 15, cached_input: 0.3, cache_write: 3.75}
"""


@pytest.fixture
async def gateway(tmp_path: Path, upstream: ScriptedUpstream) -> AsyncIterator[Served]:
    upstream.script = answer_all
    prices = tmp_path / "prices.yaml"
    prices.write_text(PRICES)
    async with served(
        tmp_path / "data", [], upstreams=two_vendors(upstream.url), savings__prices_file=prices
    ) as running:
        yield running


async def ask(gateway: Served, api: Api, agent: str, prompt: str = "question", **fields: Any) -> None:
    headers = {"x-openclaw-agent": agent}
    answer = await gateway.ask(api.body(prompt, **fields), path=api.path, headers=headers)
    assert answer.status == 200, answer.body


async def load(gateway: Served) -> None:
    """Chat: a miss, two hits, a bypass. Messages: a miss and a hit. An error."""
    for _ in range(3):
        await ask(gateway, CHAT, "heron")
    await ask(gateway, CHAT, "stork", tools=[{"type": "function", "function": {"name": "f"}}])
    for _ in range(2):
        await ask(gateway, MESSAGES, "=stork")
    assert (await gateway.ask(raw=b"{")).status == 400
    await asyncio.sleep(0.05)  # a record may follow its reply


async def shown(gateway: Served, path: str) -> Any:
    answer = await gateway.get(path)
    assert answer.status == 200, answer.body
    return answer.json()


async def test_points_and_their_sum_are_what_was_asked(gateway: Served) -> None:
    await load(gateway)
    found = await shown(gateway, "/admin/history?time_range=last%201h&points=60")
    total = found["total"]
    assert total["requests"] == {"miss": 2, "exact": 3, "bypass": 1, "error": 1}
    assert total["lookups"]["result"] == 5
    assert total["hits"] == {"result": 3}
    assert total["hit_ratio"] == {"result": 0.6, "semantic": None, "kv": None}
    assert total["misses"] == {"new": 2}
    assert total["bypasses"] == {"tools": 1}
    # Chat: 19 tokens of which 8 cached; twice forwarded. Messages: 2112 of which 2000 cached.
    assert total["prompt_tokens"] == {"computed": 2 * 11 + 112, "device": 2 * 8 + 2000}
    # A chat hit: 11 + 10; a messages hit: 12 + 33.
    assert total["saved_tokens"] == {"result": 2 * 21 + 45}
    # In millionths of a dollar: chat costs 106, messages 1506, a hit on it saves 1161.
    assert total["spent_usd"] == pytest.approx((2 * 106 + 1506) / 1e6)
    assert total["saved_usd"] == pytest.approx((2 * 106 + 1161) / 1e6)
    assert total["ttft_s"]["result"]["num"] == 3
    assert total["ttft_s"]["device"]["num"] == 3
    assert len(found["points"]) == 60
    assert found["step_s"] == 60
    assert found["num_nodes"] == 1
    assert found["is_complete"]
    for field in ("spent_usd", "saved_usd", "saved_s"):
        assert sum(point[field] for point in found["points"]) == pytest.approx(total[field])
    assert sum(sum(point["requests"].values()) for point in found["points"]) == 7


async def test_lines_by_agent_model_and_namespace_add_up_to_the_total(gateway: Served) -> None:
    await load(gateway)
    found = await shown(gateway, "/admin/history")
    agents = {line["name"]: line for line in found["by_agent"]}
    assert {name: line["num_requests"] for name, line in agents.items()} == {
        "heron": 3, "=stork": 2, "stork": 1, "unknown": 1,
    }  # fmt: skip
    assert agents["heron"]["saved_tokens"] == 42
    assert agents["heron"]["computed_tokens"] == 11
    assert agents["heron"]["upstream_cached_tokens"] == 8
    assert agents["=stork"]["saved_usd"] == pytest.approx(1161 / 1e6)
    for by in ("by_agent", "by_model", "by_namespace"):
        assert sum(line["num_requests"] for line in found[by]) == 7
        assert sum(line["saved_tokens"] for line in found[by]) == 87


async def test_the_ledger_is_exact_in_json_and_csv(gateway: Served) -> None:
    await load(gateway)
    by = "day,agent,model,upstream"
    found = await shown(gateway, f"/admin/savings?time_range=last%201d&by={by}")
    assert found["total"]["spent_picodollars"] == (2 * 106 + 1506) * 10**6
    assert found["total"]["saved_picodollars"] == (2 * 106 + 1161) * 10**6
    assert (found["total"]["num_requests"], found["total"]["num_priced"]) == (7, 6)
    answer = await gateway.get(f"/admin/savings?time_range=last%201d&by={by}&format=csv")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    rows = list(csv.DictReader(io.StringIO(answer.body.decode(), newline="")))
    today = time.strftime("%Y-%m-%d", time.gmtime())
    assert {(row["agent"], row["model"], row["upstream"]) for row in rows} == {
        ("heron", "gpt-heron", "oa"), ("stork", "gpt-heron", "oa"), ("'=stork", "claude-heron", "an"),
        ("unknown", "unknown", "unknown"),
    }  # fmt: skip
    assert {row["day"] for row in rows} <= {today, time.strftime("%Y-%m-%d", time.gmtime(time.time() - 60))}
    assert sum(Decimal(row["saved_usd"]) for row in rows) == Decimal("0.001373")
    [stork] = [row for row in rows if row["agent"] == "'=stork"]
    assert (stork["would_be_cached_tokens"], stork["answered_prompt_tokens"]) == ("2100", "2112")


async def test_history_savings_status_and_metrics_tell_the_same(gateway: Served) -> None:
    await load(gateway)
    history = (await shown(gateway, "/admin/history"))["total"]
    ledger = (await shown(gateway, "/admin/savings"))["total"]
    book = (await shown(gateway, "/admin/status"))["savings"]["total"]
    for field in ("computed_tokens", "upstream_cached_tokens", "would_be_cached_tokens", "num_priced"):
        assert ledger[field] == book[field]
    for field in ("spent_usd", "saved_usd"):
        assert ledger[field] == book[field] == history[field]
    saved = await gateway.metric('openclaw_cache_saved_tokens_total{layer="result"}')
    assert history["saved_tokens"]["result"] == ledger["result_saved_tokens"] == saved
    for outcome, num in history["requests"].items():
        text = (await gateway.get("/metrics")).body.decode()
        counted = sum(
            float(line.rpartition(" ")[2])
            for line in text.splitlines()
            if line.startswith("openclaw_cache_requests_total") and f'outcome="{outcome}"' in line
        )
        assert counted == num


async def test_a_hit_after_a_slow_miss_saves_about_its_seconds(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    async def slowly(exchange: Any) -> None:
        await asyncio.sleep(0.5)
        await answer_all(exchange)

    upstream.script = slowly
    async with served(tmp_path / "data", [], upstreams=two_vendors(upstream.url)) as gateway:
        for _ in range(3):
            await ask(gateway, CHAT, "heron")
        await asyncio.sleep(0.05)
        total = (await shown(gateway, "/admin/history"))["total"]
    # Two hits, each as the miss that was seen, less what they took themselves.
    assert 0.8 < total["saved_s"] <= 2 * 2.0


@pytest.mark.parametrize(
    ("path", "param"),
    [
        ("/admin/history?time_range=soon", "time_range"),
        ("/admin/history?points=0", "points"),
        ("/admin/history?points=1001", "points"),
        (f"/admin/history?points={'9' * 5000}", "points"),
        ("/admin/history?points=%D9%A3", "points"),
        ("/admin/history?steps=3", "steps"),
        ("/admin/history?points=3&points=4", "points"),
        ("/admin/savings?by=day,colour", "by"),
        ("/admin/savings?by=day,day", "by"),
        ("/admin/savings?format=xlsx", "format"),
        ("/admin/savings?time_range=2026-11-30/2026-11-01", "time_range"),
    ],
)
async def test_a_question_that_cannot_be_answered_is_told_which_field_is_wrong(
    gateway: Served, path: str, param: str
) -> None:
    answer = await gateway.get(path)
    assert answer.status == 400
    error = answer.json()["error"]
    assert error["param"] == param
    assert param in error["message"]


@pytest.mark.parametrize(
    "text", ["last 15m", "today", "最近1小时", "今天", "过去两天", "last 30d", "last 1000d"]
)
async def test_every_form_of_a_time_range_finds_what_was_just_now(gateway: Served, text: str) -> None:
    await ask(gateway, CHAT, "heron")
    for path in ("/admin/history", "/admin/savings"):
        async with gateway.session.get(gateway.url + path, params={"time_range": text}) as reply:
            found = await reply.json()
        assert reply.status == 200
        total = found["total"]
        num = total["num_requests"] if path.endswith("savings") else sum(total["requests"].values())
        assert num == 1, (path, text)


async def test_yesterday_has_nothing_of_today(gateway: Served) -> None:
    await ask(gateway, CHAT, "heron")
    for text in ("yesterday", "昨天", "2026-01-01/2026-01-31"):
        async with gateway.session.get(f"{gateway.url}/admin/savings", params={"time_range": text}) as reply:
            assert (await reply.json())["total"]["num_requests"] == 0


async def test_history_that_is_switched_off_says_so(tmp_path: Path, upstream: ScriptedUpstream) -> None:
    upstream.script = answer_all
    async with served(
        tmp_path / "data", [], upstreams=two_vendors(upstream.url), observe__history=False
    ) as gateway:
        await ask(gateway, CHAT, "heron")
        for path in ("/admin/history", "/admin/savings"):
            answer = await gateway.get(path)
            assert (answer.status, answer.json()["error"]["code"]) == (409, "history_off")
    assert not (tmp_path / "data" / "node").exists()


async def test_two_gateways_on_one_store_tell_the_same_sums(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    upstream.script = answer_all
    secret = tmp_path / "secret"
    secret.write_text("ab" * 32)
    secret.chmod(0o600)
    common: dict[str, Any] = {"upstreams": two_vendors(upstream.url), "server__secret_file": str(secret)}
    (tmp_path / "valkey").mkdir()
    async with (
        running_valkey(tmp_path / "valkey") as (url, _),
        served(tmp_path / "one", [], store__url=url, **common) as one,
        served(tmp_path / "two", [], store__url=url, **common) as two,
    ):
        await ask(one, CHAT, "heron")
        await ask(two, MESSAGES, "stork")
        await ask(two, MESSAGES, "stork")
        async with asyncio.timeout(20):
            for gateway in (one, two):
                found = await shown(gateway, "/admin/history")
                while found["num_nodes"] < 2 or sum(found["total"]["requests"].values()) < 3:
                    await asyncio.sleep(0.2)
                    found = await shown(gateway, "/admin/history")
                assert found["total"]["requests"] == {"miss": 2, "exact": 1}
                ledger = await shown(gateway, "/admin/savings?by=agent")
                assert {row["agent"]: row["num_requests"] for row in ledger["rows"]} == {
                    "heron": 1,
                    "stork": 2,
                }


async def test_operators_only(tmp_path: Path, upstream: ScriptedUpstream) -> None:
    env = {"ADMIN": "a-long-admin-key-for-this-test"}
    async with served(
        tmp_path / "data",
        [],
        env=env,
        upstreams=two_vendors(upstream.url),
        server__admin_key_env="ADMIN",
        server__keys=[{"key": "client-key-of-this-test"}],
    ) as gateway:
        for path in ("/admin/history", "/admin/savings"):
            client = {"authorization": "Bearer client-key-of-this-test"}
            assert (await gateway.get(path, client)).status in (401, 403)
            assert (await gateway.get(path, {"authorization": f"Bearer {env['ADMIN']}"})).status == 200


async def test_the_command_prints_writes_csv_and_refuses_both(gateway: Served, tmp_path: Path) -> None:
    await load(gateway)

    async def run(*args: str) -> subprocess.CompletedProcess[bytes]:
        command = [sys.executable, "-m", "openclaw_cache", "savings", "--url", gateway.url, *args]
        return await asyncio.to_thread(
            subprocess.run, command, capture_output=True, env=os.environ | {"COLUMNS": "200"}, check=False
        )

    table = await run("--by", "agent")
    assert table.returncode == 0, table.stderr
    assert "heron" in table.stdout.decode()
    assert "The money is of 6 of 7 requests:" in table.stdout.decode()
    as_json = await run("--json", "--by", "")
    assert json.loads(as_json.stdout)["rows"][0]["num_requests"] == 7
    file = tmp_path / "账.csv"
    written = await run("--by", "day,agent", "--csv", str(file))
    assert written.returncode == 0, written.stderr
    assert f"4 rows in {file}" in written.stdout.decode()
    piped = await run("--by", "day,agent", "--csv", "-")
    assert piped.stdout == file.read_bytes()
    assert piped.stdout.startswith(b"day,agent,num_requests,")
    for args in (("--csv", "x", "--json"), ("--time-range", "soon")):
        refused = await run(*args)
        assert refused.returncode == 2
        assert b"--" in refused.stderr
    unknown = await run("--by", "colour")
    assert unknown.returncode != 0
    assert b"colour" in unknown.stderr
    nowhere = await run("--csv", str(tmp_path / "no" / "folder.csv"))
    assert nowhere.returncode == 2
