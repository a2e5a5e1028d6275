"""Too much at once: bounds per namespace, per key and over all, and a clear 429 or 503 in the client's dialect."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from openclaw_cache.app import App
from openclaw_cache.config import load
from openclaw_cache.errors import ConfigError
from support.fault_scripts import (
    CHAT,
    COUNT_TOKENS,
    EMBEDDINGS,
    MESSAGES,
    STREAMING,
    TEXT,
    WIRES,
    Wire,
    answers,
    ask,
    breaks_after,
    is_stored,
    stalls_after,
    text_in,
    whole_bytes,
    wired,
)
from support.scripted_upstream import Exchange, Gate, ScriptedUpstream, event, sends
from support.served import Answer, Json, Served

each_dialect = pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.name)
each_stream = pytest.mark.parametrize("wire", STREAMING, ids=lambda wire: wire.name)

OF_TOKENS = ("tokens_per_minute", "tokens_per_day")  # counting tokens costs none
BUDGETS = ("requests_per_minute", "max_concurrent", *OF_TOKENS)
ALPHA = {"authorization": "Bearer sk-alpha-long-enough"}
BETA = {"authorization": "Bearer sk-beta-long-enough"}


def keys(**budgets: int) -> list[Json]:
    return [
        {"key": "sk-alpha-long-enough", "namespace": "alpha", "budgets": budgets},
        {"key": "sk-beta-long-enough", "namespace": "beta"},
    ]


def refused(wire: Wire, answered: Answer, status: int) -> str:
    assert answered.status == status
    assert int(answered.headers["retry-after"]) >= 1
    assert answered.headers["x-request-id"]
    return wire.error(answered)


async def while_one_runs(
    gateway: Served, upstream: ScriptedUpstream, wire: Wire, then: Callable[[], Awaitable[None]]
) -> None:
    """Hold one request of alpha in the air while something else happens."""
    gate = Gate(answers(wire))
    upstream.script = gate
    running = asyncio.create_task(ask(gateway, wire, "held", headers=ALPHA))
    await upstream.called()
    await then()
    gate.open()
    text_in(wire, await running)


@each_dialect
async def test_more_requests_at_once_than_a_namespace_may_have_are_429_and_others_are_not_held_up(
    tmp_path: Path, upstream: ScriptedUpstream, wire: Wire
) -> None:
    settings: Json = {"server__namespace_concurrency": 1, "server__keys": keys()}
    async with wired(tmp_path, upstream.url, **settings) as gateway:

        async def others_come() -> None:
            for headers in (ALPHA, {**ALPHA, "x-openclaw-namespace": "alpha/made-up"}):
                message = refused(wire, await ask(gateway, wire, headers=headers), 429)
                assert "server.namespace_concurrency" in message
            upstream.next_scripts = [answers(wire)]
            text_in(wire, await ask(gateway, wire, headers=BETA))

        await while_one_runs(gateway, upstream, wire, others_come)
        text_in(wire, await ask(gateway, wire, headers=ALPHA))


@pytest.mark.parametrize(
    ("wire", "budget"),
    [
        (wire, budget)
        for wire in WIRES
        for budget in BUDGETS
        if wire is not COUNT_TOKENS or budget not in OF_TOKENS
    ],
    ids=lambda value: getattr(value, "name", value),
)
async def test_a_budget_that_is_used_up_is_429_and_named(
    tmp_path: Path, upstream: ScriptedUpstream, wire: Wire, budget: str
) -> None:
    upstream.script = answers(wire)
    async with wired(tmp_path, upstream.url, server__keys=keys(**{budget: 1})) as gateway:

        async def next_one_is_refused() -> None:
            message = refused(wire, await ask(gateway, wire, "next", headers=ALPHA), 429)
            assert f"budget {budget} (1)" in message
            upstream.next_scripts = [answers(wire)]
            text_in(wire, await ask(gateway, wire, headers=BETA))

        if budget == "max_concurrent":
            await while_one_runs(gateway, upstream, wire, next_one_is_refused)
            text_in(wire, await ask(gateway, wire, "after", headers=ALPHA))
        else:
            text_in(wire, await ask(gateway, wire, headers=ALPHA))
            await next_one_is_refused()


async def test_the_official_sdks_take_a_used_up_budget_for_what_it_is(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    key = "sk-alpha-long-enough"
    async with (
        wired(tmp_path, upstream.url, server__keys=keys(requests_per_minute=1)) as gateway,
        openai.AsyncOpenAI(base_url=gateway.url + "/v1", api_key=key, max_retries=0) as of_openai,
        anthropic.AsyncAnthropic(base_url=gateway.url, api_key=key, max_retries=0) as of_anthropic,
    ):
        upstream.script = answers(CHAT)
        await ask(gateway, CHAT, headers=ALPHA)
        chat: Any = of_openai.chat.completions
        with pytest.raises(openai.RateLimitError, match="requests_per_minute"):
            await chat.create(**CHAT.body("other"))
        messages: Any = of_anthropic.messages
        with pytest.raises(anthropic.RateLimitError, match="requests_per_minute"):
            await messages.create(**MESSAGES.body("other"))


@each_dialect
async def test_bodies_beyond_max_inflight_are_503_until_there_is_room_again(
    tmp_path: Path, upstream: ScriptedUpstream, wire: Wire
) -> None:
    large = "x" * 30_000
    settings: Json = {"server__max_inflight": 50_000, "server__keys": keys()}
    async with wired(tmp_path, upstream.url, **settings) as gateway:

        async def another_is_too_much() -> None:
            message = refused(wire, await ask(gateway, wire, large, headers=BETA), 503)
            assert "server.max_inflight" in message
            upstream.next_scripts = [answers(wire)]
            text_in(wire, await ask(gateway, wire, "small", headers=BETA))

        gate = Gate(answers(wire))
        upstream.script = gate
        running = asyncio.create_task(ask(gateway, wire, large, headers=ALPHA))
        await upstream.called()
        await another_is_too_much()
        gate.open()
        text_in(wire, await running)
        text_in(wire, await ask(gateway, wire, large, headers=BETA))
        assert gateway.app.asgi._door.inflight.held_bytes == 0


@each_stream
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
async def test_a_reply_beyond_max_inflight_is_relayed_whole_but_not_stored(
    tmp_path: Path, upstream: ScriptedUpstream, wire: Wire, stream: bool
) -> None:
    text = "x" * 60_000
    upstream.script = answers(wire, text)
    async with wired(tmp_path, upstream.url, server__max_inflight=50_000) as gateway:
        assert text_in(wire, await ask(gateway, wire, stream=stream)) == text
        assert not await is_stored(gateway, wire)
        assert gateway.app.asgi._door.inflight.held_bytes == 0
        upstream.script = answers(wire, TEXT)
        assert text_in(wire, await ask(gateway, wire, stream=stream)) == TEXT
        assert await is_stored(gateway, wire)


@each_stream
async def test_a_whole_reply_that_is_too_long_to_be_held_is_a_clear_error_and_its_upstream_let_go(
    tmp_path: Path, upstream: ScriptedUpstream, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openclaw_cache.gateway.flight.MAX_WHOLE_BYTES", 100_000)

    async def endless(exchange: Exchange) -> None:
        await exchange.head(200, {"content-type": "application/json"})
        while True:
            await exchange.send(b" " * 10_000)

    upstream.script = endless
    async with wired(tmp_path, upstream.url) as gateway:
        failed = await ask(gateway, wire)
        assert failed.status == 502
        assert "ask for a stream" in wire.error(failed)
        await asyncio.wait_for(upstream.calls[0].closed.wait(), 20)
        assert gateway.app.asgi._door.inflight.held_bytes == 0


async def test_many_small_replies_together_are_bounded_as_one_large_one_is(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    """What is kept of replies in the air for readers to come counts together, whoever asks for them."""
    first = CHAT.events("x" * 6_000)[:-2]
    upstream.script = stalls_after(first)
    async with wired(tmp_path, upstream.url, server__max_inflight=50_000) as gateway:
        responses = [await gateway.send(CHAT.body(f"q{i}", stream=True)) for i in range(20)]
        for response in responses:
            assert await response.content.readexactly(len(b"".join(first))) == b"".join(first)
        inflight = gateway.app.asgi._door.inflight
        assert inflight.held_bytes < 50_000 + 20 * 1_000  # and the requests' own bodies
        for response in responses:
            response.close()
        async with asyncio.timeout(20):
            while inflight.held_bytes:
                await asyncio.sleep(0.01)


# One call for many.


@pytest.mark.parametrize(
    ("wire", "kinds"),
    [(wire, "whole") for wire in WIRES]
    + [(wire, kinds) for wire in STREAMING for kinds in ("stream", "both")],
    ids=lambda value: getattr(value, "name", value),
)
async def test_twenty_identical_requests_at_once_are_one_call(
    tmp_path: Path, upstream: ScriptedUpstream, wire: Wire, kinds: str
) -> None:
    gate = Gate(answers(wire))
    upstream.script = gate
    async with wired(tmp_path, upstream.url) as gateway:
        wants = {"whole": [False] * 20, "stream": [True] * 20, "both": [True, False] * 10}[kinds]
        tasks = [asyncio.create_task(ask(gateway, wire, stream=stream)) for stream in wants]
        await upstream.called()
        await asyncio.sleep(0.3)
        gate.open()
        answered = await asyncio.gather(*tasks)
        assert {text_in(wire, one) for one in answered} == {wire.text_of(wire.whole(TEXT))}
        assert upstream.num_calls == 1
        collapsed = sum((one.cache_status or "").endswith("; collapsed") for one in answered)
        assert collapsed == 19
        assert (await ask(gateway, wire)).is_hit


@each_dialect
async def test_a_failure_reaches_all_who_asked_the_same_and_nobody_after_them(
    tmp_path: Path, upstream: ScriptedUpstream, wire: Wire
) -> None:
    gate = Gate(whole_bytes(b"<html>", 500, {"content-type": "text/html"}))
    upstream.script = gate
    async with wired(tmp_path, upstream.url) as gateway:
        tasks = [asyncio.create_task(ask(gateway, wire)) for _ in range(5)]
        await upstream.called()
        await asyncio.sleep(0.2)
        gate.open()
        for answered in await asyncio.gather(*tasks):
            assert answered.status == 500
            assert wire.error(answered)
        assert upstream.num_calls == 1
        upstream.script = answers(wire)
        text_in(wire, await ask(gateway, wire))


@each_stream
async def test_a_stream_that_breaks_tells_all_its_readers(
    tmp_path: Path, upstream: ScriptedUpstream, wire: Wire
) -> None:
    *events, _ = wire.events(TEXT)
    gate = Gate(breaks_after(events, "close"))
    upstream.script = gate
    async with wired(tmp_path, upstream.url) as gateway:
        tasks = [asyncio.create_task(ask(gateway, wire, stream=i % 2 == 0)) for i in range(6)]
        await upstream.called()
        await asyncio.sleep(0.2)
        gate.open()
        answered = await asyncio.gather(*tasks)
        for one in answered[::2]:
            assert wire.error_at_end(one)
        for one in answered[1::2]:
            assert one.status == 502
            assert wire.error(one)
        assert upstream.num_calls == 1
        assert not await is_stored(gateway, wire)


async def test_dialects_and_namespaces_never_share_a_call_or_a_reply(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    """The same body under two paths, or two keys, is two requests."""
    async with wired(tmp_path, upstream.url, server__keys=keys()) as gateway:
        body = {**MESSAGES.body(), "input": "hi", "prompt": "hi", "store": False}
        for wire in WIRES:
            upstream.script = answers(wire, f"as {wire.name}")
            for headers in (ALPHA, BETA):
                answered = await gateway.ask(body, path=wire.path, headers=headers)
                assert text_in(wire, answered) == wire.text_of(wire.whole(f"as {wire.name}"))
        assert upstream.num_calls == 2 * len(WIRES)


@each_stream
async def test_an_error_in_the_middle_of_a_shared_stream_is_not_stored_for_those_who_come_after(
    tmp_path: Path, upstream: ScriptedUpstream, wire: Wire
) -> None:
    events = wire.events(TEXT)
    failure = event({"type": "error", "error": {"type": "api_error", "message": "out of memory"}})
    events.insert(-1, b"event: error\n" + failure)
    upstream.script = sends(*events)
    async with wired(tmp_path, upstream.url) as gateway:
        answered = await asyncio.gather(*(ask(gateway, wire, stream=True) for _ in range(3)))
        assert all(b"out of memory" in one.body for one in answered)
        assert not await is_stored(gateway, wire)


# Keys that are none.


@pytest.mark.parametrize("weak", ["sk-1234", "changeme", "PASSWORD"])
@pytest.mark.parametrize("where", ["key", "key_env", "admin_key_env"])
async def test_a_key_that_everybody_knows_is_refused_where_other_machines_can_knock(
    tmp_path: Path, weak: str, where: str
) -> None:
    env = {"CLIENT": "sk-long-enough-1", "ADMIN": "sk-long-enough-2"}
    key: dict[str, str] = {"key_env": "CLIENT"}
    if where == "key":
        key = {"key": weak}
    else:
        env["CLIENT" if where == "key_env" else "ADMIN"] = weak
    overrides: Json = {
        "server.data_dir": str(tmp_path),
        "server.host": "0.0.0.0",
        "server.keys": [key],
        "server.admin_key_env": "ADMIN",
        "upstreams": [{"name": "pods", "kind": "openai", "urls": ["http://127.0.0.1:9"]}],
    }
    settings = load(None, env={}, overrides=overrides).settings
    with pytest.raises(ConfigError) as refusal:
        await App(settings, lambda _: None, env).start()
    assert "server.admin_key_env" in str(refusal.value) or "server.keys.0" in str(refusal.value)
    assert weak not in str(refusal.value)


async def test_a_reply_of_vectors_counts_while_it_comes(tmp_path: Path, upstream: ScriptedUpstream) -> None:
    body = json.dumps(EMBEDDINGS.whole("x" * 30_000)).encode()
    go_on = asyncio.Event()

    async def pauses(exchange: Exchange) -> None:
        await exchange.head(200, {"content-type": "application/json", "content-length": str(len(body))})
        await exchange.send(body[:-1])
        await go_on.wait()
        await exchange.send(body[-1:])

    upstream.script = pauses
    async with wired(tmp_path, upstream.url, server__max_inflight=50_000) as gateway:
        asking = asyncio.create_task(ask(gateway, EMBEDDINGS))
        inflight = gateway.app.asgi._door.inflight
        async with asyncio.timeout(20):
            while inflight.held_bytes < len(body) - 1:
                await asyncio.sleep(0.005)
        refused(CHAT, await ask(gateway, CHAT), 503)
        go_on.set()
        assert text_in(EMBEDDINGS, await asking) == "x" * 30_000
        assert inflight.held_bytes == 0
