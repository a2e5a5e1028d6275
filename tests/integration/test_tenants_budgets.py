"""What a key may use, told in every dialect, and what does not count."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from support.every_api import (
    APIS,
    CHAT,
    COUNT_TOKENS,
    EMBEDDINGS,
    MESSAGES,
    Api,
    answer_all,
    bearer,
    named,
    tenants,
)
from support.scripted_upstream import Gate, ScriptedUpstream
from support.served import Answer, Served

every_api = pytest.mark.parametrize("api", APIS, ids=named)
KEY = bearer("sk-poor")


@contextlib.asynccontextmanager
async def limited(folder: Path, upstream: ScriptedUpstream, **budgets: int) -> AsyncIterator[Served]:
    """A gateway with a key that has these budgets, and two of the same namespace that have none."""
    keys: list[dict[str, Any]] = [
        {"key": "sk-poor", "namespace": "team", "budgets": budgets},
        {"key": "sk-rich", "namespace": "team"},
    ]
    async with tenants(folder, upstream, keys) as running:
        yield running


async def ask(gateway: Served, api: Api, prompt: str, key: str = "sk-poor", **fields: Any) -> Answer:
    return await gateway.ask(api.body(prompt, **fields), headers=bearer(key), path=api.path)


def used(gateway: Served, name: str) -> int:
    """What the key has used of a budget, as `status` tells it."""
    [row] = gateway.app.asgi._auth.status()["fullest_budgets"]
    count: int = row["budgets"][name]["used"]
    return count


@every_api
async def test_a_budget_that_is_used_up_is_refused_in_the_clients_dialect_by_its_name(
    tmp_path: Path, upstream: ScriptedUpstream, api: Api
) -> None:
    async with limited(tmp_path, upstream, requests_per_minute=1) as gateway:
        assert (await ask(gateway, api, "one")).status == 200
        refused = await ask(gateway, api, "two")
        assert refused.status == 429
        assert 1 <= int(refused.headers["retry-after"]) <= 61
        told = refused.json()
        assert "requests_per_minute (1)" in told["error"]["message"]
        assert told["error"]["type"] == "rate_limit_error"
        if api in (MESSAGES, COUNT_TOKENS):
            assert told["type"] == "error"
        else:
            assert told["error"]["code"] == "budget_exhausted"
        assert (await ask(gateway, api, "two", "sk-rich")).status == 200
    assert upstream.num_calls == 2


async def test_the_official_sdks_take_a_refusal_for_a_rate_limit(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    async with limited(tmp_path, upstream, requests_per_minute=2) as gateway:
        for n in range(2):
            await ask(gateway, CHAT, str(n))
        async with openai.AsyncOpenAI(
            api_key="sk-poor", base_url=f"{gateway.url}/v1", max_retries=0
        ) as client:
            with pytest.raises(openai.RateLimitError, match="requests_per_minute"):
                await client.chat.completions.create(**CHAT.body("three"))
        async with anthropic.AsyncAnthropic(api_key="sk-poor", base_url=gateway.url, max_retries=0) as other:
            with pytest.raises(anthropic.RateLimitError, match="requests_per_minute"):
                await other.messages.create(**MESSAGES.body("three"))


# Tokens that this upstream tells of, by API: the whole prompt and the reply. Counts of tokens cost none.
COSTS = {
    "chat": 19 + 10,
    "completions": 19 + 10,
    "responses": 36 + 21,
    "messages": 12 + 100 + 2000 + 33,
    "count_tokens": 0,
    "embeddings": 4 + 4,
}


@every_api
async def test_a_forwarded_request_costs_its_tokens_and_a_stored_reply_costs_none(
    tmp_path: Path, upstream: ScriptedUpstream, api: Api
) -> None:
    async with limited(tmp_path, upstream, tokens_per_day=100_000, requests_per_minute=100) as gateway:
        for number in (1, 2):
            assert (await ask(gateway, api, f"question {number}")).status == 200
            assert used(gateway, "tokens_per_day") == number * COSTS[api.name]
        assert (await ask(gateway, api, "question 1")).is_hit
        assert used(gateway, "tokens_per_day") == 2 * COSTS[api.name]
        assert used(gateway, "requests_per_minute") == 3


@pytest.mark.parametrize("api", [api for api in APIS if api.can_stream], ids=named)
async def test_a_stream_costs_its_tokens_as_a_whole_reply_does(
    tmp_path: Path, upstream: ScriptedUpstream, api: Api
) -> None:
    async with limited(tmp_path, upstream, tokens_per_day=100_000) as gateway:
        await ask(gateway, api, "question", stream=True)
        assert used(gateway, "tokens_per_day") == COSTS[api.name]
        assert (await ask(gateway, api, "question", stream=True)).is_hit
        assert used(gateway, "tokens_per_day") == COSTS[api.name]


async def test_of_a_batch_that_is_stored_in_part_the_rest_counts(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    async with limited(tmp_path, upstream, tokens_per_day=100_000) as gateway:
        await ask(gateway, EMBEDDINGS, "q", input=["a", "b"])
        await ask(gateway, EMBEDDINGS, "q", input=["a", "b", "c"])
        assert [call.json()["input"] for call in upstream.calls] == [["a", "b"], ["c"]]
        assert used(gateway, "tokens_per_day") == 8 + 4


async def test_a_token_budget_is_refused_by_its_name_once_it_is_used_up_and_hits_are_refused_too(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    async with limited(tmp_path, upstream, tokens_per_minute=30) as gateway:
        assert (await ask(gateway, CHAT, "one")).status == 200  # 29 of 30
        assert (await ask(gateway, CHAT, "two")).status == 200  # admitted with one left: 58
        for prompt in ("three", "one"):
            refused = await ask(gateway, CHAT, prompt)
            assert refused.status == 429
            assert "tokens_per_minute (30)" in refused.json()["error"]["message"]


@every_api
async def test_requests_beyond_max_concurrent_are_refused_until_one_has_ended(
    tmp_path: Path, upstream: ScriptedUpstream, api: Api
) -> None:
    async with limited(tmp_path, upstream, max_concurrent=1) as gateway:
        upstream.script = gate = Gate(answer_all)
        async with asyncio.TaskGroup() as group:
            runs = group.create_task(ask(gateway, api, "one"))
            await upstream.called(1)
            refused = await ask(gateway, api, "two")
            assert refused.status == 429
            assert "max_concurrent (1)" in refused.json()["error"]["message"]
            assert refused.headers["retry-after"] == "1"
            gate.open()
        assert runs.result().status == 200
        assert (await ask(gateway, api, "two")).status == 200


async def test_who_begins_a_request_and_leaves_it_to_others_pays_for_it_all_the_same(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    async with limited(tmp_path, upstream, tokens_per_day=100_000) as gateway:
        upstream.script = gate = Gate(answer_all)
        leads = asyncio.create_task(ask(gateway, CHAT, "question"))
        await upstream.called(1)
        follows = asyncio.create_task(ask(gateway, CHAT, "question", "sk-rich"))
        await asyncio.sleep(0.5)  # until it follows, and the gateway listens whether its clients are there
        leads.cancel()
        await asyncio.wait({leads})
        await asyncio.sleep(0.2)
        gate.open()
        assert (await follows).cache_status == "openclaw-cache; fwd=miss; collapsed"
        assert used(gateway, "tokens_per_day") > 0
    assert upstream.num_calls == 1


async def test_who_follows_a_request_that_another_key_pays_pays_nothing(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    async with limited(tmp_path, upstream, tokens_per_day=100_000, requests_per_minute=100) as gateway:
        upstream.script = gate = Gate(answer_all)
        async with asyncio.TaskGroup() as group:
            group.create_task(ask(gateway, CHAT, "question", "sk-rich"))
            await upstream.called(1)
            follows = group.create_task(ask(gateway, CHAT, "question"))
            group.create_task(ask(gateway, CHAT, "another question", "sk-rich"))
            await upstream.called(2)
            gate.open()
        assert follows.result().cache_status == "openclaw-cache; fwd=miss; collapsed"
        assert used(gateway, "tokens_per_day") == 0
        assert used(gateway, "requests_per_minute") == 1
