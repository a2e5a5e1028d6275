"""Hints for the provider's own cache: what goes upstream with them, and that nothing else here knows of them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from openclaw_cache.result.entry import prompt_text
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
    bearer,
    named,
    two_vendors,
)
from support.scripted_upstream import ScriptedUpstream
from support.served import Answer, Served, served

# A system prompt that every provider's cache takes: 20,000 letters are more than 4,096 tokens by any count.
LONG = "Herons stand still and wait. " * 700
MARKER = {"type": "ephemeral"}
HINTS = ("cache_control", "prompt_cache_key")


@contextlib.asynccontextmanager
async def hinting(
    folder: Path, upstream: ScriptedUpstream, hints: str = "auto", **settings: Any
) -> AsyncIterator[Served]:
    upstream.script = answer_all
    upstreams = two_vendors(upstream.url, cache_hints=hints, ask_usage=False)
    async with served(folder, [], upstreams=upstreams, result_cache__tools="cache", **settings) as running:
        yield running


def long_body(api: Api, **fields: Any) -> dict[str, Any]:
    """A request with a prefix that is worth caching."""
    if api in (MESSAGES, COUNT_TOKENS):
        return api.body("question", system=LONG, **fields)
    if api == RESPONSES:
        return api.body("question", instructions=LONG, **fields)
    if api == CHAT:
        told = [{"role": "system", "content": LONG}, {"role": "user", "content": "question"}]
        return api.body("question", messages=told, **fields)
    return api.body(LONG, **fields)


def raw(body: dict[str, Any]) -> bytes:
    """As SDKs write it."""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


async def send(gateway: Served, api: Api, body: bytes, **headers: str) -> Answer:
    answered = await gateway.ask(
        raw=body, path=api.path, headers={n.replace("_", "-"): v for n, v in headers.items()}
    )
    assert answered.status == 200, answered.body
    return answered


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_anthropic_gets_breakpoints_at_the_ends_of_tools_system_and_the_last_two_requests(
    tmp_path: Path, upstream: ScriptedUpstream, stream: bool
) -> None:
    tool = {"name": "look", "description": LONG, "input_schema": {"type": "object"}}
    messages = [
        {"role": "user", "content": "first"},
        {"role": "assistant", "content": "answer"},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "second"}]},
    ]
    body = MESSAGES.body(messages=messages, system="Be brief.", tools=[tool], stream=stream)
    async with hinting(tmp_path, upstream) as gateway:
        await send(gateway, MESSAGES, raw(body))
    expected = {
        **body,
        "tools": [{**tool, "cache_control": MARKER}],
        "system": [{"type": "text", "text": "Be brief.", "cache_control": MARKER}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "first", "cache_control": MARKER}]},
            {"role": "assistant", "content": "answer"},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "a"},
                    {"type": "text", "text": "second", "cache_control": MARKER},
                ],
            },
        ],
    }
    [call] = upstream.calls
    assert call.json() == expected
    assert call.body.count(b"cache_control") == 4  # as many as Anthropic allows


@pytest.mark.parametrize("api", [CHAT, RESPONSES], ids=named)
async def test_openai_gets_a_routing_key_behind_the_clients_own_bytes(
    tmp_path: Path, upstream: ScriptedUpstream, api: Api
) -> None:
    body = raw(long_body(api))
    async with hinting(tmp_path, upstream) as gateway:
        await send(gateway, api, body)
    [call] = upstream.calls
    assert call.body.startswith(body[:-1] + b',"prompt_cache_key":"')
    assert {n: v for n, v in call.json().items() if n != "prompt_cache_key"} == json.loads(body)
    assert 0 < len(call.json()["prompt_cache_key"]) <= 64  # longer ones OpenAI refuses
    assert call.header("content-length") == str(len(call.body))


@pytest.mark.parametrize("api", [COMPLETIONS, EMBEDDINGS, COUNT_TOKENS], ids=named)
async def test_other_apis_go_up_byte_for_byte(tmp_path: Path, upstream: ScriptedUpstream, api: Api) -> None:
    body = raw(long_body(api))
    async with hinting(tmp_path, upstream) as gateway:
        await send(gateway, api, body)
    assert upstream.calls[0].body == body


@pytest.mark.parametrize("api", APIS, ids=named)
async def test_off_sends_every_byte_as_it_came(tmp_path: Path, upstream: ScriptedUpstream, api: Api) -> None:
    # White space and an escape that no writer would choose: what is read and written again would differ.
    body = raw(long_body(api)).replace(b'{"model":', b'{ "mode\\u006c" :\n', 1)
    async with hinting(tmp_path, upstream, "off") as gateway:
        await send(gateway, api, body)
    assert upstream.calls[0].body == body


@pytest.mark.parametrize("api", [MESSAGES, CHAT, RESPONSES], ids=named)
async def test_after_a_miss_with_hints_the_clients_own_bytes_are_a_hit_and_nothing_else_knows_them(
    tmp_path: Path, upstream: ScriptedUpstream, api: Api
) -> None:
    body = raw(long_body(api))
    with capture_logs() as log:
        async with hinting(tmp_path, upstream) as gateway:
            first = await send(gateway, api, body)
            again = await send(gateway, api, body)
            assert again.is_hit
            assert again.body == first.body
            entries = [entry for _, entry, _ in gateway.app.gateway.cache._memory.items()]
            await gateway.written()
        # Hints are no part of the key: it stays a hit where they are switched off.
        async with hinting(tmp_path, upstream, "off") as gateway:
            assert (await send(gateway, api, body)).is_hit
    assert any(name.encode() in upstream.calls[0].body for name in HINTS)
    assert upstream.num_calls == 1
    for told in (*map(str, entries), str(log), first.body.decode()):
        assert not [name for name in HINTS if f'{name}": "' in told or f'"{name}":{{' in told]
    assert all("question" in prompt_text(entry) for entry in entries)


@pytest.mark.parametrize("api", [MESSAGES, CHAT, RESPONSES], ids=named)
async def test_a_clients_own_marker_is_left_alone_byte_for_byte(
    tmp_path: Path, upstream: ScriptedUpstream, api: Api
) -> None:
    if api == MESSAGES:
        system = [{"type": "text", "text": LONG, "cache_control": {"type": "ephemeral", "ttl": "1h"}}]
        body = raw(api.body("question", system=system))
    else:
        body = raw(long_body(api, prompt_cache_key="mine"))
    async with hinting(tmp_path, upstream) as gateway:
        await send(gateway, api, body)
    assert upstream.calls[0].body == body


@pytest.mark.parametrize("api", [MESSAGES, CHAT, RESPONSES], ids=named)
async def test_a_prompt_that_no_provider_would_cache_is_left_alone_byte_for_byte(
    tmp_path: Path, upstream: ScriptedUpstream, api: Api
) -> None:
    body = raw(api.body("short"))
    async with hinting(tmp_path, upstream) as gateway:
        await send(gateway, api, body)
    assert upstream.calls[0].body == body


async def test_one_conversation_has_one_routing_key_and_no_two_namespaces_share_one(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    keys = [{"key": "sk-alpha", "namespace": "alpha"}, {"key": "sk-beta", "namespace": "beta"}]
    async with hinting(tmp_path, upstream, server__keys=keys) as gateway:

        async def routing_key(tenant: str, text: str, **headers: str) -> str:
            told = [{"role": "system", "content": LONG}, {"role": "user", "content": text}]
            sent = bearer(tenant, **headers)
            assert (await gateway.ask(CHAT.body(messages=told), headers=sent)).status == 200
            key: str = upstream.calls[-1].json()["prompt_cache_key"]
            return key

        one = await routing_key("sk-alpha", "a")
        assert await routing_key("sk-alpha", "b") == one
        assert await routing_key("sk-beta", "a") != one
        narrowed = await routing_key("sk-alpha", "a", x_openclaw_namespace="alpha/x")
        talk = await routing_key("sk-alpha", "c", x_session_affinity="talk-1")
        assert await routing_key("sk-alpha", "d", x_session_affinity="talk-1") == talk
        other = await routing_key("sk-beta", "d", x_session_affinity="talk-1")
    assert len({one, narrowed, talk, other}) == 4
    assert all("talk" not in key and "alpha" not in key for key in (one, narrowed, talk))


async def test_what_a_provider_saved_thanks_to_a_hint_is_counted_as_its_own(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    with capture_logs() as log:
        async with hinting(tmp_path, upstream) as gateway:
            await send(gateway, MESSAGES, raw(long_body(MESSAGES)))
            assert await gateway.metric("openclaw_cache_upstream_cached_tokens_total") == 2000
            assert await gateway.metric('openclaw_cache_cost_usd_total{kind="saved"}') == 0
    [line] = [line for line in log if line["event"] == "request"]
    assert (line["upstream_cached_tokens"], line["computed_tokens"]) == (2000, 112)
