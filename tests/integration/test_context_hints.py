"""What a client says of its session reaches the engine that answered the session, and no other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("apsw")

from openclaw_cache import app as app_module
from openclaw_cache.gateway.kv_salt import KvSalt
from openclaw_cache.types import Namespace
from support.fake_engine import FakeEngine, FakePod
from support.scripted_upstream import ScriptedUpstream
from support.served import Answer, Served, chat, served

EMBEDDED = {"name": "local", "kind": "embedded", "model": "m", "device": "cpu"}
TOOLS = [{"type": "function", "function": {"name": "ls", "parameters": {"type": "object"}}}]
KEYS = [{"key": f"key-of-{n}-0123456789", "namespace": n} for n in ("red", "blue")]


@pytest.fixture
async def engine(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FakeEngine]:
    async with FakeEngine().running() as running:
        monkeypatch.setattr(app_module, "EmbeddedPod", lambda **options: FakePod(running, **options))
        yield running


@pytest.fixture
async def gateway(tmp_path: Path, engine: FakeEngine) -> AsyncIterator[Served]:
    async with served(tmp_path, [], upstreams=[EMBEDDED], memory__embedder=None) as running:
        yield running


async def ask(gateway: Served, prompt: str, key: str = "sid-1:0", **headers: str) -> None:
    body = chat(prompt, model="m", prompt_cache_key=key, tools=TOOLS)
    assert (await gateway.ask(body, headers=headers)).status == 200


async def hint(gateway: Served, session: str, state: str, **headers: str) -> int:
    body = {"session_id": session, "state": state}
    told: Answer = await gateway.ask(body, path="/v1/agents/main/hints", headers=headers)
    assert told.status == 200
    return int(told.json()["told"])


def salt(gateway: Served, namespace: str) -> str:
    secret = bytes.fromhex((gateway.app.settings.server.data_dir / "secret").read_text())
    return KvSalt(secret).of(Namespace(namespace))


async def test_the_engine_gets_the_sessions_last_prompt_and_its_namespace(
    gateway: Served, engine: FakeEngine
) -> None:
    await ask(gateway, "first")
    await ask(gateway, "second")
    await ask(gateway, "of another", key="sid-2:0")
    assert await hint(gateway, "sid-1", "tool") == 1
    (told,) = engine.seen("POST /kv/hint")
    assert told["prompt"] == {"messages": [{"role": "user", "content": "second"}], "tools": TOOLS}
    (asked, *_) = [h for w, _, _, h in engine.calls if w == "POST /v1/chat/completions"]
    assert (told["hint"], told["salt"]) == ("tool", asked["x-openclaw-kv-salt"])


async def test_one_who_brings_a_credential_of_his_own_is_told_of_under_the_salt_that_he_asked_with(
    gateway: Served, engine: FakeEngine
) -> None:
    await ask(gateway, "first", authorization="Bearer sk-own")
    assert await hint(gateway, "sid-1", "idle") == 1
    (asked,) = [h for w, _, _, h in engine.calls if w == "POST /v1/chat/completions"]
    assert engine.seen("POST /kv/hint")[0]["salt"] == asked["x-openclaw-kv-salt"] != salt(gateway, "default")


async def test_after_its_end_a_session_is_forgotten(gateway: Served, engine: FakeEngine) -> None:
    await ask(gateway, "first")
    end = {"session_id": "sid-1", "reason": "deleted"}
    told = await gateway.ask(end, path="/v1/agents/main/sessions:end")
    assert told.json() == {"told": 1}
    assert engine.seen("POST /kv/hint")[0]["hint"] == "ended"
    assert await hint(gateway, "sid-1", "tool") == 0


async def test_one_namespaces_session_is_not_anothers(tmp_path: Path, engine: FakeEngine) -> None:
    settings = {"server.keys": KEYS}
    async with served(tmp_path, [], upstreams=[EMBEDDED], memory__embedder=None, **settings) as gateway:
        red, blue = ({"authorization": f"Bearer {key['key']}"} for key in KEYS)
        await ask(gateway, "first", **red)
        assert await hint(gateway, "sid-1", "ended", **blue) == 0
        assert engine.seen("POST /kv/hint") == []
        assert await hint(gateway, "sid-1", "ended", **red) == 1
        assert engine.seen("POST /kv/hint")[0]["salt"] == salt(gateway, "red")


@pytest.mark.parametrize("refusal", [(500, "no"), (400, "the prompt has more tokens"), (404, "no such path")])
async def test_an_engine_that_refuses_is_no_error(
    gateway: Served, engine: FakeEngine, refusal: tuple[int, str]
) -> None:
    await ask(gateway, "first")
    engine.refusal = refusal
    assert await hint(gateway, "sid-1", "tool") == 0


async def test_an_engine_that_is_gone_or_has_nothing_cached_counts_as_not_told(
    gateway: Served, engine: FakeEngine
) -> None:
    await ask(gateway, "first")
    engine.num_hinted = 0
    assert await hint(gateway, "sid-1", "tool") == 0
    pod: Any = gateway.app.pods["local"]
    pod.state = "dead"
    assert await hint(gateway, "sid-1", "tool") == 0


async def test_what_an_upstream_of_somebody_elses_answers_is_not_kept(tmp_path: Path) -> None:
    async with (
        ScriptedUpstream() as upstream,
        served(tmp_path, [upstream.url], memory__embedder=None) as gateway,
    ):
        assert (await gateway.ask(chat("hi", prompt_cache_key="sid-1:0"))).status == 200
        assert await hint(gateway, "sid-1", "tool") == 0
        assert gateway.app.gateway.dispatch.session_prompts.num_bytes == 0


@pytest.mark.model
async def test_the_real_engine_takes_the_hint_for_what_it_has_cached(tmp_path: Path) -> None:
    local = {"name": "local", "kind": "embedded", "model": "smollm2-135m"}
    async with served(tmp_path, [], upstreams=[local], memory__embedder=None) as gateway:
        async with asyncio.timeout(120):
            while gateway.app.why_not_ready() is not None:
                await asyncio.sleep(0.1)
        body = chat("Tell me of Oslo. " * 20, model="smollm2-135m", prompt_cache_key="sid-1:0", max_tokens=4)
        assert (await gateway.ask(body)).status == 200
        assert await hint(gateway, "sid-1", "ended") == 1
        assert await hint(gateway, "sid-1", "ended") == 0
