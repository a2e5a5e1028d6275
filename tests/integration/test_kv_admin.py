"""Operations on the KV cache through the gateway, before an engine that answers by script."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from openclaw_cache import app as app_module
from openclaw_cache.gateway.kv_salt import KvSalt
from openclaw_cache.types import Namespace
from support.fake_engine import ROWS, STATUS, FakeEngine, FakePod
from support.scripted_upstream import ScriptedUpstream, answer
from support.served import Answer, Served, chat, served

EMBEDDED = {"name": "local", "kind": "embedded", "model": "m", "device": "cpu"}
PROMPT = {"messages": [{"role": "user", "content": "hi"}]}


@pytest.fixture
async def engine() -> AsyncIterator[FakeEngine]:
    async with FakeEngine().running() as running:
        yield running


@pytest.fixture
async def gateway(
    tmp_path: Path, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Served]:
    monkeypatch.setattr(app_module, "EmbeddedPod", lambda **options: FakePod(engine, **options))
    async with served(tmp_path, [], upstreams=[EMBEDDED], kv_cache__block_size=32) as running:
        yield running


def pod(gateway: Served, name: str = "local") -> FakePod:
    found: Any = gateway.app.pods[name]
    assert isinstance(found, FakePod)
    return found


def salt(gateway: Served, namespace: str) -> str:
    secret = bytes.fromhex((gateway.app.settings.server.data_dir / "secret").read_text())
    return KvSalt(secret).of(Namespace(namespace))


async def order(gateway: Served, what: str, body: Any, **options: Any) -> Answer:
    return await gateway.ask(body, path=f"/admin/{what}", **options)


def lines(answer: Answer) -> list[Any]:
    return [json.loads(line) for line in answer.body.splitlines()]


# What the engine is started with.


async def test_an_engine_is_started_with_the_section_and_the_device_of_its_upstream(gateway: Served) -> None:
    options = pod(gateway).options
    assert options["device"] == "cpu"
    assert options["kv"] == gateway.app.settings.kv_cache.for_engine()
    assert options["kv"]["block_tokens"] == 32


# The salt.


async def test_an_engine_gets_the_salt_of_the_namespace_and_never_the_clients_own(
    gateway: Served, engine: FakeEngine
) -> None:
    forged = {"x-openclaw-kv-salt": "ab" * 32, "x-openclaw-kv-root": "x", "connection": "x-openclaw-kv-salt"}
    for headers in ({}, forged, {**forged, "x-openclaw-namespace": "team"}):
        reply = await gateway.ask(chat(model="m"), headers={"cache-control": "no-cache", **headers})
        assert reply.status == 200
    sent = [headers for what, _, _, headers in engine.calls if what.startswith("POST /v1")]
    assert [h["x-openclaw-kv-salt"] for h in sent] == [
        salt(gateway, "default"), salt(gateway, "default"), salt(gateway, "default/team"),
    ]  # fmt: skip
    assert not any("x-openclaw-kv-root" in h for h in sent)


async def test_another_upstream_gets_no_salt_at_all(tmp_path: Path) -> None:
    async with ScriptedUpstream() as upstream, served(tmp_path, [upstream.url]) as gateway:
        await gateway.ask(headers={"x-openclaw-kv-salt": "ab" * 32})
        assert not any(name.startswith("x-openclaw") for name in upstream.calls[0].names())


async def test_no_store_reaches_the_engine_which_then_keeps_the_prompt_off_its_disk(
    gateway: Served, engine: FakeEngine
) -> None:
    await gateway.ask(chat(model="m"), headers={"cache-control": "no-store"})
    (sent,) = [headers for what, _, _, headers in engine.calls if what.startswith("POST /v1")]
    assert sent["cache-control"] == "no-store"


# Status.


async def test_status_has_the_engines_own_status_per_embedded_upstream(gateway: Served) -> None:
    (upstream,) = (await gateway.get("/admin/status")).json()["upstreams"]
    assert upstream["kv"] == STATUS


async def test_status_names_why_an_engine_does_not_tell_and_does_not_wait_for_it(
    gateway: Served, engine: FakeEngine
) -> None:
    engine.silent = True
    (upstream,) = (await gateway.get("/admin/status")).json()["upstreams"]
    assert "did not answer in time" in upstream["kv"]["reason"]
    pod(gateway).state, pod(gateway).reason = "restarting", "killed by signal 9"
    (upstream,) = (await gateway.get("/admin/status")).json()["upstreams"]
    assert upstream["kv"]["reason"] == "upstream 'local': its engine is restarting (killed by signal 9)"


# Evict.


@pytest.mark.parametrize(
    ("asked", "sent"),
    [
        ({"pattern": "*"}, {"pattern": None, "salt": None, "dry_run": False, "pinned": False}),
        (
            {"pattern": "*fin*", "dry_run": True, "pinned": True},
            {"pattern": "*fin*", "salt": None, "dry_run": True, "pinned": True},
        ),
    ],
)
async def test_evict_asks_the_engine_and_reports_what_it_says(
    gateway: Served, engine: FakeEngine, asked: dict[str, Any], sent: dict[str, Any]
) -> None:
    report = (await order(gateway, "evict", {"type": "kv", **asked})).json()
    assert engine.seen("POST /kv/evict") == [sent]
    kv = report["kv"]
    assert (kv["num_blocks"], kv["num_tokens"], kv["num_pinned_blocks"]) == (7, 112, 2)
    assert report["dry_run"] is sent["dry_run"]
    counted = 'openclaw_cache_evictions_total{layer="kv",reason="pattern"}'
    assert await gateway.metric(counted) == (0 if sent["dry_run"] else 7)


async def test_evict_in_a_namespace_means_its_salt(gateway: Served, engine: FakeEngine) -> None:
    await order(gateway, "evict", {"type": "kv", "pattern": "*", "namespace": "default/team"})
    assert engine.seen("POST /kv/evict")[0]["salt"] == salt(gateway, "default/team")


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"type": "kv", "pattern": ""}, '"*" is everything'),
        ({"type": "result", "pattern": ""}, '"*" is everything'),
        ({"type": "result", "pattern": "*", "pinned": True}, "only KV can be pinned"),
        ({"type": "kv", "pattern": "*", "pined": True}, "did you mean 'pinned'?"),
    ],
)
async def test_an_eviction_that_cannot_be_meant_is_refused_by_name(
    gateway: Served, engine: FakeEngine, body: Any, named: str
) -> None:
    refused = await order(gateway, "evict", body)
    assert refused.status == 400
    assert named in refused.json()["error"]["message"]
    assert engine.seen("POST /kv/evict") == []


async def test_evict_all_removes_stored_replies_and_kv(gateway: Served, engine: FakeEngine) -> None:
    await gateway.ask(chat(model="m"))
    report = (await order(gateway, "evict", {"type": "all", "pattern": "*"})).json()
    assert (report["num_matched"], report["kv"]["num_blocks"]) == (1, 7)
    await order(gateway, "evict", {"type": "result", "pattern": "*"})
    assert len(engine.seen("POST /kv/evict")) == 1


async def test_evict_all_removes_nothing_where_an_engine_cannot(gateway: Served) -> None:
    await gateway.ask(chat(model="m"))
    pod(gateway).state = "starting"
    refused = await order(gateway, "evict", {"type": "all", "pattern": "*"})
    assert refused.status == 503
    pod(gateway).state = "ready"
    assert (await gateway.ask(chat(model="m"))).is_hit


# Warm.


async def test_warm_streams_the_engines_progress_and_sends_what_was_asked(
    gateway: Served, engine: FakeEngine
) -> None:
    prompts = [PROMPT, {"text": "once"}, {"messages": [], "tools": [{"type": "function"}]}]
    body = {"type": "kv", "prompts": prompts, "pin": "1h", "namespace": "team", "model": "m"}
    reply = await order(gateway, "warm", body)
    assert reply.headers["content-type"] == "application/x-ndjson"
    assert lines(reply) == engine.warm_lines({"prompts": prompts, "pin_s": 3600.0})
    assert engine.seen("POST /kv/warm") == [
        {"prompts": prompts, "pin_s": 3600.0, "salt": salt(gateway, "team")}
    ]


async def test_warm_without_a_namespace_serves_requests_without_one(
    gateway: Served, engine: FakeEngine
) -> None:
    await order(gateway, "warm", {"prompts": [PROMPT]})
    await gateway.ask(chat(model="m"))
    sent = next(headers for what, _, _, headers in engine.calls if what.startswith("POST /v1"))
    assert engine.seen("POST /kv/warm")[0] == {
        "prompts": [PROMPT], "pin_s": None, "salt": sent["x-openclaw-kv-salt"]
    }  # fmt: skip


async def test_each_line_of_a_warm_up_comes_when_the_engine_has_said_it(
    gateway: Served, engine: FakeEngine
) -> None:
    engine.pause = asyncio.Event()
    body = json.dumps({"prompts": [PROMPT, PROMPT]}).encode()
    async with asyncio.timeout(10), gateway.session.post(f"{gateway.url}/admin/warm", data=body) as response:
        assert json.loads(await response.content.readline())["index"] == 0
        engine.pause.set()
        assert json.loads(await response.content.readline())["index"] == 1


async def test_a_client_that_leaves_ends_the_engines_work(gateway: Served, engine: FakeEngine) -> None:
    engine.pause = asyncio.Event()
    body = json.dumps({"prompts": [PROMPT, PROMPT]}).encode()
    async with gateway.session.post(f"{gateway.url}/admin/warm", data=body) as response:
        await response.content.readline()
        response.close()
    async with asyncio.timeout(10):
        await engine.warm_ended.wait()


async def test_an_engine_that_dies_on_the_way_is_a_last_line_that_says_so(
    gateway: Served, engine: FakeEngine
) -> None:
    engine.breaks_after = 1
    first, last = lines(await order(gateway, "warm", {"prompts": [PROMPT, PROMPT]}))
    assert first["index"] == 0
    assert last["done"] is False
    assert "cannot be reached" in last["error"]


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({}, "prompts"),
        ({"prompts": []}, "prompts"),
        ({"prompts": [{}]}, "prompts.0"),
        ({"prompts": [PROMPT, {"text": "a", "messages": []}]}, "prompts.1"),
        ({"prompts": [{"prompt": "a"}]}, "prompt"),
        ({"prompts": [PROMPT], "pin": "soon"}, "pin"),
        ({"prompts": [PROMPT], "pin": 0}, "pin"),
        ({"prompts": [PROMPT], "namespace": "*"}, "namespace"),
        ({"prompts": [PROMPT], "type": "result"}, "not built yet"),
        ({"prompts": [PROMPT], "type": "memory"}, "use kv or semantic"),
        ({"prompts": [PROMPT], "pins": "1h"}, "did you mean 'pin'?"),
    ],
)
async def test_a_warm_order_that_is_wrong_is_refused_by_name(
    gateway: Served, engine: FakeEngine, body: Any, named: str
) -> None:
    refused = await order(gateway, "warm", body)
    assert refused.status == 400
    assert named in refused.json()["error"]["message"]
    assert engine.seen("POST /kv/warm") == []


# Tree.


async def test_the_tree_has_no_prompt_text_unless_it_is_asked_for(
    gateway: Served, engine: FakeEngine
) -> None:
    shown = await gateway.get("/admin/tree")
    assert b"private words" not in shown.body
    assert b"Finn" not in shown.body
    assert [row["num_tokens"] for row in shown.json()["rows"]] == [512, 20, 9]
    shown = await gateway.get("/admin/tree?text=1&limit=2&upstream=local")
    assert shown.json() == {
        "upstream": "local", "enabled": True, "roots": [], "rows": ROWS[:2], "is_cut": False
    }  # fmt: skip
    assert [query for what, query, _, _ in engine.calls if what == "GET /kv/tree"] == [
        {"limit": "200", "text": "0"}, {"limit": "2", "text": "1"},
    ]  # fmt: skip


async def test_the_tree_names_the_namespaces_of_the_settings_and_tells_no_salt(
    tmp_path: Path, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app_module, "EmbeddedPod", lambda **options: FakePod(engine, **options))
    keys = [{"key": "client-key", "namespace": "team-a"}]
    async with served(tmp_path, [], upstreams=[EMBEDDED], server__keys=keys) as gateway:
        names = ["team-a", "default/x", "default"]
        engine.tree_fields = {"roots": [{"root": i, "salt": salt(gateway, n)} for i, n in enumerate(names)]}
        shown = await gateway.get("/admin/tree")
        assert shown.json()["roots"] == [
            {"root": 0, "namespace": "team-a"}, {"root": 1, "namespace": None}, {"root": 2, "namespace": "default"},
        ]  # fmt: skip
        assert not any(salt(gateway, name).encode() in shown.body for name in names)


@pytest.mark.parametrize(
    ("query", "status", "named"),
    [
        ("limit=0", 400, "limit"), ("limit=x", 400, "limit"), ("limit=10001", 400, "limit"),
        ("txt=1", 400, "txt"), ("upstream=other", 404, "local"),
    ],
)  # fmt: skip
async def test_a_wrong_question_for_the_tree_is_refused_by_name(
    gateway: Served, query: str, status: int, named: str
) -> None:
    refused = await gateway.get(f"/admin/tree?{query}")
    assert refused.status == status
    assert named in refused.json()["error"]["message"]


# All of them.


async def ask_each(gateway: Served, headers: dict[str, str] | None = None) -> list[Answer]:
    return [
        await order(gateway, "evict", {"type": "kv", "pattern": "*"}, headers=headers),
        await order(gateway, "warm", {"prompts": [PROMPT]}, headers=headers),
        await gateway.get("/admin/tree", headers=headers),
    ]


async def test_a_loading_or_dead_engine_is_503_naming_why(gateway: Served, engine: FakeEngine) -> None:
    pod(gateway).state, pod(gateway).reason = "starting", "converting the weights"
    for refused in await ask_each(gateway):
        assert refused.status == 503
        assert "starting (converting the weights)" in refused.json()["error"]["message"]
        assert refused.headers["retry-after"] == "5"
    pod(gateway).state = "ready"
    engine.url = "http://127.0.0.1:9"  # nothing listens there
    for refused in await ask_each(gateway):
        assert refused.status == 503
        assert "cannot be reached" in refused.json()["error"]["message"]


async def test_an_engines_own_refusal_is_passed_on(gateway: Served, engine: FakeEngine) -> None:
    for status, expected in ((400, 400), (409, 409), (404, 503), (500, 503)):
        engine.refusal = (status, "the pattern is no glob")
        for refused in await ask_each(gateway):
            assert refused.status == expected
            assert "the pattern is no glob" in refused.json()["error"]["message"]


async def test_all_of_them_need_the_admin_key(
    tmp_path: Path, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app_module, "EmbeddedPod", lambda **options: FakePod(engine, **options))
    settings = {"server__admin_key_env": "ADMIN", "server__keys": [{"key": "client-key"}]}
    async with served(tmp_path, [], env={"ADMIN": "sk-admin"}, upstreams=[EMBEDDED], **settings) as gateway:
        for headers in (None, {"authorization": "Bearer client-key"}):
            assert [a.status for a in await ask_each(gateway, headers)] == [401] * 3
        # The gateway itself asks for figures, for its history.
        assert [what for what, _, _, _ in engine.calls if what != "GET /kv/status"] == []
        right = {"authorization": "Bearer sk-admin"}
        assert [a.status for a in await ask_each(gateway, right)] == [200] * 3


async def test_without_an_embedded_upstream_there_is_nothing_to_change(tmp_path: Path) -> None:
    async with ScriptedUpstream() as upstream, served(tmp_path, [upstream.url]) as gateway:
        for refused in await ask_each(gateway):
            assert refused.status == 404
            assert "embedded" in refused.json()["error"]["message"]
        assert (await order(gateway, "evict", {"type": "all", "pattern": "*"})).status == 200


async def test_with_two_engines_evict_is_for_both_and_the_others_want_one_named(
    tmp_path: Path, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app_module, "EmbeddedPod", lambda **options: FakePod(engine, **options))
    async with ScriptedUpstream() as remote:
        other = {"name": "remote", "kind": "openai", "urls": [remote.url], "models": ["gpt-*"]}
        upstreams = [EMBEDDED, EMBEDDED | {"name": "second", "model": "n"}, other]
        async with served(tmp_path, [], upstreams=upstreams) as gateway:
            evicted, warm, tree = await ask_each(gateway)
            assert (evicted.json()["kv"]["num_blocks"], evicted.json()["kv"]["num_tokens"]) == (14, 224)
            for refused in (warm, tree):
                assert refused.status == 400
                assert "local, second" in refused.json()["error"]["message"]
            assert (await order(gateway, "warm", {"prompts": [PROMPT], "model": "n"})).status == 200
            assert (await gateway.get("/admin/tree?upstream=second")).json()["upstream"] == "second"
            refused = await order(gateway, "warm", {"prompts": [PROMPT], "model": "gpt-5"})
            assert (refused.status, "remote" in refused.json()["error"]["message"]) == (400, True)


# The command line.


async def command(gateway: Served, *args: str) -> tuple[int, str, str]:
    """Run a command against the gateway; its exit code, stdout and stderr."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "openclaw_cache", *args, "--url", gateway.url,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def test_the_warm_command_sends_the_files_prompts_and_sums_up(
    gateway: Served, engine: FakeEngine, tmp_path: Path
) -> None:
    file = tmp_path / "prompts.jsonl"
    file.write_text('{"prompt": "a"}\n{"text": "b"}\n{"prompt": "a"}\n')
    code, out, err = await command(gateway, "warm", str(file), "--pin", "1h", "--namespace", "team")
    assert (code, err) == (0, "")
    assert out.startswith(
        "prompt 1 of 2: 100 tokens, 68 computed\n"
        "prompt 2 of 2: 100 tokens, 68 computed\n"
        "2 of 2 prompts warm for namespace team: 136 tokens computed, 64 were there already\n"
        "pins now: p1 (100 tokens, until"
    )
    (sent,) = engine.seen("POST /kv/warm")
    assert sent["prompts"] == [{"messages": [{"role": "user", "content": "a"}]}, {"text": "b"}]
    assert (sent["pin_s"], sent["salt"]) == (3600.0, salt(gateway, "team"))


async def test_the_warm_command_tells_of_pins_only_when_it_was_to_pin(
    gateway: Served, engine: FakeEngine, tmp_path: Path
) -> None:
    file = tmp_path / "prompts.txt"
    file.write_text("hi")
    pins = [{"id": "older", "num_tokens": 100, "expires_at": None}]
    engine.warm_lines = lambda _: [{"index": 0, "num_tokens": 1}, {"done": True, "pins": pins}]
    code, out, _ = await command(gateway, "warm", str(file))
    assert (code, "older" in out, "for namespace default:" in out) == (0, False, True)
    code, out, _ = await command(gateway, "warm", str(file), "--pin", "1h")
    assert (code, out.splitlines()[-1]) == (0, "pins now: older (100 tokens)")
    code, out, _ = await command(gateway, "warm", str(file), "--json")
    assert (code, json.loads(out)["namespace"]) == (0, "default")


async def test_each_warmed_prompt_is_a_line_in_a_pipe_as_soon_as_it_is_done(
    gateway: Served, engine: FakeEngine, tmp_path: Path
) -> None:
    engine.pause = asyncio.Event()
    file = tmp_path / "prompts.txt"
    file.write_text("hi")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "openclaw_cache", "warm", str(file), "--url", gateway.url,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    assert process.stdout is not None
    async with asyncio.timeout(30):
        assert await process.stdout.readline() == b"prompt 1 of 1: 100 tokens, 68 computed\n"
        engine.pause.set()
        assert await process.wait() == 0


async def test_the_warm_command_says_no_where_prefix_caching_is_off(
    gateway: Served, engine: FakeEngine, tmp_path: Path
) -> None:
    file = tmp_path / "prompts.txt"
    file.write_text("hi")
    engine.refusal = (409, "prefix caching is off")
    code, out, err = await command(gateway, "warm", str(file))
    assert (code, out) == (1, "")
    assert "prefix caching is off" in err


async def test_the_tree_command_says_that_the_cache_is_off(gateway: Served, engine: FakeEngine) -> None:
    engine.tree_fields = {"enabled": False, "rows": []}
    code, out, _ = await command(gateway, "tree")
    assert (code, out) == (0, "upstream local: its KV cache is off (kv_cache.enabled: false)\n")


async def test_the_warm_command_says_no_where_a_prompt_failed_or_the_engine_died(
    gateway: Served, engine: FakeEngine, tmp_path: Path
) -> None:
    file = tmp_path / "prompts.txt"
    file.write_text("hi")
    engine.warm_lines = lambda _: [
        {"index": 0, "error": "longer than the window"},
        {"done": True, "pins": []},
    ]
    code, out, _ = await command(gateway, "warm", str(file))
    assert code == 1
    assert "prompt 1 of 1 failed: longer than the window\n0 of 1 prompt warm" in out
    code, out, _ = await command(gateway, "warm", str(file), "--json")
    assert (code, json.loads(out)["failed"]) == (1, [{"index": 0, "error": "longer than the window"}])
    engine.breaks_after = 0
    code, out, _ = await command(gateway, "warm", str(file))
    assert code == 1
    assert "broken off: " in out


async def test_the_tree_command_shows_text_only_when_asked(gateway: Served) -> None:
    code, out, _ = await command(gateway, "tree")
    assert (code, "512 tokens hit" in out, "Finn" in out) == (0, True, False)
    code, out, _ = await command(gateway, "tree", "--text", "--limit", "1")
    assert (code, "You are Finn." in out, "private" in out) == (0, True, False)
    assert json.loads((await command(gateway, "tree", "--text", "--json"))[1])["rows"] == ROWS


async def test_the_status_and_evict_commands_tell_of_kv(gateway: Served, engine: FakeEngine) -> None:
    for _ in range(2):  # the first has 80 of 85 prompt tokens from the KV cache, the second is a stored reply
        await gateway.ask(chat(model="m"))
    code, out, _ = await command(gateway, "status")
    assert code == 0
    # Of the second reply's 86 tokens, its engine would have had 80 in its cache anyway.
    assert "tokens not computed │ 86 (result cache 6, kv cache 80)" in " ".join(out.split())
    assert "1 entry, " in out
    assert "kv local, hit ratio" in out
    assert "120 of 4,096 blocks" in out
    code, out, _ = await command(gateway, "--evict", "--type=kv", "--pattern=*", "--dry-run")
    assert (code, out) == (
        0,
        "7 KV blocks (112 tokens) would go; 2 pinned blocks kept (--pinned ends pins too)\n",
    )
    await command(gateway, "evict", "--type", "kv", "--pattern", "*", "--pinned")
    assert [sent["pinned"] for sent in engine.seen("POST /kv/evict")] == [False, True]


async def test_commands_for_a_loading_engine_say_no(gateway: Served, tmp_path: Path) -> None:
    pod(gateway).state = "starting"
    (tmp_path / "a.txt").write_text("hi")
    for args in (["tree"], ["warm", str(tmp_path / "a.txt")], ["evict", "--type", "kv", "--pattern", "*"]):
        code, _, err = await command(gateway, *args)
        assert (code, "its engine is starting" in err) == (1, True)


# Metrics.


async def figures(gateway: Served) -> dict[str, float]:
    text = (await gateway.get("/metrics")).body.decode()
    samples = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {name.removeprefix("openclaw_cache_"): float(value) for name, _, value in samples}


async def test_a_reply_of_the_engine_counts_its_prompt_by_tier(gateway: Served, engine: FakeEngine) -> None:
    await gateway.ask(chat(model="m"))
    assert (await gateway.ask(chat(model="m"))).is_hit  # nothing is computed or looked up for it
    found = await figures(gateway)
    counted = {
        s: found[f'prompt_tokens_total{{source="{s}"}}'] for s in ("computed", "device", "host", "disk")
    }
    assert counted == {"computed": 5, "device": 64, "host": 16, "disk": 0}
    assert found['saved_tokens_total{layer="kv"}'] == 80
    assert found['hit_ratio{layer="kv"}'] == pytest.approx(80 / 85)


async def test_an_engine_that_sends_no_header_is_counted_by_its_usage(
    gateway: Served, engine: FakeEngine
) -> None:
    engine.kv_header = None
    await gateway.ask(chat(model="m"))
    found = await figures(gateway)
    assert found['prompt_tokens_total{source="computed"}'] == 5
    assert found['prompt_tokens_total{source="device"}'] == 80
    assert found['saved_tokens_total{layer="kv"}'] == 80


@pytest.mark.parametrize(
    "cached",
    [
        {"prompt_tokens_details": {"cached_tokens": 40}},
        {"prompt_cache_hit_tokens": 40, "prompt_cache_miss_tokens": 10},
        {"cached_tokens": 40},
        {"cache_read_input_tokens": 40, "prompt_tokens_details": {"cached_tokens": 0}},
    ],
)
async def test_what_another_upstream_had_cached_counts_as_its_device_wherever_it_says_so(
    tmp_path: Path, cached: dict[str, Any]
) -> None:
    async with ScriptedUpstream() as upstream, served(tmp_path, [upstream.url]) as gateway:

        async def told(exchange: Any) -> None:
            usage = {"prompt_tokens": 50, "completion_tokens": 2, "total_tokens": 52, **cached}
            message = {"role": "assistant", "content": "x"}
            reply = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage}
            await exchange.json(
                reply, headers={"x-openclaw-kv": "computed=1, device=999"}
            )  # not ours to trust

        upstream.script = told
        await gateway.ask()
        found = await figures(gateway)
        assert found['prompt_tokens_total{source="computed"}'] == 10
        assert found['prompt_tokens_total{source="device"}'] == 40
        assert found['saved_tokens_total{layer="kv"}'] == 0
        upstream.script = answer


async def test_the_engines_figures_are_gauges_and_its_totals_survive_its_end(
    gateway: Served, engine: FakeEngine
) -> None:
    found = await figures(gateway)
    assert found['bytes{layer="kv",tier="device"}'] == 1_200_000
    assert found['capacity_bytes{layer="kv",tier="host"}'] == 80_000_000
    assert found['blocks{state="hit",tier="device"}'] == 46
    assert found['blocks{state="free",tier="host"}'] == 7920
    assert found["saved_prefill_seconds_total"] == 12.5
    assert found['evictions_total{layer="kv",reason="space"}'] == 7
    engine.status = STATUS | {"saved_prefill_s": 20.0}
    assert (await figures(gateway))["saved_prefill_seconds_total"] == 20.0
    pod(gateway).pid = 1  # another process, which has already saved more than the one before
    engine.status = STATUS | {"saved_prefill_s": 30.0, "num_evicted_blocks": {"device": 1}}
    found = await figures(gateway)
    assert found["saved_prefill_seconds_total"] == 50.0
    assert found['evictions_total{layer="kv",reason="space"}'] == 8


async def test_metrics_come_whatever_the_engine_does(gateway: Served, engine: FakeEngine) -> None:
    await figures(gateway)
    engine.silent = True
    assert (await figures(gateway))['bytes{layer="kv",tier="device"}'] == 1_200_000  # the last that it said
    engine.silent = False
    for broken in (
        [],
        "x",
        {},
        {"tiers": 1, "blocks": [], "num_evicted_blocks": None, "saved_prefill_s": "1"},
    ):
        engine.status = broken
        assert (await figures(gateway))["saved_prefill_seconds_total"] == 12.5
    engine.status = STATUS
    await figures(gateway)
    pod(gateway).state = "restarting"
    assert (await figures(gateway))['bytes{layer="kv",tier="device"}'] == 0
