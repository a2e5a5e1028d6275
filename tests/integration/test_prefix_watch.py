"""Where prompts that go upstream break their prefixes: live, on a real gateway, with OpenClaw's own prompts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from openclaw_cache.gateway import prefix_watch
from openclaw_cache.gateway.prefix_watch import PrefixWatch
from openclaw_cache.prefix.lineage import Lineages
from support.scripted_upstream import Exchange, Gate, ScriptedUpstream, reply, says
from support.served import Answer, Served, chat, served

RULES = "Answer in short sentences, and name your sources. " * 40
KEYS = [{"key": "sk-alpha", "namespace": "alpha"}, {"key": "sk-beta", "namespace": "beta"}]
TIMES = [f"Current time: 2026-11-30 12:{minute}\n" for minute in (10, 11, 12)]


def agent_prompt(head: str = "", *more: str) -> dict[str, Any]:
    """A prompt with text of its own at its head, and a history."""
    turns = [{"role": "user", "content": text} for text in ("What is a heron?", *more)]
    return chat() | {"messages": [{"role": "system", "content": head + RULES}, *turns]}


def session(name: str, **more: str) -> dict[str, str]:
    return {"x-session-affinity": f"{name}:0", "x-openclaw-agent": "main"} | more


async def prefixes(gateway: Served, query: str = "") -> dict[str, Any]:
    """What was seen, once nothing waits to be compared."""
    watch = gateway.app.gateway.prefixes
    assert watch is not None
    while watch._tasks:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0)
    answer = await gateway.get(f"/admin/prefixes{query}")
    assert answer.status == 200, answer.body
    shown: dict[str, Any] = answer.json()
    return shown


async def explained(gateway: Served, answer: Answer) -> dict[str, Any]:
    await prefixes(gateway)
    shown: dict[str, Any] = (await gateway.get(f"/admin/explain/{answer.headers['x-request-id']}")).json()
    return shown


@pytest.fixture
def captured(data_root: Path) -> Callable[[int], dict[str, Any]]:
    """A recorded request by its number."""
    found = {
        request["seq"]: request
        for file in (data_root / "openclaw").glob("*.json")
        if file.name != "index.json"
        for request in json.loads(file.read_text())["requests"]
    }
    return lambda number: found[number]


async def test_a_clock_at_the_head_of_a_prompt_is_named_with_its_place_and_its_price(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    usage = {"prompt_tokens": 500, "completion_tokens": 1, "total_tokens": 501}
    upstream.script = says(reply(usage=usage))
    await gateway.ask(agent_prompt(TIMES[0]), headers=session("s"))
    with capture_logs() as lines:
        second = await gateway.ask(agent_prompt(TIMES[1]), headers=session("s"))
    found = (await explained(gateway, second))["prefix_break"]
    assert (found["cause"], found["pointer"]) == ("date", "/messages/0/content")
    kept = "Current time: 2026-11-30 12:1"
    assert found["at_byte"] == pytest.approx(len(kept), abs=len("system\n\n"))  # the role is read too
    # The provider counted 500 tokens, and all but a few letters stands in both prompts.
    assert found["kept_tokens"] + found["lost_tokens"] == pytest.approx(500, rel=0.03)
    (line,) = [line for line in lines if line.get("api") == "chat"]
    assert line["prefix_break"] == "date"
    assert "heron" not in str(found)


async def test_what_was_seen_is_summed_up_newest_first(gateway: Served) -> None:
    for i, head in enumerate(TIMES):
        await gateway.ask(agent_prompt(head), headers=session("s", **{"x-request-id": f"r{i}"}))
    shown = await prefixes(gateway)
    assert shown["num_compared"] == 2
    assert [(seen["request_id"], seen["cause"]) for seen in shown["breaks"]] == [
        ("r2", "date"),
        ("r1", "date"),
    ]
    first = shown["breaks"][0]
    assert (first["agent"], first["session"], first["namespace"]) == ("main", "s", "default")
    lost = sum(seen["lost_tokens"] for seen in shown["breaks"])
    assert shown["causes"] == {"date": {"num": 2, "lost_tokens": lost}}
    assert shown["reachable_tokens"] - shown["kept_tokens"] == pytest.approx(lost, abs=2)
    assert len((await prefixes(gateway, "?limit=1"))["breaks"]) == 1
    assert await gateway.metric('openclaw_cache_prefix_breaks_total{cause="date"}') == 2
    assert await gateway.metric('openclaw_cache_prefix_lost_tokens_total{cause="date"}') == lost


@pytest.mark.parametrize(("level", "causes"), [("report", ["date"]), ("full", [])])
async def test_what_was_sent_is_compared_and_not_what_came(
    level: str, causes: list[str], tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    async with served(tmp_path, [upstream.url], upstream={"canonical": level}) as gateway:
        for head in ("Current time: 2026-11-30 12:10\n", "Current time: 2026-11-30 12:11\n"):
            await gateway.ask(agent_prompt(head), headers=session("s"))
        shown = await prefixes(gateway)
    assert (shown["num_compared"], [seen["cause"] for seen in shown["breaks"]]) == (1, causes)


async def test_a_prompt_that_goes_on_breaks_nothing(gateway: Served) -> None:
    turns: list[str] = []
    for i in range(5):
        await gateway.ask(agent_prompt("", *turns), headers=session("s"))
        turns.append(f"And what of number {i}?")
    shown = await prefixes(gateway)
    assert (shown["num_compared"], shown["breaks"]) == (4, [])
    assert shown["kept_tokens"] == shown["reachable_tokens"] > 1000


async def test_prompts_of_other_namespaces_are_never_compared(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    async with served(tmp_path, [upstream.url], server__keys=KEYS) as gateway:
        for key, head in zip(KEYS, TIMES, strict=False):
            headers = session("s", authorization=f"Bearer {key['key']}")
            await gateway.ask(agent_prompt(head), headers=headers)
        shown = await prefixes(gateway)
        assert (shown["num_compared"], shown["breaks"]) == (0, [])


async def test_hits_and_joined_requests_are_not_compared(gateway: Served, upstream: ScriptedUpstream) -> None:
    gate = Gate()
    upstream.script = gate
    asking = [asyncio.create_task(gateway.ask(agent_prompt(), headers=session("s"))) for _ in range(2)]
    await upstream.called()
    await asyncio.sleep(0.05)
    gate.open()
    await asyncio.gather(*asking)
    await gateway.ask(agent_prompt(), headers=session("s"))
    shown = await prefixes(gateway)
    assert (upstream.num_calls, shown["num_compared"]) == (1, 0)


async def test_a_large_prompt_is_compared_on_a_thread_with_the_same_result(gateway: Served) -> None:
    long = "This is a long document about birds. " * 20_000
    for head in TIMES[:2]:
        answer = await gateway.ask(agent_prompt(head, long), headers=session("s"))
    found = (await explained(gateway, answer))["prefix_break"]
    assert found["cause"] == "date"
    assert found["lost_tokens"] > len(long) / 10


async def test_a_failure_of_the_comparison_is_counted_and_the_request_never_knows(
    gateway: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr(Lineages, "add", broken)
    with capture_logs() as lines:
        for head in TIMES:
            answer = await gateway.ask(agent_prompt(head), headers=session("s"))
            assert answer.status == 200
    assert (await explained(gateway, answer))["prefix_break"] is None
    assert gateway.app.metrics.degraded.labels("prefix_watch")._value.get() == 3
    assert len([line for line in lines if line["event"] == "degraded"]) == 1


async def test_where_it_is_off_nothing_is_kept_and_that_is_said(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    async with served(tmp_path, [upstream.url], observe__prefixes=False) as gateway:
        assert (await gateway.ask(agent_prompt())).status == 200
        refused = await gateway.get("/admin/prefixes")
        assert refused.status == 400
        assert "observe.prefixes" in refused.json()["error"]["message"]


async def test_what_waits_is_bounded(
    gateway: Served, upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prefix_watch, "MOST_WAITING", 0)
    assert (await gateway.ask(agent_prompt())).status == 200
    assert (await prefixes(gateway))["num_skipped"] == 1


async def test_the_bytes_that_wait_are_bounded(gateway: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefix_watch, "MOST_WAITING_BYTES", 5000)
    for head in TIMES:
        await gateway.ask(agent_prompt(head), headers=session("s"))
        await prefixes(gateway)
    assert (await gateway.ask(agent_prompt("x" * 5000))).status == 200
    shown = await prefixes(gateway)
    assert (shown["num_compared"], shown["num_skipped"]) == (2, 1)


async def test_only_a_share_of_a_core_is_computed_and_that_comes_back_with_time(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    """Each comparison takes 6 s by this clock, of 5 that may be used at once, and a fifth of the time that passes."""
    now, computed = [0.0], [0.0]

    def cpu() -> float:
        computed[0] += 6.0
        return computed[0]

    async with served(tmp_path, [upstream.url]) as gateway:
        gateway.app.gateway.prefixes = watch = PrefixWatch(lambda _what: None, clock=lambda: now[0], cpu=cpu)
        compared = []
        for at in (0.0, 1.0, 4.9, 5.1, 5.2):
            now[0] = at
            await gateway.ask(agent_prompt(f"At {at}. "), headers=session("s"))
            await prefixes_done(watch)
            compared.append(watch.sums.num_skipped)
    assert compared == [0, 1, 2, 2, 3]


async def test_what_waited_behind_a_long_comparison_is_left_out_too(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    computed = [0.0]

    def cpu() -> float:
        computed[0] += 6.0
        return computed[0]

    async with served(tmp_path, [upstream.url]) as gateway:
        watch = PrefixWatch(lambda _what: None, clock=lambda: 0.0, cpu=cpu)
        gateway.app.gateway.prefixes = watch
        async with watch._turn:
            for i in range(3):
                await gateway.ask(agent_prompt(f"{i}. "), headers=session("s"))
            assert (len(watch._tasks), watch.sums.num_skipped) == (3, 0)
        await prefixes_done(watch)
        assert watch.sums.num_skipped == 2


@pytest.mark.parametrize("name", ["\ud800", "a" * 100_000, "\u202e", "a\nb"])
async def test_a_key_of_a_schema_that_cannot_be_shown_ends_the_pointer_before_it(
    gateway: Served, name: str
) -> None:
    for kind in ("string", "number"):
        schema = {"type": "object", "properties": {name: {"type": kind}}}
        tool = {"type": "function", "function": {"name": "find", "parameters": schema}}
        await gateway.ask(agent_prompt() | {"tools": [tool]}, headers=session("s"))
    (found,) = (await prefixes(gateway))["breaks"]
    assert (found["cause"], found["pointer"]) == ("tool_changed", "/tools/0/function/parameters/properties")
    for path in ("requests", "history"):
        assert (await gateway.get(f"/admin/{path}")).status == 200


async def test_a_document_whose_name_is_no_files_is_not_told(gateway: Served) -> None:
    for name in ("the harbour", "the harbour master is ill"):
        head = f'<document source="{name}">\nHerons.\n</document>\n'
        answer = await gateway.ask(agent_prompt(head), headers=session("s"))
    assert "harbour" not in json.dumps(await explained(gateway, answer))
    assert "harbour" not in json.dumps(await prefixes(gateway))


async def test_what_is_remembered_stays_within_its_bytes(tmp_path: Path, upstream: ScriptedUpstream) -> None:
    async with served(tmp_path, [upstream.url]) as gateway:
        watch = PrefixWatch(lambda _what: None, max_bytes=50_000)
        gateway.app.gateway.prefixes = watch
        for i in range(30):
            await gateway.ask(agent_prompt(f"You are agent {i}. "), headers=session(f"s{i}"))
            await prefixes_done(watch)
            assert watch.num_bytes <= 50_000


async def prefixes_done(watch: PrefixWatch) -> None:
    while watch._tasks:
        await asyncio.sleep(0.005)


async def test_openclaws_heartbeat_is_found_by_the_tool_that_it_lacks(
    gateway: Served, upstream: ScriptedUpstream, captured: Callable[[int], dict[str, Any]]
) -> None:
    async def counted(exchange: Exchange) -> None:
        await exchange.stream([b"data: [DONE]\n\n"])

    upstream.script = counted
    for number in (57, 64, 65):
        request = captured(number)
        await gateway.ask(request["body"], path=request["path"], headers={"x-request-id": f"r{number}"})
    shown = await prefixes(gateway)
    seen = {one["request_id"]: one for one in shown["breaks"]}
    assert seen["r64"]["cause"] == "tool_missing"
    assert 'tool "openclaw" is missing' in seen["r64"]["label"]
    assert seen["r64"]["session"]  # from the Runtime line
    assert "r65" not in seen  # it goes on from the user turn before the heartbeat


async def test_an_ordinary_conversation_of_openclaw_raises_no_alarm(
    gateway: Served, captured: Callable[[int], dict[str, Any]]
) -> None:
    for number in range(2, 8):
        request = captured(number)
        answer = await gateway.ask(request["body"], path=request["path"])
        assert answer.status == 200
    shown = await prefixes(gateway)
    assert (shown["num_compared"], shown["breaks"]) == (5, [])
    assert shown["kept_tokens"] > 0.99 * shown["reachable_tokens"]


async def test_single_questions_that_name_no_session_raise_no_alarm(gateway: Served) -> None:
    for i in range(6):
        question = f"Question {i}: " + "what do herons eat in winter, and where? " * (20 + i)
        body = chat() | {
            "messages": [{"role": "system", "content": RULES}, {"role": "user", "content": question}]
        }
        await gateway.ask(body)
    assert (await prefixes(gateway))["breaks"] == []


async def test_what_the_canonicaliser_saved_is_told_of_each_request_and_in_sums(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    upstream.script = says(reply())

    def billed(cch: str) -> dict[str, Any]:
        return agent_prompt(
            f"x-anthropic-billing-header: cc_version=2.1.177.01c; cc_entrypoint=cli; cch={cch};\n"
        )

    settings = {"upstream": {"canonical": "safe"}}
    async with served(tmp_path / "data", [upstream.url], **settings) as gateway:
        first = await gateway.ask(billed("11111"), headers=session("s1"))
        second = await gateway.ask(billed("22222"), headers=session("s1"))
        told = [(await explained(gateway, answer))["canonical_saved_tokens"] for answer in (first, second)]
        history = (await gateway.get("/admin/history")).json()["total"]["canonical"]["claude-code-billing"]
    # The first has nothing before it: it saves the line itself, 80 bytes. Without the line the second one's rules
    # (2,000 bytes of English, a token for about 4 of them) stand behind what the two have in common.
    assert 10 < told[0] < 40
    assert 450 < told[1] < 700
    assert history["saved_tokens"] == sum(told)
    assert (history["num"], history["num_applied"]) == (2, 2)
