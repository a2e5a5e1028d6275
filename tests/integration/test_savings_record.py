"""What a request cost and what we saved, from the upstream's words to log, metrics and status. All sums by hand."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from openclaw_cache.observe.prices import Prices
from support.every_api import (
    APIS,
    CHAT,
    COMPLETIONS,
    COUNT_TOKENS,
    EMBEDDINGS,
    MESSAGES,
    RESPONSES,
    Api,
    answer_all,
    two_vendors,
)
from support.scripted_upstream import Gate, ScriptedUpstream, reply, says
from support.served import Answer, Served, served

PRICES = """
prices:
  gpt-*: {input: 2, output: 8, cached_input: 0.5}
  claude-*: {input: 3, output: 15, cached_input: 0.3, cache_write: 3.75}
upstreams:
  free: {"*": {input: 0, output: 0}}
"""


@dataclass(frozen=True, slots=True)
class Sums:
    """Of one reply: tokens, and millionths of a dollar."""

    computed: int
    cached: int
    """By the provider, when it made the reply."""
    completion: int
    would_be_cached: int
    spent: float
    saved: float
    """By a hit."""

    @property
    def saved_tokens(self) -> int:
        """By a hit: what would have been computed."""
        return self.computed + self.cached - self.would_be_cached + self.completion


EXPECTED = {
    # 19 tokens of which 8 were cached, and 10: 11 × 2 + 8 × 0.5 + 10 × 8. A hit saves no more than that.
    CHAT: Sums(11, 8, 10, 8, 106, 106),
    COMPLETIONS: Sums(11, 8, 10, 8, 106, 106),
    # 36 of which 16 were cached, and 21: 20 × 2 + 16 × 0.5 + 21 × 8.
    RESPONSES: Sums(20, 16, 21, 16, 216, 216),
    # 12, 100 written to the cache, 2000 read from it, and 33: 12 × 3 + 100 × 3.75 + 2000 × 0.3 + 33 × 15.
    # The next request would have read what this one wrote: 12 × 3 + 2100 × 0.3 + 33 × 15.
    MESSAGES: Sums(112, 2000, 33, 2100, 1506, 1161),
    # Two inputs of 4 tokens: 8 × 2.
    EMBEDDINGS: Sums(8, 0, 0, 0, 16, 16),
}
CASES = [(api, False) for api in EXPECTED] + [(api, True) for api in EXPECTED if api.can_stream]
IDS = [f"{api.name}{'-stream' if stream else ''}" for api, stream in CASES]


DOCS = Path(__file__).parents[2] / "docs" / "savings.md"


def test_the_price_file_of_the_docs_can_be_read_and_means_what_they_say(tmp_path: Path) -> None:
    [block] = re.findall(r"```yaml\n(prices:.*?)```", DOCS.read_text(), re.DOTALL)
    file = tmp_path / "prices.yaml"
    file.write_text(block)
    prices = Prices.load(file)
    mini, dated = prices.of("gpt-5-mini"), prices.of("gpt-5-mini-2025-08-07")
    assert mini is not None
    assert mini == dated
    # Dollars for a million tokens are millionths of a dollar for one: $0.2 are 200,000 picodollars.
    assert (mini.rates.input, mini.rates.cache_write, mini.rates.cached_input) == (200_000, 200_000, 20_000)
    long = prices.of("long-model")
    assert long is not None
    assert long.for_prompt(200_000).input == 2_000_000
    assert long.for_prompt(200_001).input == 4_000_000
    free = prices.of("gpt-5-mini", "pods")
    assert free is not None
    assert (free.rates.input, free.rates.output) == (0, 0)


@pytest.fixture
async def gateway(tmp_path: Path, upstream: ScriptedUpstream) -> AsyncIterator[Served]:
    upstream.script = answer_all
    prices = tmp_path / "prices.yaml"
    prices.write_text(PRICES)
    upstreams = two_vendors(upstream.url)
    upstreams.append({"name": "free", "kind": "openai", "urls": [upstream.url], "models": ["own-*"]})
    async with served(
        tmp_path / "data", [], upstreams=upstreams, savings__prices_file=prices, result_cache__tools="cache"
    ) as running:
        yield running


async def ask(gateway: Served, api: Api, prompt: str = "question", **fields: Any) -> Answer:
    answered = await gateway.ask(api.body(prompt, **fields), path=api.path)
    assert answered.status == 200, answered.body
    return answered


async def savings(gateway: Served) -> Any:
    """`/admin/status` → savings."""
    return (await gateway.get("/admin/status")).json()["savings"]


def told(line: Any) -> dict[str, Any]:
    """What a log line or a sum says of tokens and money, without zeros; money in millionths of a dollar."""
    names = (
        "computed_tokens", "upstream_cached_tokens", "answered_prompt_tokens", "answered_completion_tokens",
        "would_be_cached_tokens", "spent_usd", "saved_usd",
    )  # fmt: skip
    shown = {name: line[name] for name in names if line.get(name)}
    return {n: round(v * 1e6, 6) if n.endswith("_usd") else v for n, v in shown.items()}


def forwarded(sums: Sums) -> dict[str, Any]:
    shown = {
        "computed_tokens": sums.computed,
        "upstream_cached_tokens": sums.cached,
        "spent_usd": sums.spent,
    }
    return {name: value for name, value in shown.items() if value}


def answered(sums: Sums) -> dict[str, Any]:
    shown = {
        "answered_prompt_tokens": sums.computed + sums.cached,
        "answered_completion_tokens": sums.completion,
        "would_be_cached_tokens": sums.would_be_cached,
        "saved_usd": sums.saved,
    }
    return {name: value for name, value in shown.items() if value}


async def metrics(gateway: Served) -> dict[str, float]:
    names = {
        "result": 'openclaw_cache_saved_tokens_total{layer="result"}',
        "flight": 'openclaw_cache_saved_tokens_total{layer="flight"}',
        "spent": 'openclaw_cache_cost_usd_total{kind="spent"}',
        "saved": 'openclaw_cache_cost_usd_total{kind="saved"}',
        "cached": "openclaw_cache_upstream_cached_tokens_total",
    }
    return {short: await gateway.metric(name) for short, name in names.items()}


@pytest.mark.parametrize(("api", "stream"), CASES, ids=IDS)
async def test_a_miss_costs_what_the_upstream_tells_and_a_hit_saves_what_would_have_been_computed(
    gateway: Served, api: Api, stream: bool
) -> None:
    sums = EXPECTED[api]
    fields: dict[str, Any] = {"stream": True} if stream else {}
    with capture_logs() as log:
        await ask(gateway, api, **fields)
        for _ in range(2):
            assert (await ask(gateway, api, **fields)).is_hit
    miss, hit, again = (line for line in log if line["event"] == "request")
    assert (miss["outcome"], told(miss)) == ("miss", forwarded(sums))
    assert (hit["outcome"], told(hit)) == ("exact", answered(sums))
    assert told(again) == told(hit)
    assert hit["prompt_tokens"] == miss["prompt_tokens"] == sums.computed + sums.cached

    shown = await metrics(gateway)
    assert (shown["result"], shown["flight"], shown["cached"]) == (2 * sums.saved_tokens, 0, sums.cached)
    assert shown["spent"] == pytest.approx(sums.spent / 1e6)
    assert shown["saved"] == pytest.approx(2 * sums.saved / 1e6)

    book = await savings(gateway)
    twice = {name: 2 * value for name, value in answered(sums).items()}
    assert told(book["total"]) == pytest.approx(forwarded(sums) | twice)
    assert (book["total"]["num_requests"], book["total"]["num_priced"]) == (3, 3)
    assert list(book["models"]) == [api.model]
    assert told(book["agents"]["unknown"]) == told(book["total"])


@pytest.mark.parametrize(("api", "stream"), CASES, ids=IDS)
async def test_who_joins_a_request_in_the_air_saves_what_a_hit_does_and_it_is_paid_once(
    gateway: Served, upstream: ScriptedUpstream, api: Api, stream: bool
) -> None:
    sums = EXPECTED[api]
    fields: dict[str, Any] = {"stream": True} if stream else {}
    upstream.script = gate = Gate(answer_all)
    with capture_logs() as log:
        async with asyncio.TaskGroup() as group:
            group.create_task(ask(gateway, api, **fields))
            await upstream.called(1)
            group.create_task(ask(gateway, api, **fields))
            group.create_task(ask(gateway, COUNT_TOKENS, "arrives when the others have"))
            await upstream.called(2)
            gate.open()
    lines = {line["outcome"]: line for line in log if line["event"] == "request" and line["api"] == api.name}
    assert told(lines["miss"]) == forwarded(sums)
    assert told(lines["collapsed"]) == answered(sums)
    shown = await metrics(gateway)
    assert (shown["result"], shown["flight"], shown["cached"]) == (0, sums.saved_tokens, sums.cached)
    assert shown["spent"] == pytest.approx(sums.spent / 1e6)
    assert shown["saved"] == pytest.approx(sums.saved / 1e6)
    assert told((await savings(gateway))["total"]) == pytest.approx(forwarded(sums) | answered(sums))


async def test_a_count_of_tokens_costs_nothing_and_saves_nothing(gateway: Served) -> None:
    await ask(gateway, COUNT_TOKENS)
    assert (await ask(gateway, COUNT_TOKENS)).is_hit
    assert told((await savings(gateway))["total"]) == {}


async def test_what_the_provider_had_cached_is_its_own_saving_and_never_ours(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    usage = {"prompt_tokens": 1000, "completion_tokens": 0, "total_tokens": 1000}
    upstream.script = says(
        reply("Yes.", model="gpt-heron", usage=usage | {"prompt_tokens_details": {"cached_tokens": 1000}})
    )
    await ask(gateway, CHAT)
    shown = await metrics(gateway)
    assert (shown["cached"], shown["saved"], shown["result"]) == (1000, 0, 0)
    assert shown["spent"] == pytest.approx(1000 * 0.5 / 1e6)
    # A hit saves reading them from there again, and not one token of computing.
    assert (await ask(gateway, CHAT)).is_hit
    shown = await metrics(gateway)
    assert (shown["cached"], shown["result"]) == (1000, 0)
    assert shown["saved"] == pytest.approx(1000 * 0.5 / 1e6)


async def test_of_a_batch_that_is_stored_in_part_only_the_rest_is_spent(gateway: Served) -> None:
    await ask(gateway, EMBEDDINGS, input=["a", "b"])
    await ask(gateway, EMBEDDINGS, input=["a", "b", "c"])
    total = (await savings(gateway))["total"]
    assert total["computed_tokens"] == 8 + 4
    assert total["spent_usd"] == pytest.approx((8 + 4) * 2 / 1e6)


async def test_no_cache_and_bypasses_are_forwarded_requests(gateway: Served) -> None:
    asked: list[tuple[dict[str, Any], str]] = [({}, "no-cache"), ({}, "no-store, no-cache"), ({"n": 2}, "")]
    for fields, control in asked:
        headers = {"cache-control": control} if control else {}
        assert (await gateway.ask(CHAT.body(**fields), headers=headers)).status == 200
    total = (await savings(gateway))["total"]
    assert told(total) == pytest.approx(
        {name: 3 * value for name, value in forwarded(EXPECTED[CHAT]).items()}
    )


async def test_a_refusal_by_the_upstream_or_by_us_costs_nothing(gateway: Served) -> None:
    assert (await gateway.ask(CHAT.body(model="gpt-none"))).status == 404
    assert (await gateway.ask(CHAT.body(model="nobody"))).status == 404
    assert (await gateway.ask(CHAT.body(), headers={"cache-control": "only-if-cached"})).status == 504
    book = await savings(gateway)
    assert (told(book["total"]), book["total"]["num_requests"]) == ({}, 0)


async def test_an_upstream_may_have_prices_of_its_own_and_an_unknown_model_has_none(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    await ask(gateway, CHAT, model="own-heron")
    assert (await ask(gateway, CHAT, model="own-heron")).is_hit
    book = await savings(gateway)
    own = book["models"]["own-heron"]
    assert (own["num_priced"], own["spent_usd"], own["saved_usd"]) == (2, 0, 0)
    assert own["computed_tokens"] == 11


async def test_a_model_without_a_price_is_counted_in_tokens_and_not_in_money(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    upstream.script = answer_all
    async with served(tmp_path, [upstream.url], upstream={"models": ["*"]}) as gateway:
        await ask(gateway, CHAT, model="heron-nobody-prices")
        assert (await ask(gateway, CHAT, model="heron-nobody-prices")).is_hit
        total = (await savings(gateway))["total"]
    assert (total["num_requests"], total["num_priced"]) == (2, 0)
    assert (total["computed_tokens"], total["answered_completion_tokens"]) == (11, 10)
    assert (total["spent_usd"], total["saved_usd"]) == (0, 0)


async def test_each_agent_has_a_line_and_so_has_each_model(gateway: Served) -> None:
    for agent in ("coder", "coder", "writer"):
        await gateway.ask(CHAT.body(f"of {agent}"), headers={"x-openclaw-agent": agent})
    await ask(gateway, MESSAGES)
    book = await savings(gateway)
    assert told(book["agents"]["coder"]) == pytest.approx(
        forwarded(EXPECTED[CHAT]) | answered(EXPECTED[CHAT])
    )
    assert told(book["agents"]["writer"]) == forwarded(EXPECTED[CHAT])
    assert told(book["agents"]["unknown"]) == forwarded(EXPECTED[MESSAGES])
    assert list(book["models"]) == ["gpt-heron", "claude-heron"]
    assert sum(book["agents"][name]["num_requests"] for name in book["agents"]) == 4


async def test_the_price_of_a_hit_is_todays_and_its_tokens_are_those_of_the_reply_when_it_was_made(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    upstream.script = answer_all
    prices, upstreams = tmp_path / "prices.json", two_vendors(upstream.url)
    given: dict[str, Any] = {"upstreams": upstreams, "savings__prices_file": prices}
    prices.write_text(json.dumps({"prices": {"gpt-*": {"input": 2, "output": 8, "cached_input": 0.5}}}))
    async with served(tmp_path / "data", [], **given) as gateway:
        await ask(gateway, CHAT)
        await gateway.written()
    prices.write_text(json.dumps({"prices": {"gpt-*": {"input": 20, "output": 80, "cached_input": 5}}}))
    async with served(tmp_path / "data", [], **given) as gateway:
        assert (await ask(gateway, CHAT)).is_hit
        assert told((await savings(gateway))["total"])["saved_usd"] == 1060
    assert len(APIS) == len(EXPECTED) + 1  # token counts have no price; every other API is in the table
