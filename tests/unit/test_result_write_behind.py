"""Writes behind the requests: all of them, the latest of each key, in few round trips, never too many at once."""

from __future__ import annotations

import asyncio
import gc

import msgspec
import pytest
from result_stores import DictStore

from openclaw_cache.errors import StoreError
from openclaw_cache.result.entry import EntryCodec
from openclaw_cache.result.key import Keyer
from openclaw_cache.result.write_behind import WriteBehind
from openclaw_cache.types import CacheKey, Entry, Namespace

NOW = 1_760_000_000.0
SECRET = b"s" * 32
TEAM = Namespace("team")


def key(number: int) -> CacheKey:
    return CacheKey(number.to_bytes(32, "big"))


def entry(reply: bytes = b"{}", ttl_s: float = 60) -> Entry:
    return Entry(
        reply=reply,
        model="m",
        upstream="local",
        namespace=TEAM,
        created_at=NOW,
        expires_at=NOW + ttl_s,
        prompt_tokens=1,
        completion_tokens=1,
        has_usage=True,
        prompt="hi",
    )


class Writing:
    """Writes into a dict; `delay_s` is an hour unless told, so that only settling writes."""

    def __init__(self, *, delay_s: float = 3600, max_bytes: int = 1 << 30) -> None:
        self.now = NOW
        self.failures: list[StoreError] = []
        self.store = DictStore()
        self.keyer = Keyer(SECRET)
        self.codec = EntryCodec(SECRET)
        self.writes = WriteBehind(
            self.store,
            self.keyer,
            self.codec,
            on_failure=self.failures.append,
            clock=lambda: self.now,
            delay_s=delay_s,
            max_bytes=max_bytes,
        )

    def stored(self, number: int) -> Entry | None:
        place = self.keyer.store_key(TEAM, key(number))
        return self.codec.decode(place, self.store.data[place]) if place in self.store.data else None

    @property
    def num_puts(self) -> int:
        return self.store.calls.count("put")


@pytest.mark.parametrize("delay_s", [0, 0.001])
async def test_what_is_added_is_written_without_anybody_waiting_and_then_no_task_is_left(
    delay_s: float,
) -> None:
    writing = Writing(delay_s=delay_s)
    for number in range(200):
        assert writing.writes.add(key(number), entry(b"%d" % number))
        if number % 70 == 0:
            await asyncio.sleep(0.002)
    async with asyncio.timeout(10):
        while writing.writes.num_pending:
            await asyncio.sleep(0.001)
    await asyncio.sleep(0)
    assert [writing.stored(number) for number in range(200)] == [entry(b"%d" % n) for n in range(200)]
    assert writing.writes.pending_bytes == 0
    assert len(asyncio.all_tasks()) == 1


async def test_settling_does_not_wait_for_the_delay() -> None:
    writing = Writing()
    for number in range(500):
        writing.writes.add(key(number), entry())
    await writing.writes.settle()
    assert writing.num_puts == len(writing.store.data) == 500
    await writing.writes.settle()
    assert (writing.writes.num_pending, writing.writes.pending_bytes) == (0, 0)


async def test_writes_of_one_batch_are_all_sent_before_the_first_is_answered() -> None:
    writing = Writing()
    writing.store.gates["put"] = asyncio.Event()
    for number in range(10):
        writing.writes.add(key(number), entry())
    settled = asyncio.create_task(writing.writes.settle())
    await asyncio.sleep(0.01)
    assert writing.num_puts == 10
    writing.store.gates["put"].set()
    await settled


async def test_a_batch_is_bounded_in_entries_and_in_bytes() -> None:
    for reply, most in ((b"{}", 100), (b"x" * 300_000, 4)):
        writing = Writing()
        writing.store.gates["put"] = asyncio.Event()
        for number in range(300):
            writing.writes.add(key(number), entry(reply))
        settled = asyncio.create_task(writing.writes.settle())
        await asyncio.sleep(0.01)
        assert 1 < writing.num_puts <= most
        writing.store.gates["put"].set()
        await settled
        assert len(writing.store.data) == 300


async def test_the_latest_of_a_key_is_what_stays_and_one_that_still_waits_is_replaced() -> None:
    writing = Writing()
    writing.writes.add(key(1), entry(b"1"))
    size_bytes = writing.writes.pending_bytes
    writing.writes.add(key(1), entry(b"1234"))
    assert (writing.writes.num_pending, writing.writes.pending_bytes) == (1, size_bytes + 3)
    await writing.writes.settle()
    assert (writing.num_puts, writing.stored(1)) == (1, entry(b"1234"))

    writing.store.gates["put"] = asyncio.Event()
    writing.writes.add(key(1), entry(b"on its way"))
    settled = asyncio.create_task(writing.writes.settle())
    await asyncio.sleep(0.01)
    writing.writes.add(key(1), entry(b"latest"))
    writing.store.gates["put"].set()
    await settled
    await writing.writes.settle()
    assert (writing.num_puts, writing.stored(1)) == (3, entry(b"latest"))
    assert writing.writes.pending_bytes == 0


async def test_settling_ends_although_others_go_on_adding() -> None:
    writing = Writing(delay_s=0)
    writing.writes.add(key(0), entry())
    done = False

    async def add_for_ever() -> None:
        number = 0
        while not done:
            number += 1
            for _ in range(50):
                writing.writes.add(key(number), entry())
            await asyncio.sleep(0)

    adding = asyncio.create_task(add_for_ever())
    async with asyncio.timeout(10):
        await writing.writes.settle()
    done = True
    await adding
    assert writing.stored(0) == entry()
    await writing.writes.settle()


async def test_more_than_the_bound_is_refused_and_there_is_room_again_afterwards() -> None:
    writing = Writing(max_bytes=50_000)
    taken = [writing.writes.add(key(number), entry(b"x" * 10_000)) for number in range(10)]
    assert taken == [True] * 4 + [False] * 6  # 10 kB and some hundred bytes each
    assert writing.writes.pending_bytes <= 50_000
    await writing.writes.settle()
    assert len(writing.store.data) == 4
    assert writing.writes.add(key(9), entry(b"x" * 10_000))
    await writing.writes.settle()
    assert writing.stored(9) is not None


async def test_each_failure_is_told_once_and_later_writes_go_on() -> None:
    writing = Writing()
    writing.store.down = True
    for number in range(3):
        writing.writes.add(key(number), entry())
    await writing.writes.settle()
    writing.store.down = False
    writing.writes.add(key(7), entry())
    await writing.writes.settle()
    assert len(writing.failures) == 3
    assert list(writing.store.data) == [writing.keyer.store_key(TEAM, key(7))]
    assert writing.writes.pending_bytes == 0


async def test_a_life_is_counted_to_the_moment_of_the_write_and_an_ended_one_is_not_written() -> None:
    writing = Writing()
    writing.writes.add(key(1), entry(ttl_s=60))
    writing.writes.add(key(2), entry(ttl_s=20))
    writing.now += 20
    await writing.writes.settle()
    assert writing.store.ttls == {writing.keyer.store_key(TEAM, key(1)): 40}


async def test_an_entry_that_cannot_be_encoded_does_not_stop_later_ones() -> None:
    writing = Writing(delay_s=0)
    broken = msgspec.structs.replace(entry(), prompt_tokens=1 << 70)  # past what MessagePack can hold
    told: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["exception"]))
    writing.writes.add(key(1), broken)
    writing.writes.add(key(2), entry())
    await writing.writes.settle()
    writing.writes.add(key(3), entry())
    await writing.writes.settle()
    assert writing.stored(2) == writing.stored(3) == entry()
    assert (writing.writes.num_pending, writing.writes.pending_bytes) == (0, 0)
    gc.collect()
    assert [type(error) for error in told] == [OverflowError]  # it shows
