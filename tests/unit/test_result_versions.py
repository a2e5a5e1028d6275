"""Epochs: nothing older is ever served once an invalidation has reported success."""

from __future__ import annotations

import asyncio

import pytest
from result_stores import DictStore

from openclaw_cache.errors import ConfigError, StoreError
from openclaw_cache.result.versions import NUM_SLOTS, Epochs, check_secret

LEASE_S = 0.05


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def store() -> DictStore:
    return DictStore()


@pytest.fixture
def clock() -> Clock:
    return Clock()


def epochs(store: DictStore, clock: Clock, *, exclusive: bool) -> Epochs:
    return Epochs(store, exclusive=exclusive, lease_s=LEASE_S, clock=clock)


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_an_epoch_is_128_random_bits_and_stays(store: DictStore, clock: Clock) -> None:
    one = await epochs(store, clock, exclusive=False).current("m")
    assert one is not None
    assert len(one) == 16
    assert await epochs(store, clock, exclusive=True).current("m") == one
    assert await epochs(DictStore(), clock, exclusive=True).current("m") != one


async def test_a_held_epoch_needs_no_store_until_its_lease_lapses(store: DictStore, clock: Clock) -> None:
    node = epochs(store, clock, exclusive=False)
    epoch = await node.current("m")
    store.calls.clear()
    clock.now += LEASE_S * 0.49
    assert [await node.current("m") for _ in range(100)] == [epoch] * 100
    assert store.calls == []
    clock.now += LEASE_S * 0.02
    assert await node.current("m") == epoch
    await settled()
    assert store.calls == ["add"]  # renewed in the background, once


async def test_many_requests_at_once_read_an_epoch_once(store: DictStore, clock: Clock) -> None:
    node = epochs(store, clock, exclusive=False)
    assert len({*await asyncio.gather(*(node.current("m") for _ in range(50)))}) == 1
    assert store.calls == ["add"]


async def test_a_caller_that_leaves_does_not_hurt_those_who_wait_for_the_same_read(
    store: DictStore, clock: Clock
) -> None:
    node = epochs(store, clock, exclusive=False)
    leaver, stayer = asyncio.create_task(node.current("m")), asyncio.create_task(node.current("m"))
    await asyncio.sleep(0)
    leaver.cancel()
    assert await stayer is not None


@pytest.mark.parametrize("exclusive", [True, False])
async def test_a_bump_changes_the_epoch_of_its_model_and_no_other(
    store: DictStore, clock: Clock, exclusive: bool
) -> None:
    node = epochs(store, clock, exclusive=exclusive)
    before, other = await node.current("m"), await node.current("other")
    assert (await node.bump("m")).durable
    assert await node.current("m") not in (None, before)
    assert await node.current("other") == other


async def test_a_bump_is_durable_before_it_returns_and_says_where_it_cannot_be(
    store: DictStore, clock: Clock
) -> None:
    node = epochs(store, clock, exclusive=True)
    await node.bump("m")
    assert store.calls[:2] == ["put", "make_durable"]
    store.durable = False
    assert not (await node.bump("m")).durable


async def test_a_bump_on_a_shared_store_outlasts_every_lease_on_the_old_epoch(store: DictStore) -> None:
    one, two = (Epochs(store, exclusive=False, lease_s=LEASE_S) for _ in range(2))
    before = await two.current("m")
    bump = asyncio.create_task(one.bump("m"))
    while not bump.done():  # the other node renews as it likes
        await two.current("m")
        await asyncio.sleep(0.001)
    assert await two.current("m") != before
    assert await two.current("m") == await one.current("m")


async def test_a_reply_that_was_on_its_way_during_a_bump_is_not_believed(
    store: DictStore, clock: Clock
) -> None:
    node = epochs(store, clock, exclusive=True)
    before = await node.current("m")
    clock.now += 1
    store.gates["add"] = asyncio.Event()
    assert await node.current("m") == before  # starts a read in the background, which is held back
    await settled()
    bump = asyncio.create_task(node.bump("m"))
    await settled()
    store.gates["add"].set()
    await bump
    del store.gates["add"]
    assert await node.current("m") != before
    clock.now += 1
    await node.current("m")
    await settled()
    assert await node.current("m") != before


async def test_bumps_of_one_model_on_two_nodes_at_once_both_hide_what_is_older(store: DictStore) -> None:
    nodes = [Epochs(store, exclusive=False, lease_s=LEASE_S) for _ in range(2)]
    before = {await node.current("m") for node in nodes}
    await asyncio.gather(*(node.bump("m") for node in nodes))
    after = {await node.current("m") for node in nodes}
    assert len(after) == 1
    assert not after & (before | {None})


@pytest.mark.parametrize("exclusive", [True, False])
async def test_a_bump_that_cannot_be_written_raises_and_leaves_no_epoch_in_use(
    store: DictStore, clock: Clock, exclusive: bool
) -> None:
    node = epochs(store, clock, exclusive=exclusive)
    await node.current("m")
    store.down = True
    with pytest.raises(StoreError):
        await node.bump("m")
    assert await node.current("m") is None
    store.down = False
    assert await node.current("m") is not None


async def test_a_full_store_is_no_success_either(store: DictStore, clock: Clock) -> None:
    store.full = True
    node = epochs(store, clock, exclusive=True)
    assert await node.current("m") is None
    with pytest.raises(StoreError):
        await node.bump("m")


async def test_shared_store_down_past_the_lease_means_not_cacheable(store: DictStore, clock: Clock) -> None:
    node = epochs(store, clock, exclusive=False)
    epoch = await node.current("m")
    store.down = True
    clock.now += LEASE_S * 0.9
    assert await node.current("m") == epoch
    await settled()
    clock.now += LEASE_S * 0.1
    assert await node.current("m") is None
    store.down = False
    assert await node.current("m") == epoch


async def test_own_store_down_the_epoch_in_memory_stays_and_is_asked_for_in_moderation(
    store: DictStore, clock: Clock
) -> None:
    node = epochs(store, clock, exclusive=True)
    epoch = await node.current("m")
    store.down = True
    store.calls.clear()
    clock.now += 3600
    for _ in range(100):
        assert await node.current("m") == epoch
        await settled()
    assert store.calls == ["add"]


async def test_own_store_that_lost_everything_gets_the_epoch_back(store: DictStore, clock: Clock) -> None:
    node = epochs(store, clock, exclusive=True)
    epoch = await node.current("m")
    store.data.clear()
    clock.now += 1
    assert await node.current("m") == epoch
    await settled()
    assert epoch in store.data.values()


async def test_own_store_that_went_back_in_time_gets_a_new_epoch_never_one_that_was_in_use(
    store: DictStore, clock: Clock
) -> None:
    node = epochs(store, clock, exclusive=True)
    old = await node.current("m")
    snapshot = dict(store.data)
    await node.bump("m")
    newer = await node.current("m")
    store.data = snapshot
    clock.now += 1
    await node.current("m")
    await settled()
    # Not `newer` either: a write of it that the server took in late could undo a later bump.
    assert await node.current("m") not in (None, old, newer)
    assert [await node.current("m")] == list(store.data.values())


@pytest.mark.parametrize("exclusive", [True, False])
async def test_after_a_restart_a_missing_epoch_is_a_new_one(
    store: DictStore, clock: Clock, exclusive: bool
) -> None:
    epoch = await epochs(store, clock, exclusive=exclusive).current("m")
    store.data.clear()
    assert await epochs(store, clock, exclusive=exclusive).current("m") not in (None, epoch)


async def test_random_model_names_cost_bounded_space_in_the_store(store: DictStore, clock: Clock) -> None:
    node = epochs(store, clock, exclusive=True)
    for number in range(2 * NUM_SLOTS):
        await node.current(f"made-up-{number}")
    assert len(store.data) <= NUM_SLOTS
    assert await node.current("\ud800") is not None


async def test_a_store_of_another_fleet_is_refused(store: DictStore) -> None:
    await check_secret(store, b"a" * 32)
    await check_secret(store, b"a" * 32)
    with pytest.raises(ConfigError, match=r"server\.secret_file"):
        await check_secret(store, b"b" * 32)
    assert all(b"a" * 8 not in value for value in store.data.values())
