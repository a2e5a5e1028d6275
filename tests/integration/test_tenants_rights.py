"""What a key may do with the cache, in every API: read it, write it, both, or neither."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from support.every_api import APIS, Api, answer_all, bearer, named, tenants
from support.scripted_upstream import Gate, ScriptedUpstream
from support.served import Answer, Served

KEYS: list[dict[str, Any]] = [
    {"key": "sk-both", "namespace": "team"},
    {"key": "sk-reads", "namespace": "team", "cache": ["read"]},
    {"key": "sk-writes", "namespace": "team", "cache": ["write"]},
    {"key": "sk-neither", "namespace": "team", "cache": []},
]
BOTH, READS, WRITES, NEITHER = (bearer(key["key"]) for key in KEYS)
BYPASS = "openclaw-cache; fwd=bypass; detail=key-rights"
every_api = pytest.mark.parametrize("api", APIS, ids=named)


@pytest.fixture
async def gateway(tmp_path: Path, upstream: ScriptedUpstream) -> AsyncIterator[Served]:
    async with tenants(tmp_path, upstream, KEYS) as running:
        yield running


async def ask(gateway: Served, api: Api, headers: dict[str, str], **fields: Any) -> Answer:
    answered = await gateway.ask(api.body(**fields), headers=headers, path=api.path)
    assert answered.status in (200, 504), answered.body
    return answered


@every_api
async def test_a_key_that_may_only_read_gets_stored_replies_and_stores_none(
    gateway: Served, upstream: ScriptedUpstream, api: Api
) -> None:
    assert (await ask(gateway, api, READS)).cache_status == BYPASS
    assert (await ask(gateway, api, BOTH)).cache_status == "openclaw-cache; fwd=miss; stored"
    assert upstream.num_calls == 2
    assert (await ask(gateway, api, READS)).is_hit
    assert (await ask(gateway, api, READS | {"cache-control": "no-cache"})).cache_status is not None
    await gateway.written()
    gateway.forget_memory()
    assert (await ask(gateway, api, READS)).is_hit
    assert upstream.num_calls == 3


@every_api
async def test_a_key_that_may_only_write_stores_for_others_and_never_gets_a_stored_reply(
    gateway: Served, upstream: ScriptedUpstream, api: Api
) -> None:
    for number in (1, 2):
        assert (await ask(gateway, api, WRITES)).cache_status == f"{BYPASS}; stored"
        assert upstream.num_calls == number
    assert (await ask(gateway, api, WRITES | {"cache-control": "only-if-cached"})).status == 504
    assert (await ask(gateway, api, BOTH)).is_hit
    assert (await ask(gateway, api, READS)).is_hit
    assert upstream.num_calls == 2


@every_api
async def test_a_key_that_may_do_neither_uses_the_cache_in_no_way(
    gateway: Served, upstream: ScriptedUpstream, api: Api
) -> None:
    assert (await ask(gateway, api, NEITHER)).cache_status == BYPASS
    await ask(gateway, api, BOTH)
    assert (await ask(gateway, api, NEITHER)).cache_status == BYPASS
    assert (await ask(gateway, api, NEITHER | {"cache-control": "only-if-cached"})).status == 504
    assert upstream.num_calls == 3


@every_api
async def test_a_key_without_both_rights_neither_leads_nor_follows_a_request_in_the_air(
    gateway: Served, upstream: ScriptedUpstream, api: Api
) -> None:
    upstream.script = gate = Gate(answer_all)
    async with asyncio.TaskGroup() as group:
        told = []
        for number, key in enumerate((READS, WRITES, NEITHER, BOTH, READS, WRITES, NEITHER), 1):
            told.append(group.create_task(ask(gateway, api, key)))
            await upstream.called(number)
        gate.open()
    # What a key that writes has stored meanwhile is as new as this one's: either may stay.
    by_both = told.pop(3).result().cache_status
    assert by_both in ("openclaw-cache; fwd=miss", "openclaw-cache; fwd=miss; stored")
    assert {one.result().cache_status for one in told} == {BYPASS, f"{BYPASS}; stored"}


@every_api
async def test_what_is_asked_with_no_cache_by_a_key_that_may_only_read_replaces_nothing(
    gateway: Served, upstream: ScriptedUpstream, api: Api
) -> None:
    await ask(gateway, api, BOTH)
    stored = await ask(gateway, api, BOTH)
    await asyncio.sleep(1.1)  # ages are whole seconds
    await ask(gateway, api, READS | {"cache-control": "no-cache"})
    again = await ask(gateway, api, BOTH)
    assert (again.is_hit, again.body) == (True, stored.body)
    assert int(again.headers["age"]) >= 1
