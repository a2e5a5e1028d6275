"""Rotation of keys on a real Valkey: every stored entry comes under the current key, none is lost."""

from __future__ import annotations

import hashlib
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
import redis.asyncio as redis

from openclaw_cache.errors import StoreUnavailableError
from openclaw_cache.result.cache import ResultCache
from openclaw_cache.result.encryption import EntryCipher
from openclaw_cache.result.entry import EntryCodec
from openclaw_cache.result.key import Keyer
from openclaw_cache.result.memory import MemoryTier
from openclaw_cache.result.rekey import RekeyReport, rekey
from openclaw_cache.store.embedded import EmbeddedValkey
from openclaw_cache.store.valkey import ValkeyStore
from openclaw_cache.types import CacheKey, Entry, Namespace
from support.own_valkey import connected, own_valkey

SECRET = b"s" * 32
TEAM = Namespace("team")
KEY_A, KEY_B = (hashlib.sha256(name).digest() for name in (b"a", b"b"))
PLAIN = EntryCodec(SECRET)
OF_A = EntryCodec(SECRET, EntryCipher({"a": KEY_A}))
OF_B = EntryCodec(SECRET, EntryCipher({"b": KEY_B}))
OF_B_THEN_A = EntryCodec(SECRET, EntryCipher({"b": KEY_B, "a": KEY_A}))
KEYER = Keyer(SECRET)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[EmbeddedValkey]:
    async with own_valkey(tmp_path) as server:
        yield server


@pytest.fixture
async def store(server: EmbeddedValkey) -> AsyncIterator[ValkeyStore]:
    async with connected(server) as store:
        yield store


@pytest.fixture
async def raw(server: EmbeddedValkey) -> AsyncIterator[redis.Redis]:
    async with redis.from_url(server.url) as client:
        yield client


def key(number: int) -> CacheKey:
    return CacheKey(hashlib.sha256(str(number).encode()).digest())


def place(number: int) -> bytes:
    return KEYER.store_key(TEAM, key(number))


def entry(number: int, ttl_s: float = 600) -> Entry:
    now = time.time()
    return Entry(
        reply=hashlib.shake_128(str(number).encode()).digest(500),
        model="m",
        upstream="local",
        namespace=TEAM,
        created_at=now,
        expires_at=now + ttl_s,
        prompt_tokens=number,
        completion_tokens=None,
        has_usage=True,
        prompt=f"question {number}",
    )


async def put(store: ValkeyStore, codec: EntryCodec, numbers: Sequence[int], ttl_s: float = 600) -> None:
    for number in numbers:
        await store.put(place(number), codec.encode(place(number), entry(number, ttl_s)), ttl_s)


async def ended(store: ValkeyStore, codec: EntryCodec) -> RekeyReport:
    return await rekey(store, codec, on_progress=lambda _: None)


async def test_every_entry_comes_under_the_current_key_with_its_reply(
    store: ValkeyStore, raw: redis.Redis
) -> None:
    await put(store, PLAIN, range(40))
    await put(store, OF_A, range(40, 70))
    await put(store, OF_B, range(70, 75))
    assert await ended(store, OF_B_THEN_A) == RekeyReport(num_rewritten=70, num_current=5, num_unreadable=0)
    for number in range(75):
        stored = await raw.get(place(number))
        assert stored.startswith(b"oce\x02\x01b")
        assert OF_B.decode(place(number), stored).reply == entry(number).reply
    assert await ended(store, OF_B_THEN_A) == RekeyReport(num_rewritten=0, num_current=75, num_unreadable=0)


async def test_no_plain_text_is_left_in_the_store(store: ValkeyStore, raw: redis.Redis) -> None:
    await put(store, PLAIN, range(3))
    assert b"question 1" in await raw.get(place(1))
    await ended(store, OF_A)
    assert not [number for number in range(3) if b"question" in await raw.get(place(number))]


async def test_no_entry_lives_longer_for_it(store: ValkeyStore, raw: redis.Redis) -> None:
    await put(store, PLAIN, [1], ttl_s=100)
    await put(store, PLAIN, [2], ttl_s=5000)
    before = [await raw.pexpiretime(place(number)) for number in (1, 2)]
    await ended(store, OF_A)
    after = [await raw.pexpiretime(place(number)) for number in (1, 2)]
    # Between the entry's own time and the command that carries what was left of it lies the way to the server.
    assert [abs(late - early) < 1000 for early, late in zip(before, after, strict=True)] == [True, True]


async def test_what_cannot_be_read_is_left_as_it_is(store: ValkeyStore, raw: redis.Redis) -> None:
    await put(store, OF_B, [1])
    await raw.set(place(2), b"oce\x01 torn")
    await raw.set(b"r:not-ours", b"anything")
    before = {name: await raw.get(name) for name in (place(1), place(2), b"r:not-ours")}
    assert await ended(store, OF_A) == RekeyReport(num_rewritten=0, num_current=0, num_unreadable=2)
    assert {name: await raw.get(name) for name in before} == before


async def test_an_entry_past_its_time_is_not_brought_back(store: ValkeyStore, raw: redis.Redis) -> None:
    late = entry(1, ttl_s=-1)
    await raw.set(place(1), PLAIN.encode(place(1), late))
    assert await ended(store, OF_A) == RekeyReport(0, 0, 0)
    assert (await raw.get(place(1))).startswith(b"oce\x01")


async def test_progress_is_told_as_it_goes_and_ends_at_the_report(store: ValkeyStore) -> None:
    await put(store, PLAIN, range(40))
    told: list[RekeyReport] = []
    report = await rekey(store, OF_A, on_progress=told.append)
    assert told[-1] == report
    assert [report.num_rewritten for report in told] == [16, 32, 40]


class _Meddling:
    """A store in which another client does something once, just before the second look at the entries."""

    def __init__(
        self, store: ValkeyStore, raw: redis.Redis, removes: bytes, replaces: dict[bytes, bytes]
    ) -> None:
        self._store, self._raw, self._removes, self._replaces = store, raw, removes, replaces
        self._num_looks = 0
        self.scan, self.put = store.scan, store.put

    async def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        self._num_looks += 1
        if self._num_looks == 2:
            await self._raw.delete(self._removes)
            await self._raw.mset(self._replaces)
        return await self._store.get_many(keys)


async def test_what_changed_meanwhile_is_neither_lost_nor_resurrected(
    store: ValkeyStore, raw: redis.Redis
) -> None:
    await put(store, PLAIN, [1, 2, 3])
    newer = OF_A.encode(place(2), entry(99))
    meddling = _Meddling(store, raw, removes=place(1), replaces={place(2): newer})
    report = await rekey(meddling, OF_A, on_progress=lambda _: None)  # type: ignore[arg-type]
    assert report == RekeyReport(num_rewritten=1, num_current=0, num_unreadable=0)
    assert await raw.get(place(1)) is None
    assert await raw.get(place(2)) == newer
    assert (await raw.get(place(3))).startswith(b"oce\x02\x01a")


async def test_a_cache_with_the_current_key_serves_what_was_rewritten(store: ValkeyStore) -> None:
    degraded: list[str] = []

    def cache(codec: EntryCodec) -> ResultCache:
        return ResultCache(MemoryTier(1 << 20), store, KEYER, codec, on_degraded=degraded.append)

    before = cache(OF_A)
    before.put(key(1), entry(1))
    assert await before.flush(5)
    assert (await ended(store, OF_B_THEN_A)).num_rewritten == 1
    found = await cache(OF_B).find(TEAM, key(1))
    assert found is not None
    assert found.reply == entry(1).reply
    assert degraded == []


async def test_a_rekey_that_is_broken_off_goes_on_where_it_was(store: ValkeyStore) -> None:
    await put(store, PLAIN, range(20))

    def break_off(_: RekeyReport) -> None:
        raise StoreUnavailableError("broken off after the first batch")

    with pytest.raises(StoreUnavailableError):
        await rekey(store, OF_A, on_progress=break_off)
    assert await ended(store, OF_A) == RekeyReport(num_rewritten=4, num_current=16, num_unreadable=0)
