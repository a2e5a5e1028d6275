"""A store of our own is not asked for what it certainly does not hold, and nothing that it holds is missed."""

from __future__ import annotations

import asyncio
import hashlib

from result_stores import DictStore

from openclaw_cache.result.key import Keyer
from openclaw_cache.result.stored_keys import StoredKeys
from openclaw_cache.types import CacheKey, Namespace

KEYER = Keyer(b"s" * 32)
TEAM = Namespace("team")


def key(number: int) -> CacheKey:
    return CacheKey(hashlib.sha256(str(number).encode()).digest())


def place(number: int) -> bytes:
    return KEYER.store_key(TEAM, key(number))


class Knowing:
    """Stored keys beside a store; `pending` is what settling writes into the store."""

    def __init__(self, *numbers: int, min_capacity: int = 100) -> None:
        self.now = 0.0
        self.store = DictStore()
        self.store.data = {place(number): b"x" for number in numbers}
        self.pending: list[int] = []
        self.stored = StoredKeys(self.store, self._settle, clock=lambda: self.now, min_capacity=min_capacity)

    async def _settle(self) -> None:
        await asyncio.sleep(0)
        self.store.data |= {place(number): b"x" for number in self.pending}

    def held(self, *numbers: int) -> set[int]:
        return {number for number in numbers if self.stored.may_hold(key(number))}

    async def scanned(self) -> None:
        self.held(0)
        for _ in range(20):
            await asyncio.sleep(0)

    @property
    def num_scans(self) -> int:
        return self.store.calls.count("scan")


async def test_until_the_scan_has_ended_every_key_may_be_there() -> None:
    knowing = Knowing(1, 2)
    knowing.store.gates["scan"] = asyncio.Event()
    for _ in range(20):
        assert knowing.held(1, 2, 3) == {1, 2, 3}
        await asyncio.sleep(0)
    knowing.store.gates["scan"].set()
    await knowing.scanned()
    assert knowing.held(1, 2, 3) == {1, 2}
    assert knowing.num_scans == 1


async def test_a_key_is_known_whenever_it_was_added() -> None:
    knowing = Knowing()
    knowing.pending = [1]
    knowing.stored.add(key(1))  # before the scan, and written while it waits
    knowing.store.gates["scan"] = asyncio.Event()
    await knowing.scanned()
    knowing.stored.add(key(2))  # during the scan, which does not see it
    knowing.store.gates["scan"].set()
    await knowing.scanned()
    knowing.stored.add(key(3))
    assert knowing.held(1, 2, 3, 4) == {1, 2, 3}


async def test_keys_of_others_in_the_store_are_passed_over() -> None:
    knowing = Knowing(1)
    knowing.store.data |= {b"r:sessions:42": b"x", b"r:": b"y", b"e:0001": b"z"}
    await knowing.scanned()
    assert knowing.held(1, 2) == {1}


async def test_a_store_that_fails_is_asked_for_everything_and_scanned_again_seconds_later() -> None:
    knowing = Knowing(1)
    knowing.store.down = True
    await knowing.scanned()
    knowing.store.down = False
    await knowing.scanned()
    assert knowing.held(1, 2) == {1, 2}
    knowing.now += 60
    await knowing.scanned()
    assert knowing.held(1, 2) == {1}


async def test_more_keys_than_the_filter_was_made_for_lead_to_one_new_scan_that_forgets_what_is_gone() -> (
    None
):
    knowing = Knowing(*range(30), min_capacity=100)
    await knowing.scanned()
    for number in range(100, 230):
        knowing.stored.add(key(number))
    del knowing.store.data[place(1)]
    knowing.store.data |= {place(number): b"x" for number in range(150, 230)}
    knowing.now += 60
    knowing.store.gates["scan"] = asyncio.Event()
    await knowing.scanned()
    assert knowing.held(1, 2, 100, 229) == {1, 2, 100, 229}  # the old one is in use
    knowing.stored.add(key(500))
    knowing.store.gates["scan"].set()
    await knowing.scanned()
    assert knowing.held(*range(2, 30), *range(150, 230)) == {*range(2, 30), *range(150, 230)}
    assert knowing.held(500) == {500}
    assert not knowing.held(1, 100)
    await knowing.scanned()
    assert knowing.num_scans == 2


async def test_a_store_of_many_keys_gets_a_filter_that_has_room_for_as_many_again() -> None:
    knowing = Knowing(*range(2000), min_capacity=10)
    await knowing.scanned()
    for number in range(2000, 3900):
        knowing.stored.add(key(number))
    knowing.now += 60
    await knowing.scanned()
    assert knowing.num_scans == 1
    assert len(knowing.held(*range(10_000, 12_000))) < 40  # 2 %, where the bound is 0.9 %


async def test_closing_ends_a_scan() -> None:
    knowing = Knowing()
    knowing.store.gates["scan"] = asyncio.Event()
    await knowing.stored.aclose()
    await knowing.scanned()
    await knowing.stored.aclose()
    await knowing.stored.aclose()
    assert len(asyncio.all_tasks()) == 1
