"""The exact result cache on a real Valkey: other processes, broken bytes, kill -9."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import redis.asyncio as redis

from openclaw_cache.errors import CorruptEntryError
from openclaw_cache.result.cache import ResultCache
from openclaw_cache.result.entry import EntryCodec
from openclaw_cache.result.key import Keyer
from openclaw_cache.result.memory import MemoryTier
from openclaw_cache.result.versions import Epochs
from openclaw_cache.store.embedded import EmbeddedValkey
from openclaw_cache.store.valkey import ValkeyStore
from openclaw_cache.types import CacheKey, Entry, Namespace
from support.own_valkey import connected, own_valkey

SECRET = b"s" * 32
TEAM = Namespace("team")


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[EmbeddedValkey]:
    async with own_valkey(tmp_path) as server:
        yield server


def raw_client(server: EmbeddedValkey) -> redis.Redis:
    return redis.from_url(server.url)


def key(number: int) -> CacheKey:
    return CacheKey(hashlib.sha256(str(number).encode()).digest())


def entry(number: int, *, reply_bytes: int = 2000, ttl_s: float = 600) -> Entry:
    """An entry whose content follows from its number, so that a wrong or torn one shows."""
    now = time.time()
    return Entry(
        reply=hashlib.shake_128(str(number).encode()).digest(reply_bytes),
        model=f"model-{number % 3}",
        upstream="local",
        namespace=TEAM,
        created_at=now,
        expires_at=now + ttl_s,
        prompt_tokens=number,
        completion_tokens=None,
        has_usage=True,
        prompt=f"question {number} " * 200,
    )


def cache_on(store: ValkeyStore, degraded: list[str] | None = None) -> ResultCache:
    count = [] if degraded is None else degraded
    return ResultCache(
        MemoryTier(64 << 20), store, Keyer(SECRET), EntryCodec(SECRET), on_degraded=count.append
    )


async def kill_and_wait(server: EmbeddedValkey, store: ValkeyStore) -> None:
    """kill -9 the server, and wait until the one that replaces it answers."""
    assert server.pid is not None
    os.kill(server.pid, signal.SIGKILL)
    async with asyncio.timeout(20):
        while store.up:
            await asyncio.sleep(0.01)
        while not store.up:
            await asyncio.sleep(0.01)


async def test_an_entry_outlives_the_process_that_stored_it(server: EmbeddedValkey) -> None:
    program = (
        "import asyncio, sys\n"
        f"sys.path[:0] = {[str(Path(__file__).parent), *sys.path]!r}\n"
        "from test_result_valkey import *\n"
        "async def main():\n"
        f"    store = ValkeyStore({server.url!r}, timeout_s=1.0)\n"
        "    await store.start()\n"
        "    cache = cache_on(store)\n"
        "    cache.put(key(7), entry(7))\n"
        "    assert await cache.flush(5)\n"
        "    await store.aclose()\n"
        "asyncio.run(main())\n"
    )
    await asyncio.to_thread(subprocess.run, [sys.executable, "-c", program], check=True, timeout=60)
    async with connected(server) as store:
        cache = cache_on(store)
        assert cache.peek(key(7), time.time()) is None
        found = await cache.find(TEAM, key(7))
        assert found is not None
        assert found.reply == entry(7).reply
        assert cache.peek(key(7), time.time()) is found


async def test_the_server_forgets_an_entry_when_it_expires(server: EmbeddedValkey) -> None:
    async with connected(server) as store, raw_client(server) as client:
        cache = cache_on(store)
        cache.put(key(1), entry(1, ttl_s=600))
        await cache.flush(5)
        (place,) = await client.keys("r:*")
        assert 590_000 < await client.pttl(place) <= 600_000


@pytest.mark.parametrize("how", ["flip", "cut", "empty", "foreign", "swap"])
async def test_broken_bytes_are_a_miss_and_leave_and_the_next_reply_is_stored(
    server: EmbeddedValkey, how: str
) -> None:
    async with connected(server) as store, raw_client(server) as client:
        degraded: list[str] = []
        cache = cache_on(store, degraded)
        cache.put(key(1), entry(1))
        cache.put(key(2), entry(2))
        await cache.flush(5)
        place, other = (Keyer(SECRET).store_key(TEAM, key(number)) for number in (1, 2))
        stored = await client.get(place)
        middle = len(stored) // 2
        broken = {
            "flip": stored[:middle] + bytes([stored[middle] ^ 1]) + stored[middle + 1 :],
            "cut": stored[:middle],
            "empty": b"",
            "foreign": b"\x80\x04K\x01.",
            "swap": await client.get(other),
        }[how]
        await client.set(place, broken)

        fresh = cache_on(store, degraded)
        with pytest.raises(CorruptEntryError):
            await fresh.find(TEAM, key(1))
        assert degraded == ["entry_corrupt"]
        assert await client.exists(place) == 0
        fresh.put(key(1), entry(1))
        await fresh.flush(5)
        found = await cache_on(store).find(TEAM, key(1))
        assert found is not None
        assert found.reply == entry(1).reply


async def test_kill_9_of_the_server_in_the_middle_of_writes_leaves_entries_complete_or_absent(
    server: EmbeddedValkey,
) -> None:
    async with connected(server) as store:
        degraded: list[str] = []
        cache = cache_on(store, degraded)
        killed = False
        for number in range(600):
            cache.put(key(number), entry(number, reply_bytes=20_000))
            if number % 50 == 0:
                await asyncio.sleep(0.002)
            if number == 300:
                killed = True
                await kill_and_wait(server, store)
        assert killed
        assert await cache.flush(30)
        assert set(degraded) <= {"store_unavailable"}
        assert all(cache.peek(key(number), time.time()) for number in range(600))

        broken: list[str] = []
        fresh = cache_on(store, broken)
        found = {number: await fresh.find(TEAM, key(number)) for number in range(600)}
        kept = {number: value for number, value in found.items() if value is not None}
        assert all(value.reply == entry(number, reply_bytes=20_000).reply for number, value in kept.items())
        assert broken == []
        assert set(range(301, 600)) <= kept.keys()  # put after the server was back


async def test_kill_9_of_a_gateway_in_the_middle_of_writes_leaves_entries_complete_or_absent(
    server: EmbeddedValkey,
) -> None:
    program = (
        "import asyncio, sys\n"
        f"sys.path[:0] = {[str(Path(__file__).parent), *sys.path]!r}\n"
        "from test_result_valkey import *\n"
        "async def main():\n"
        f"    store = ValkeyStore({server.url!r}, timeout_s=1.0)\n"
        "    await store.start()\n"
        "    cache = cache_on(store)\n"
        "    for number in range(100_000):\n"
        "        cache.put(key(number), entry(number, reply_bytes=50_000))\n"
        "        if number % 10 == 9:\n"
        "            await asyncio.sleep(0)\n"
        "        if number == 100:\n"
        "            print('going', flush=True)\n"
        "asyncio.run(main())\n"
    )
    writer = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    try:
        assert writer.stdout is not None
        assert await asyncio.to_thread(writer.stdout.readline) == b"going\n"
        await asyncio.sleep(0.05)
    finally:
        writer.kill()
        writer.wait()
    async with connected(server) as store:
        broken: list[str] = []
        cache = cache_on(store, broken)
        found = {number: await cache.find(TEAM, key(number)) for number in range(400)}
        kept = {number: value for number, value in found.items() if value is not None}
        assert len(kept) > 10
        assert all(value.reply == entry(number, reply_bytes=50_000).reply for number, value in kept.items())
        assert broken == []


async def test_evict_by_prompt_text_reaches_what_other_processes_stored(server: EmbeddedValkey) -> None:
    async with connected(server) as store, raw_client(server) as client:
        writer = cache_on(store)
        for number in range(120):
            writer.put(key(number), entry(number))
        await writer.flush(10)
        await client.set("r:theirs", "x")
        await client.hset("r:a-hash", mapping={"x": "y"})
        report = await cache_on(store).evict("*question 1?? *", dry_run=True)
        assert report.num_matched == 20
        assert await client.dbsize() == 122
        report = await cache_on(store).evict("*question 1?? *")
        assert report.num_matched == 20
        assert report.num_by_model == {"model-0": 6, "model-1": 7, "model-2": 7}
        fresh = cache_on(store)
        found = [number for number in range(120) if await fresh.find(TEAM, key(number))]
        assert found == list(range(100))
        assert await client.exists("r:theirs", "r:a-hash") == 2


async def test_a_new_process_finds_all_that_its_own_store_holds_and_stops_asking_for_the_rest(
    server: EmbeddedValkey,
) -> None:
    async with connected(server) as store, raw_client(server) as client:
        writer = cache_on(store)
        for number in range(1500):
            writer.put(key(number), entry(number, reply_bytes=20))
        await writer.flush(10)

        async def num_gets() -> int:
            stats = await client.info("commandstats")
            return int(stats.get("cmdstat_get", {}).get("calls", 0))

        fresh = ResultCache(
            MemoryTier(64 << 20), store, Keyer(SECRET), EntryCodec(SECRET), on_degraded=print, exclusive=True
        )
        absent = 10_000
        async with asyncio.timeout(10):
            asked = -1
            while asked != await num_gets():  # until a question for an absent key costs no GET
                asked = await num_gets()
                absent += 1
                assert await fresh.find(TEAM, key(absent)) is None
        found = [await fresh.find(TEAM, key(number)) for number in range(1500)]
        assert all(found)
        assert await num_gets() == asked + 1500
        await fresh.aclose(5)


async def test_an_invalidation_that_was_confirmed_survives_kill_9_of_the_server(
    server: EmbeddedValkey,
) -> None:
    async with connected(server) as store:
        epochs = Epochs(store, exclusive=True)
        before = await epochs.current("m")
        assert (await epochs.bump("m")).durable
        after = await epochs.current("m")
        assert after not in (before, None)
        await kill_and_wait(server, store)
        restarted = Epochs(store, exclusive=True)  # a gateway that knows nothing yet
        assert await restarted.current("m") == after


async def test_a_server_that_comes_back_empty_gives_a_new_epoch(server: EmbeddedValkey) -> None:
    async with connected(server) as store, raw_client(server) as client:
        before = await Epochs(store, exclusive=False).current("m")
        await client.flushall()
        assert await Epochs(store, exclusive=False).current("m") not in (before, None)


async def test_nothing_older_is_served_by_a_second_node_once_an_invalidation_is_confirmed(
    server: EmbeddedValkey,
) -> None:
    async with connected(server) as store, connected(server) as other_store:
        here = Epochs(store, exclusive=False, lease_s=0.2)
        there = Epochs(other_store, exclusive=False, lease_s=0.2)
        old = await there.current("m")
        assert await here.current("m") == old
        bump = asyncio.create_task(here.bump("m"))
        while not bump.done():
            await there.current("m")
            await asyncio.sleep(0.002)
        bump.result()
        assert await there.current("m") == await here.current("m") != old
