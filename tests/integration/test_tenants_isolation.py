"""No namespace is answered by another's entries, joins its flights, or removes what it has: every API, every layer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from openclaw_cache.testing import running_valkey
from support.every_api import (
    APIS,
    CHAT,
    COUNT_TOKENS,
    EMBEDDINGS,
    MESSAGES,
    QUESTION,
    Api,
    answer_all,
    bearer,
    named,
    tenants,
    two_vendors,
)
from support.scripted_upstream import Gate, ScriptedUpstream
from support.served import Answer, Served, served

KEYS = [
    {"key": "sk-alpha-one", "namespace": "alpha"},
    {"key": "sk-alpha-two", "namespace": "alpha"},
    {"key": "sk-beta", "namespace": "beta"},
]
ALPHA, ALPHA_TOO, BETA = (bearer(key["key"]) for key in KEYS)
every_api = pytest.mark.parametrize("api", APIS, ids=named)
every_stream = pytest.mark.parametrize("api", [api for api in APIS if api.can_stream], ids=named)


@pytest.fixture
async def gateway(tmp_path: Path, upstream: ScriptedUpstream) -> AsyncIterator[Served]:
    async with tenants(tmp_path, upstream, KEYS) as running:
        yield running


async def ask(gateway: Served, api: Api, headers: dict[str, str], **fields: Any) -> Answer:
    answered = await gateway.ask(api.body(**fields), headers=headers, path=api.path)
    assert answered.status in (200, 504), answered.body
    return answered


# Stored replies.


@every_api
async def test_a_stored_reply_answers_its_own_namespace_and_no_other(
    gateway: Served, upstream: ScriptedUpstream, api: Api
) -> None:
    first = await ask(gateway, api, ALPHA)
    assert (await ask(gateway, api, ALPHA_TOO)).is_hit
    assert upstream.num_calls == 1
    other = await ask(gateway, api, BETA)
    assert (other.cache_status, upstream.num_calls) == ("openclaw-cache; fwd=miss; stored", 2)
    assert "age" not in other.headers
    assert (await ask(gateway, api, BETA)).is_hit
    assert upstream.calls[0].body == upstream.calls[1].body
    # Both were told the same by the upstream, so only the calls show who was answered by whom.
    assert json.loads(first.body) == json.loads(other.body)


@every_stream
async def test_a_stored_stream_answers_its_own_namespace_and_no_other(
    gateway: Served, upstream: ScriptedUpstream, api: Api
) -> None:
    await ask(gateway, api, ALPHA, stream=True)
    assert (await ask(gateway, api, ALPHA_TOO, stream=True)).is_hit
    assert (await ask(gateway, api, BETA, stream=True)).cache_status == "openclaw-cache; fwd=miss"
    assert upstream.num_calls == 2


@every_api
async def test_what_lies_in_valkey_answers_its_own_namespace_and_no_other(
    gateway: Served, upstream: ScriptedUpstream, api: Api
) -> None:
    await ask(gateway, api, ALPHA)
    await gateway.written()
    gateway.forget_memory()
    assert not (await ask(gateway, api, BETA)).is_hit
    gateway.forget_memory()
    assert (await ask(gateway, api, ALPHA)).is_hit
    assert upstream.num_calls == 2


async def test_what_another_node_has_stored_answers_its_own_namespace_and_no_other(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    secret = tmp_path / "secret"
    (tmp_path / "valkey").mkdir()
    async with running_valkey(tmp_path / "valkey") as (url, _):
        shared: dict[str, Any] = {"store__url": url, "server__secret_file": secret}
        async with tenants(tmp_path / "one", upstream, KEYS, **shared) as one:
            for api in APIS:
                await ask(one, api, ALPHA)
            await one.written()
            async with tenants(tmp_path / "two", upstream, KEYS, **shared) as two:
                for api in APIS:
                    assert not (await ask(two, api, BETA)).is_hit, api.name
                assert upstream.num_calls == 2 * len(APIS)
                for api in APIS:
                    assert (await ask(two, api, ALPHA_TOO)).is_hit, api.name
    assert upstream.num_calls == 2 * len(APIS)


async def test_each_input_of_an_embeddings_batch_belongs_to_its_namespace(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    for key, inputs in ((ALPHA, ["a", "b"]), (BETA, ["b", "c"]), (ALPHA, ["b", "c"])):
        await ask(gateway, EMBEDDINGS, key, input=inputs)
    assert [call.json()["input"] for call in upstream.calls] == [["a", "b"], ["b", "c"], ["c"]]


# Requests in the air.


@every_api
async def test_a_request_in_the_air_is_shared_within_its_namespace_and_with_no_other(
    gateway: Served, upstream: ScriptedUpstream, api: Api
) -> None:
    upstream.script = gate = Gate(answer_all)
    async with asyncio.TaskGroup() as group:
        leads = group.create_task(ask(gateway, api, ALPHA))
        await upstream.called(1)
        other = group.create_task(ask(gateway, api, BETA))
        await upstream.called(2)
        follows = group.create_task(ask(gateway, api, ALPHA_TOO))
        # A request that leads arrives upstream; when this one has, the one that follows is long inside.
        last = group.create_task(ask(gateway, api, BETA, prompt="another question"))
        await upstream.called(3)
        gate.open()
    assert upstream.num_calls == 3
    assert follows.result().cache_status == "openclaw-cache; fwd=miss; collapsed"
    for alone in (leads, other, last):
        assert alone.result().cache_status == "openclaw-cache; fwd=miss; stored"


async def test_a_stream_in_the_air_is_shared_within_its_namespace_and_with_no_other(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    upstream.script = gate = Gate(answer_all)
    async with asyncio.TaskGroup() as group:
        group.create_task(ask(gateway, CHAT, ALPHA, stream=True))
        await upstream.called(1)
        other = group.create_task(ask(gateway, CHAT, BETA, stream=True))
        await upstream.called(2)
        follows = group.create_task(ask(gateway, CHAT, ALPHA_TOO, stream=True))
        group.create_task(ask(gateway, CHAT, BETA, prompt="another question"))
        await upstream.called(3)
        gate.open()
    assert upstream.num_calls == 3
    assert follows.result().cache_status == "openclaw-cache; fwd=miss; collapsed"
    assert other.result().cache_status == "openclaw-cache; fwd=miss"


# Looking without asking.


@every_api
async def test_only_if_cached_finds_ones_own_and_says_of_anothers_what_it_says_of_none(
    gateway: Served, upstream: ScriptedUpstream, api: Api
) -> None:
    wants = {"cache-control": "only-if-cached"}
    never_asked = await ask(gateway, api, BETA | wants)
    await ask(gateway, api, ALPHA)
    anothers = await ask(gateway, api, BETA | wants)
    assert (await ask(gateway, api, ALPHA_TOO | wants)).is_hit

    def told(answer: Answer) -> tuple[Any, ...]:
        headers = {n: v for n, v in answer.headers.items() if n.lower() != "x-request-id"}
        return answer.status, headers, answer.body

    assert told(anothers) == told(never_asked)
    assert anothers.status == 504
    assert upstream.num_calls == 1


async def test_only_if_cached_does_not_tell_of_anothers_request_in_the_air(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    upstream.script = gate = Gate(answer_all)
    async with asyncio.TaskGroup() as group:
        group.create_task(ask(gateway, CHAT, ALPHA))
        await upstream.called(1)
        probe = await ask(gateway, CHAT, BETA | {"cache-control": "only-if-cached"})
        assert (probe.status, probe.cache_status) == (504, "openclaw-cache; detail=not-cached")
        gate.open()


# Replacing and removing.


@every_api
async def test_no_cache_replaces_ones_own_reply_and_no_other(
    gateway: Served, upstream: ScriptedUpstream, api: Api
) -> None:
    await ask(gateway, api, ALPHA)
    await ask(gateway, api, BETA | {"cache-control": "no-cache"})
    assert (await ask(gateway, api, ALPHA)).is_hit
    assert (await ask(gateway, api, BETA)).is_hit
    assert upstream.num_calls == 2


async def evict(gateway: Served, **order: Any) -> Any:
    url = f"{gateway.url}/admin/evict"
    async with gateway.session.post(url, json={"type": "result", **order}) as response:
        assert response.status == 200
        return await response.json()


async def test_evict_in_a_namespace_removes_that_ones_entries_from_memory_and_valkey_and_no_others(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    for key in (ALPHA, BETA):
        for api in APIS:
            await ask(gateway, api, key)
    num_calls = upstream.num_calls
    looked = await evict(gateway, pattern="*", namespace="alpha", dry_run=True)
    # One entry for each API, and two for the two inputs of the embeddings.
    assert looked["num_matched"] == len(APIS) + 1
    assert {one["namespace"] for one in looked["sample"]} == {"alpha"}
    assert QUESTION not in json.dumps(looked)
    await evict(gateway, pattern="*", namespace="alpha")
    for forgets in (False, True):
        if forgets:
            gateway.forget_memory()
        for api in APIS:
            probe = await ask(gateway, api, ALPHA | {"cache-control": "only-if-cached"})
            assert probe.status == 504, api.name
            assert (await ask(gateway, api, BETA)).is_hit, api.name
    assert upstream.num_calls == num_calls


async def test_evict_reaches_a_narrowed_namespace_by_its_own_name_or_by_a_pattern(gateway: Served) -> None:
    for name in ("alpha", "alpha/x", "alpha/y"):
        await ask(gateway, CHAT, bearer("sk-alpha-one", x_openclaw_namespace=name))
    await ask(gateway, CHAT, BETA)
    assert (await evict(gateway, pattern="*", namespace="alpha/x"))["num_matched"] == 1
    assert (await evict(gateway, pattern="alpha*"))["num_matched"] == 2
    assert (await ask(gateway, CHAT, BETA)).is_hit


# What makes a namespace.


@every_api
async def test_a_narrowed_namespace_shares_with_neither_its_parent_nor_its_siblings(
    gateway: Served, upstream: ScriptedUpstream, api: Api
) -> None:
    names = ("alpha", "alpha/x", "alpha/y", "alpha/x/y")
    for name in names:
        headers = bearer("sk-alpha-one", x_openclaw_namespace=name)
        assert not (await ask(gateway, api, headers)).is_hit, name
        assert (await ask(gateway, api, headers)).is_hit, name
    assert upstream.num_calls == len(names)
    assert all("x-openclaw-namespace" not in call.names() for call in upstream.calls)


@every_api
async def test_without_keys_the_providers_credential_is_the_namespace(
    tmp_path: Path, upstream: ScriptedUpstream, api: Api
) -> None:
    upstream.script = answer_all
    name = "x-api-key" if api in (MESSAGES, COUNT_TOKENS) else "authorization"
    async with served(tmp_path, [], upstreams=two_vendors(upstream.url)) as gateway:
        for credential in ("Bearer sk-one", "Bearer sk-two"):
            assert not (await ask(gateway, api, {name: credential})).is_hit
            assert (await ask(gateway, api, {name: credential})).is_hit
        probe = {name: "Bearer sk-three", "cache-control": "only-if-cached"}
        assert (await ask(gateway, api, probe)).status == 504
    assert [call.header(name) for call in upstream.calls] == ["Bearer sk-one", "Bearer sk-two"]


@every_api
async def test_without_keys_requests_in_the_air_of_two_credentials_are_two_calls(
    tmp_path: Path, upstream: ScriptedUpstream, api: Api
) -> None:
    upstream.script = gate = Gate(answer_all)
    async with (
        served(tmp_path, [], upstreams=two_vendors(upstream.url)) as gateway,
        asyncio.TaskGroup() as group,
    ):
        told = [group.create_task(ask(gateway, api, bearer(key))) for key in ("sk-one", "sk-two")]
        await upstream.called(2)
        gate.open()
    assert {answered.result().cache_status for answered in told} == {"openclaw-cache; fwd=miss; stored"}
