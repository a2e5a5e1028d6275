"""`result_cache.encryption_key_env` over a real Valkey: what lies there, who can read it, and how keys are changed."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import redis.asyncio

from openclaw_cache.testing import running_valkey
from support.every_api import APIS, CHAT, Api, answer_all, named, two_vendors
from support.scripted_upstream import ScriptedUpstream
from support.served import Answer, Served, served

WORDS = "herons roost at dusk among the alder trees"
ENCRYPTED = b"oce\x02"


def key(key_id: str) -> str:
    """A key as an operator writes it; the same id gives the same key."""
    return f"{key_id}:{base64.b64encode(hashlib.sha256(key_id.encode()).digest()).decode()}"


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[redis.asyncio.Redis]:
    (tmp_path / "valkey").mkdir()
    async with running_valkey(tmp_path / "valkey", "--appendonly", "yes") as (url, _):
        client = redis.asyncio.Redis(unix_socket_path=url.removeprefix("unix://").partition("?")[0])
        yield client
        await client.aclose()


@contextlib.asynccontextmanager
async def node(
    folder: Path, store: redis.asyncio.Redis, upstream: ScriptedUpstream, *keys: str, name: str = "node"
) -> AsyncIterator[Served]:
    """A gateway that has these keys, the current one first; with none it does not encrypt."""
    upstream.script = answer_all
    path = store.connection_pool.connection_kwargs["path"]
    settings: dict[str, Any] = {
        "upstreams": two_vendors(upstream.url),
        "store__url": f"unix://{path}?db=0",
        "server__secret_file": folder / "secret",
    }
    if keys:
        settings["result_cache__encryption_key_env"] = "STORE_KEYS"
    env = {"STORE_KEYS": ",".join(map(key, keys))}
    async with served(folder / name, [], env=env, **settings) as running:
        yield running


async def ask(gateway: Served, api: Api = CHAT, prompt: str = WORDS, **headers: str) -> Answer:
    told = {name.replace("_", "-"): value for name, value in headers.items()}
    return await gateway.ask(api.body(prompt), path=api.path, headers=told)


async def fill(gateway: Served, *prompts: str) -> None:
    for prompt in prompts:
        assert (await ask(gateway, prompt=prompt)).status == 200
    await gateway.written()


async def stored(store: redis.asyncio.Redis) -> dict[bytes, bytes]:
    """Everything that lies in the store, of whatever kind."""
    found: dict[bytes, bytes] = {}
    async for name in store.scan_iter(count=1000):
        assert await store.type(name) == b"string"
        value = await store.get(name)
        assert isinstance(value, bytes)
        found[name] = value
    return found


async def entries(store: redis.asyncio.Redis) -> dict[bytes, bytes]:
    return {name: value for name, value in (await stored(store)).items() if name.startswith(b"r:")}


def key_id_of(value: bytes) -> str:
    """The id of the key of an encrypted entry, which stands in front, behind its length."""
    assert value.startswith(ENCRYPTED)
    return value[5 : 5 + value[4]].decode()


async def history(store: redis.asyncio.Redis) -> dict[bytes, bytes]:
    """What was summed and learnt: not who wrote it on which day, and how far it was swept."""
    found = await stored(store)
    return {name: value for name, value in found.items() if name[:4] in (b"h:m:", b"h:h:", b"h:d:", b"h:t")}


async def rekey(gateway: Served) -> tuple[int, dict[str, Any]]:
    """`openclaw-cache rekey --json`: its exit code, and what it says."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "openclaw_cache", "rekey", "--json", "--url", gateway.url,
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, _ = await process.communicate()
    assert process.returncode is not None
    report: dict[str, Any] = json.loads(out)
    for count in ("num_rewritten", "num_current", "num_unreadable"):
        assert report[count] == sum(of_kind[count] for of_kind in report["by_kind"].values())
    return process.returncode, report["by_kind"]


def readable(text: bytes, told: list[str]) -> list[str]:
    """Words of at least four letters of what was said that stand in these bytes. None are there by chance."""
    return [word for one in told for word in one.split() if len(word) >= 4 and word.encode() in text]


async def test_nothing_of_prompts_and_replies_can_be_read_in_the_store_or_in_its_files(
    tmp_path: Path, store: redis.asyncio.Redis, upstream: ScriptedUpstream
) -> None:
    async def all_bytes() -> bytes:
        lies = [name + b"=" + value for name, value in (await stored(store)).items()]
        lies += [file.read_bytes() for file in (tmp_path / "valkey").rglob("*") if file.is_file()]
        return b"\n".join(lies)

    told = [WORDS, "gpt-heron claude-heron default assistant embedding finish_reason output_tokens"]
    async with node(tmp_path, store, upstream, "k1") as gateway:
        for api in APIS:
            await ask(gateway, api)
            assert (await ask(gateway, api)).is_hit
        await gateway.written()
        replies = [entry.reply for _, entry, _ in gateway.app.gateway.cache._memory.items()]
    assert len(await entries(store)) == len(replies) == len(APIS) + 1
    assert {key_id_of(value) for value in (await entries(store)).values()} == {"k1"}
    lies = await all_bytes()
    assert readable(lies, told) == []
    assert not [reply for reply in replies if reply[:24] in lies or reply[-24:] in lies]
    # So that this can fail: without a key all of it can be read.
    async with node(tmp_path, store, upstream, name="plain") as gateway:
        await fill(gateway, WORDS + " once more")
    assert set(readable(await all_bytes(), told)) >= {word for word in WORDS.split() if len(word) >= 4}


@pytest.mark.parametrize("api", APIS, ids=named)
async def test_encrypted_entries_are_hits_after_a_restart_and_on_another_node(
    tmp_path: Path, store: redis.asyncio.Redis, upstream: ScriptedUpstream, api: Api
) -> None:
    async with node(tmp_path, store, upstream, "k1") as gateway:
        first = await ask(gateway, api)
        await gateway.written()
        gateway.forget_memory()
        assert (await ask(gateway, api)).is_hit
    for name in ("node", "another"):
        async with node(tmp_path, store, upstream, "k1", name=name) as gateway:
            again = await ask(gateway, api)
            assert again.is_hit
            assert again.json() == first.json()
    assert upstream.num_calls == 1


async def test_keys_are_changed_without_losing_an_entry(
    tmp_path: Path, store: redis.asyncio.Redis, upstream: ScriptedUpstream
) -> None:
    async with node(tmp_path, store, upstream, "k1") as gateway:
        await fill(gateway, "a", "b", "c")
    before = await entries(store)
    lives = {name: await store.pttl(name) for name in before}
    async with node(tmp_path, store, upstream, "k2", "k1") as gateway:
        assert (await ask(gateway, prompt="a")).is_hit
        await fill(gateway, "d")
        ids = sorted(key_id_of(value) for value in (await entries(store)).values())
        assert ids == ["k1", "k1", "k1", "k2"]
        code, done = await rekey(gateway)
        assert (code, done["result"]) == (0, {"num_rewritten": 3, "num_current": 1, "num_unreadable": 0})
        code, done = await rekey(gateway)
        assert (code, done["result"]) == (0, {"num_rewritten": 0, "num_current": 4, "num_unreadable": 0})
        assert {key_id_of(value) for value in (await entries(store)).values()} == {"k2"}
    for name, life in lives.items():
        assert 0 < await store.pttl(name) <= life, "no entry lives longer for it"
    async with node(tmp_path, store, upstream, "k2") as gateway:
        for prompt in "abcd":
            assert (await ask(gateway, prompt=prompt)).is_hit
    assert upstream.num_calls == 4


@pytest.mark.parametrize("before", [("k1",), ()], ids=["an older key", "no key"])
async def test_history_outlives_the_key_that_it_was_kept_under(
    tmp_path: Path, store: redis.asyncio.Redis, upstream: ScriptedUpstream, before: tuple[str, ...]
) -> None:
    async def asked(gateway: Served) -> int:
        shown = (await gateway.get("/admin/history?time_range=last%201h")).json()
        assert (shown["num_nodes"], shown["is_complete"]) == (1, True)
        return sum(shown["total"]["requests"].values())

    async with node(tmp_path, store, upstream, *before) as gateway:
        await fill(gateway, "a", "b", "c")
    lies = await history(store)
    async with node(tmp_path, store, upstream, "k2", *before) as gateway:
        await fill(gateway, "d")
        code, done = await rekey(gateway)
        assert (code, done["history"]["num_unreadable"]) == (0, 0)
        assert done["history"]["num_rewritten"] >= 3  # a minute, an hour, a day
        assert await asked(gateway) == 4
    assert {key_id_of(value) for value in (await history(store)).values()} == {"k2"}
    assert set(await history(store)) >= set(lies)
    assert {await store.ttl(name) for name in await history(store)} == {-1}
    async with node(tmp_path, store, upstream, "k2") as gateway:
        assert await asked(gateway) == 4


async def test_a_rekey_that_cannot_read_history_says_so_and_leaves_it(
    tmp_path: Path, store: redis.asyncio.Redis, upstream: ScriptedUpstream
) -> None:
    async with node(tmp_path, store, upstream, "k1") as gateway:
        await fill(gateway, "a")
    lies = await history(store)
    async with node(tmp_path, store, upstream, "k2") as gateway:
        await fill(gateway, "b")
        code, done = await rekey(gateway)
        assert (code, done["history"]["num_unreadable"]) == (1, len(lies))
    found = await history(store)
    assert {name: found[name] for name in lies} == lies


async def test_what_was_stored_before_encryption_is_encrypted_by_rekey(
    tmp_path: Path, store: redis.asyncio.Redis, upstream: ScriptedUpstream
) -> None:
    async with node(tmp_path, store, upstream) as gateway:
        await fill(gateway, "a", "b")
    async with node(tmp_path, store, upstream, "k1") as gateway:
        assert (await ask(gateway, prompt="a")).is_hit
        code, done = await rekey(gateway)
        assert (code, done["result"]) == (0, {"num_rewritten": 2, "num_current": 0, "num_unreadable": 0})
        gateway.forget_memory()
        assert (await ask(gateway, prompt="b")).is_hit
    assert {key_id_of(value) for value in (await entries(store)).values()} == {"k1"}


@pytest.mark.parametrize("keys", [("k2",), ()], ids=["another key", "no key"])
async def test_an_entry_under_a_key_that_a_node_lacks_is_a_counted_miss_and_stays(
    tmp_path: Path, store: redis.asyncio.Redis, upstream: ScriptedUpstream, keys: tuple[str, ...]
) -> None:
    async with node(tmp_path, store, upstream, "k1") as gateway:
        await fill(gateway, "a")
    before = await entries(store)
    async with node(tmp_path, store, upstream, *keys) as gateway:
        for number in (1, 2):
            probe = await ask(gateway, prompt="a", cache_control="only-if-cached")
            assert probe.status == 504
            name = 'openclaw_cache_degraded_total{what="entry_key_unknown"}'
            assert await gateway.metric(name) == number
        assert (await gateway.get("/admin/status")).json()["degraded"]["entry_key_unknown"] == 2
        assert await gateway.metric('openclaw_cache_degraded_total{what="entry_corrupt"}') == 0
        if keys:
            code, done = await rekey(gateway)
            assert (code, done["result"]) == (1, {"num_rewritten": 0, "num_current": 0, "num_unreadable": 1})
        else:
            refused = await gateway.ask({}, path="/admin/rekey")
            assert (refused.status, "encryption_key_env" in refused.json()["error"]["message"]) == (409, True)
        assert await entries(store) == before
    async with node(tmp_path, store, upstream, "k1") as gateway:
        assert (await ask(gateway, prompt="a")).is_hit
    assert upstream.num_calls == 1


async def test_an_edited_or_moved_entry_is_a_counted_miss_until_a_reply_replaces_it(
    tmp_path: Path, store: redis.asyncio.Redis, upstream: ScriptedUpstream
) -> None:
    async with node(tmp_path, store, upstream, "k1") as gateway:
        await fill(gateway, "a")
        [a] = await entries(store)
        await fill(gateway, "b")
        [b] = set(await entries(store)) - {a}
        value = (await entries(store))[a]
        await store.set(b, value)  # another place's: it would answer b with the reply to a
        await store.set(a, value[:-1] + bytes([value[-1] ^ 1]))
        gateway.forget_memory()
        for prompt in "ab":
            assert (await ask(gateway, prompt=prompt, cache_control="only-if-cached")).status == 504
        assert await gateway.metric('openclaw_cache_degraded_total{what="entry_corrupt"}') == 2
        # Not removed: under a wrong key of the right name a node would remove all that its fleet has.
        assert set(await entries(store)) == {a, b}
        for prompt in "ab":
            await fill(gateway, prompt)
        gateway.forget_memory()
        for prompt in "ab":
            assert (await ask(gateway, prompt=prompt)).is_hit


async def test_evict_by_prompt_text_reads_what_is_encrypted(
    tmp_path: Path, store: redis.asyncio.Redis, upstream: ScriptedUpstream
) -> None:
    async with node(tmp_path, store, upstream, "k1") as gateway:
        await fill(gateway, "about herons", "about storks")
        gateway.forget_memory()
        order = {"type": "result", "pattern": "*herons*"}
        async with gateway.session.post(f"{gateway.url}/admin/evict", json=order) as answered:
            assert (await answered.json())["num_matched"] == 1
        assert (await ask(gateway, prompt="about storks")).is_hit
        assert len(await entries(store)) == 1
