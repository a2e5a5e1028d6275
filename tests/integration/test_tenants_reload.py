"""The key file changes while requests run: what is revoked, what goes on, what is not touched."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from openclaw_cache.api.keys_file import LOOK_INTERVAL_S, KeysFile
from support.every_api import APIS, CHAT, answer_all, bearer, two_vendors
from support.scripted_upstream import Exchange, Gate, ScriptedUpstream, stream_events
from support.served import Answer, Served, served


def entry(key: str, namespace: str, **fields: Any) -> dict[str, Any]:
    return {"key_sha256": hashlib.sha256(key.encode()).hexdigest(), "namespace": namespace, **fields}


def replace(file: Path, *entries: dict[str, Any]) -> None:
    """Write the file as an operator should: whole, by a rename."""
    draft = file.with_suffix(".new")
    draft.write_text(json.dumps(list(entries)))
    draft.replace(file)


ALPHA, BETA = entry("sk-alpha", "alpha"), entry("sk-beta", "beta")


@pytest.fixture
def keys_file(tmp_path: Path) -> Path:
    file = tmp_path / "keys.json"
    replace(file, ALPHA, BETA)
    return file


@pytest.fixture
async def gateway(
    tmp_path: Path, keys_file: Path, upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Served]:
    often = functools.partialmethod(
        KeysFile.watch, interval_s=0.05
    )  # not every second, so as not to wait long
    monkeypatch.setattr(KeysFile, "watch", often)
    upstream.script = answer_all
    upstreams = two_vendors(upstream.url)
    async with served(tmp_path / "data", [], upstreams=upstreams, server__keys_file=keys_file) as running:
        yield running


async def ask(gateway: Served, key: str, prompt: str = "question", **fields: Any) -> Answer:
    return await gateway.ask(CHAT.body(prompt, **fields), headers=bearer(key))


async def until_status(gateway: Served, key: str, status: int) -> None:
    async with asyncio.timeout(20):
        while (await ask(gateway, key)).status != status:
            await asyncio.sleep(0.02)


def test_a_change_is_seen_after_two_looks_which_are_two_seconds_at_most() -> None:
    assert 2 * LOOK_INTERVAL_S <= 2


async def test_a_revoked_key_is_refused_everywhere_and_other_keys_go_on(
    gateway: Served, keys_file: Path
) -> None:
    assert (await ask(gateway, "sk-alpha")).status == 200
    assert (await ask(gateway, "sk-beta")).status == 200
    replace(keys_file, BETA)
    await until_status(gateway, "sk-alpha", 401)
    for api in APIS:
        refused = await gateway.ask(api.body(), headers=bearer("sk-alpha"), path=api.path)
        assert refused.status == 401, api.name
        assert refused.json()["error"]["type"] == "authentication_error"
    assert (await gateway.get("/v1/models", headers=bearer("sk-alpha"))).status == 401
    assert (await ask(gateway, "sk-beta")).is_hit


async def test_a_revoked_keys_stream_that_runs_comes_to_its_end_and_what_it_brought_stays(
    gateway: Served, keys_file: Path, upstream: ScriptedUpstream
) -> None:
    go_on = asyncio.Event()

    async def pauses(exchange: Exchange) -> None:
        events = stream_events("Her", "ons.", usage=True)
        await exchange.start_stream()
        await exchange.chunk(b"".join(events[:2]))
        await go_on.wait()
        await exchange.chunk(b"".join(events[2:]))
        await exchange.last_chunk()

    replace(keys_file, ALPHA, BETA, entry("sk-alpha-too", "alpha"))
    await until_status(gateway, "sk-alpha-too", 200)
    upstream.next_scripts = [pauses]
    async with gateway.send(CHAT.body("a stream", stream=True), headers=bearer("sk-alpha")) as response:
        seen = await response.content.readuntil(b'"Her"')
        replace(keys_file, BETA, entry("sk-alpha-too", "alpha"))
        await until_status(gateway, "sk-alpha", 401)
        go_on.set()
        seen += await response.content.read()
    assert seen.endswith(b"data: [DONE]\n\n")
    assert b'"ons."' in seen
    assert (await ask(gateway, "sk-alpha-too", "a stream")).is_hit


async def test_a_request_in_the_air_stays_shared_within_its_namespace_while_its_key_is_revoked(
    gateway: Served, keys_file: Path, upstream: ScriptedUpstream
) -> None:
    replace(keys_file, ALPHA, BETA, entry("sk-alpha-too", "alpha"))
    await until_status(gateway, "sk-alpha-too", 200)
    upstream.next_scripts = [gate := Gate(answer_all)]
    num_calls = upstream.num_calls
    async with asyncio.TaskGroup() as group:
        leads = group.create_task(ask(gateway, "sk-alpha", "in the air"))
        await upstream.called(num_calls + 1)
        replace(keys_file, BETA, entry("sk-alpha-too", "alpha"))
        await until_status(gateway, "sk-alpha", 401)
        follows = group.create_task(ask(gateway, "sk-alpha-too", "in the air"))
        other = group.create_task(ask(gateway, "sk-beta", "in the air"))
        await other
        gate.open()
    assert leads.result().status == 200
    assert follows.result().cache_status == "openclaw-cache; fwd=miss; collapsed"
    assert other.result().cache_status == "openclaw-cache; fwd=miss; stored"


async def test_a_key_that_moves_to_another_namespace_sees_nothing_of_its_old_one(
    gateway: Served, keys_file: Path, upstream: ScriptedUpstream
) -> None:
    await ask(gateway, "sk-alpha")
    await ask(gateway, "sk-beta", "another question")
    replace(keys_file, entry("sk-alpha", "beta"), BETA)
    async with asyncio.timeout(20):
        probe = bearer("sk-alpha") | {"cache-control": "only-if-cached"}
        while (await gateway.ask(CHAT.body("another question"), headers=probe)).status != 200:
            await asyncio.sleep(0.02)
    assert (await gateway.ask(CHAT.body(), headers=probe)).status == 504
    assert upstream.num_calls == 2


async def test_a_broken_file_changes_nothing_and_status_tells_so_without_its_content(
    gateway: Served, keys_file: Path
) -> None:
    keys_file.write_text('[{"key_sha256": "sk-not-a-hash-but-a-key", "namespace": "gamma"}]')
    async with asyncio.timeout(20):
        while True:
            status = (await gateway.get("/admin/status")).json()
            if status["keys"]["keys_file"]["reload_error"]:
                break
            await asyncio.sleep(0.02)
    assert "entry 1.key_sha256" in status["keys"]["keys_file"]["reload_error"]
    assert "sk-not-a-hash" not in json.dumps(status)
    assert (await ask(gateway, "sk-alpha")).status == 200
    assert (await ask(gateway, "sk-beta")).status == 200


async def test_a_budget_that_is_raised_in_the_file_lets_the_key_in_again_and_forgets_nothing(
    gateway: Served, keys_file: Path
) -> None:
    replace(keys_file, entry("sk-poor", "poor", budgets={"requests_per_minute": 2}))
    await until_status(gateway, "sk-poor", 200)
    assert (await ask(gateway, "sk-poor")).status == 200
    assert (await ask(gateway, "sk-poor")).status == 429
    replace(keys_file, entry("sk-poor", "poor", budgets={"requests_per_minute": 4}))
    await until_status(gateway, "sk-poor", 200)
    assert (await ask(gateway, "sk-poor")).status == 200
    assert (await ask(gateway, "sk-poor")).status == 429
