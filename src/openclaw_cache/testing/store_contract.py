"""What every byte store does."""
# ruff: noqa: S101 - these are tests: assert is how they speak

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

import pytest

from openclaw_cache.errors import StoreUnavailableError

if TYPE_CHECKING:
    from openclaw_cache.store.store import Store

AWKWARD = [b"", b"\r\n", b"$-1\r\n", b"\x00\xff" * 3, b"*[?]\\^-", "键".encode(), b"x" * 100_000]


@pytest.mark.asyncio
class StoreContract:
    """What every `Store` does. A subclass gives the fixture `store`: connected, and empty for each test."""

    async def test_an_absent_key_is_none(self, store: Store) -> None:
        """Absence is a value, not an error."""
        assert await store.get(b"absent") is None

    @pytest.mark.parametrize("blob", AWKWARD, ids=range(len(AWKWARD)))
    async def test_any_bytes_come_back_as_key_and_as_value(self, store: Store, blob: bytes) -> None:
        """Keys and values are bytes: no text, no limits of a protocol."""
        await store.put(b"value", blob)
        await store.put(b"key:" + blob, b"found")
        assert await store.get(b"value") == blob
        assert await store.get(b"key:" + blob) == b"found"

    async def test_a_value_of_8_mb_comes_back(self, store: Store) -> None:
        """Size alone is no failure."""
        blob = random.Random(8).randbytes(8 << 20)  # noqa: S311 - repeatable noise, no secret
        await store.put(b"big", blob, ttl_s=60)
        assert await store.get(b"big") == blob

    async def test_put_replaces(self, store: Store) -> None:
        """The last value wins."""
        await store.put(b"k", b"one")
        await store.put(b"k", b"two")
        assert await store.get(b"k") == b"two"

    async def test_a_value_with_a_ttl_goes_and_one_without_stays(self, store: Store) -> None:
        """An expiry belongs to the put that set it."""
        await store.put(b"brief", b"v", ttl_s=0.05)
        await store.put(b"renewed", b"v", ttl_s=0.05)
        await store.put(b"renewed", b"kept")
        await store.put(b"long", b"v", ttl_s=3600)
        async with asyncio.timeout(10):
            while await store.get(b"brief") is not None:  # noqa: ASYNC110 - the server's clock is the rule here
                await asyncio.sleep(0.02)
        assert await store.get(b"renewed") == b"kept"
        assert await store.get(b"long") == b"v"

    async def test_add_keeps_what_is_there(self, store: Store) -> None:
        """Add never replaces, and says what is stored."""
        assert await store.add(b"epoch", b"first") == b"first"
        assert await store.add(b"epoch", b"second") == b"first"
        assert await store.get(b"epoch") == b"first"

    async def test_concurrent_adds_agree_on_one_value(self, store: Store) -> None:
        """Of many adds at once exactly one wins, and everybody learns which."""
        answers = await asyncio.gather(*(store.add(b"epoch", b"%d" % number) for number in range(100)))
        assert set(answers) == {await store.get(b"epoch")}

    async def test_delete_counts_the_keys_that_existed(self, store: Store) -> None:
        """Delete is idempotent and says what it did."""
        await store.put(b"a", b"1")
        await store.put(b"b", b"2")
        assert await store.delete(b"a", b"b", b"absent") == 2
        assert await store.delete(b"a") == 0
        assert await store.delete() == 0
        assert await store.get(b"a") is None

    async def test_get_many_answers_in_the_order_of_its_keys(self, store: Store) -> None:
        """One answer for each key asked, repeats and absent ones included."""
        await store.put(b"a", b"1")
        await store.put(b"b", b"2")
        assert await store.get_many([b"b", b"absent", b"a", b"b"]) == [b"2", None, b"1", b"2"]
        assert await store.get_many([]) == []

    async def test_scan_takes_its_prefix_literally(self, store: Store) -> None:
        """No byte of a prefix is a wildcard."""
        for prefix in (b"a*", b"a?", b"a[b]", b"a\\", b"a^", b"a-", b"ab", b"a"):
            await store.put(prefix + b":1", b"")
        for prefix in (b"a*", b"a?", b"a[b]", b"a\\", b"a^", b"a-", b"ab"):
            assert {key async for key in store.scan(prefix)} == {prefix + b":1"}
        assert {key async for key in store.scan(b"a[")} == {b"a[b]:1"}
        assert [key async for key in store.scan(b"none")] == []

    async def test_scan_finds_each_of_many_keys(self, store: Store) -> None:
        """A scan of many steps misses nothing, and an empty prefix means everything."""
        keys = {b"key:%d" % number for number in range(3000)}
        await asyncio.gather(*(store.put(key, b"v") for key in keys))
        await store.put(b"other", b"v")
        assert {key async for key in store.scan(b"key:")} == keys
        assert {key async for key in store.scan(b"")} == keys | {b"other"}

    async def test_keys_deleted_during_a_scan_do_not_disturb_it(self, store: Store) -> None:
        """Scan and delete is how eviction works."""
        keys = {b"key:%d" % number for number in range(2000)}
        await asyncio.gather(*(store.put(key, b"v") for key in keys))
        async for key in store.scan(b"key:"):
            await store.delete(key)
        assert [key async for key in store.scan(b"key:")] == []

    async def test_make_durable_is_what_info_promises(self, store: Store) -> None:
        """A store without an append-only file says False and never pretends; no trace stays behind."""
        await store.put(b"k", b"v")
        assert await store.make_durable() is (await store.info()).durable
        assert await store.get(b"k") == b"v"

    async def test_info_counts_keys_and_bytes(self, store: Store) -> None:
        """The figures move with the contents."""
        before = await store.info()
        await store.put(b"k", b"v" * 100_000)
        after = await store.info()
        assert (before.num_keys, after.num_keys) == (0, 1)
        assert after.used_bytes >= before.used_bytes + 100_000
        assert after.version[0].isdigit()

    async def test_each_of_10000_concurrent_gets_receives_its_own_value(self, store: Store) -> None:
        """Replies are never swapped."""
        await asyncio.gather(*(store.put(b"%d" % number, b"v%d" % number) for number in range(10_000)))
        values = await asyncio.gather(*(store.get(b"%d" % number) for number in range(10_000)))
        assert values == [b"v%d" % number for number in range(10_000)]

    async def test_cancelled_callers_do_not_shift_replies(self, store: Store) -> None:
        """Whoever leaves takes only his own answer along."""
        chance = random.Random(7)  # noqa: S311 - repeatable choice, no secret
        await asyncio.gather(*(store.put(b"%d" % number, b"v%d" % number) for number in range(200)))
        for _ in range(20):
            gets = [asyncio.create_task(_get(store, number)) for number in range(200)]
            for _ in range(chance.randrange(4)):
                await asyncio.sleep(0)
            leavers = set(chance.sample(range(200), 100))
            for number in leavers:
                gets[number].cancel()
            results = await asyncio.gather(*gets, return_exceptions=True)
            for number, result in enumerate(results):
                if number not in leavers:
                    assert result == b"v%d" % number

    async def test_a_closed_store_is_unavailable(self, store: Store) -> None:
        """After aclose nothing waits and nothing pretends."""
        was_up = store.up
        await store.aclose()
        await store.aclose()
        assert (was_up, store.up) == (True, False)
        with pytest.raises(StoreUnavailableError):
            await store.get(b"k")

    async def test_aclose_lets_writes_in_flight_arrive(self, store: Store) -> None:
        """Closing is not a way to lose what was already handed over."""
        puts = [asyncio.create_task(_put(store, number)) for number in range(100)]
        await asyncio.sleep(0)
        await store.aclose()
        assert await asyncio.gather(*puts) == [None] * 100


async def _get(store: Store, number: int) -> bytes | None:
    return await store.get(b"%d" % number)


async def _put(store: Store, number: int) -> None:
    await store.put(b"%d" % number, b"v")
