"""History on a real Valkey: restarts, several gateways, a store that is away, damage, clocks, and what is too old."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import redis.asyncio as redis

from openclaw_cache.errors import StoreUnavailableError
from openclaw_cache.history.buckets import DAY_S, DAYS, HOUR_S, MINUTES, Bucket
from openclaw_cache.result.encryption import EntryCipher
from openclaw_cache.store.embedded import EmbeddedValkey
from openclaw_cache.store.remote import RemoteStore
from openclaw_cache.store.valkey import ValkeyStore
from support.cluster_store import opened
from support.history_node import HERE, THERE, Clock, Node
from support.own_valkey import connected, own_valkey
from support.records import NOON, answered, missed
from support.valkey_cluster import Cluster, running_cluster


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[EmbeddedValkey]:
    async with own_valkey(tmp_path) as server:
        yield server


@pytest.fixture
async def store(server: EmbeddedValkey) -> AsyncIterator[ValkeyStore]:
    async with connected(server, timeout_s=2.0) as running:
        yield running


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture(params=["one server", "a cluster"])
async def any_store(
    request: pytest.FixtureRequest, server: EmbeddedValkey, cluster: Cluster
) -> AsyncIterator[RemoteStore]:
    """What holds for one server holds for a cluster: the keys of one gateway lie on all its nodes."""
    if request.param == "one server":
        async with connected(server, timeout_s=2.0) as running:
            yield running
        return
    await cluster.flush()
    store = await opened(cluster.url)
    yield store
    await store.aclose()


@pytest.fixture
def clock() -> Clock:
    return Clock()


async def test_a_restart_goes_on_where_it_stopped(any_store: RemoteStore, clock: Clock) -> None:
    first = Node(any_store, clock)
    first.history.add(missed())
    first.history.add(answered())
    await first.keeping.flush()
    second = Node(any_store, clock)
    assert (await second.last(60, clock)).num_requests == 2
    second.history.add(answered(saved_s=0.5))
    assert (await second.last(60, clock)).num_requests == 3  # before it knows what it had stored
    await second.keeping.flush()
    third = Node(any_store, clock)
    found = await third.last(60, clock)
    assert (found.num_requests, found.line().spent, found.line().saved) == (3, 700, 1000)
    assert found.line().saved_us == 2_000_000
    clock.pass_by(3 * DAY_S)
    assert (await third.history.between(NOON - HOUR_S, NOON + HOUR_S)).num_requests == 3
    assert (await third.last(30 * DAY_S, clock)).num_requests == 3


async def test_gateways_that_share_a_store_add_up(any_store: RemoteStore, clock: Clock) -> None:
    nodes = [Node(any_store, clock, f"{i:016x}") for i in range(5)]
    for i, node in enumerate(nodes):
        for _ in range(i + 1):
            node.history.add(answered(agent=f"agent-{i}"))
    await asyncio.gather(*(node.keeping.flush() for node in nodes))
    clock.pass_by(6)
    for node in (*nodes, Node(any_store, clock, "f" * 16)):
        found = await node.last(60, clock)
        assert found.num_requests == 15
        assert found.line().saved == 15 * 500
        assert len(found.nodes) == 5
    [point] = [p for p in await nodes[0].history.series(NOON - 300, NOON + 60, 10) if p.num_requests]
    assert (point.start_at, point.span_s, point.num_requests) == (NOON, 60, 15)


async def test_two_gateways_that_write_at_the_same_time_lose_nothing(
    any_store: RemoteStore, clock: Clock
) -> None:
    nodes = [Node(any_store, clock, HERE), Node(any_store, clock, THERE)]

    async def work(node: Node) -> None:
        for i in range(200):
            node.history.add(answered(at=NOON + i))
            if i % 5 == 0:
                await node.keeping.flush()
        await node.keeping.flush()

    await asyncio.gather(*map(work, nodes))
    clock.pass_by(300)
    found = await Node(any_store, clock, "c" * 16).last(400, clock)
    assert (found.num_requests, found.line().saved) == (400, 400 * 500)


async def test_a_store_that_is_away_costs_no_request_and_gets_everything_later(
    server: EmbeddedValkey, store: ValkeyStore, clock: Clock
) -> None:
    node = Node(store, clock)
    node.history.add(missed())
    await node.keeping.flush()
    pid = server.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    for i in range(90):
        node.history.add(answered(at=clock.now))
        if i % 30 == 0:
            await node.keeping.flush()
        clock.pass_by(60)
    assert (await node.last(2 * HOUR_S, clock)).num_requests == 91  # from memory
    assert not node.history.is_complete
    assert set(node.degraded) == {"history"}
    os.kill(pid, signal.SIGCONT)
    async with asyncio.timeout(20):
        while not store.up:
            await asyncio.sleep(0.05)
    await node.keeping.flush()
    found = await Node(store, clock, THERE).last(2 * HOUR_S, clock)
    assert (found.num_requests, found.line().saved) == (91, 90 * 500)


@pytest.mark.parametrize("order", ["put", "claim"], ids=["a sum", "the list of gateways"])
async def test_what_the_store_refuses_once_is_written_next_time(
    any_store: RemoteStore, clock: Clock, monkeypatch: pytest.MonkeyPatch, order: str
) -> None:
    node = Node(any_store, clock)
    node.history.add(missed())
    await node.keeping.flush()
    clock.pass_by(DAY_S)
    node.history.add(answered(at=clock.now))

    async def fails(*_: object, **__: object) -> None:
        raise StoreUnavailableError("gone")

    with monkeypatch.context() as broken:
        if order == "put":
            broken.setattr(any_store, "put", fails)
        else:
            broken.setattr(node.archive.nodes, "claim", fails)
        await node.keeping.flush()
        assert node.degraded == ["history"]
    await node.keeping.flush()
    assert node.degraded == ["history"]
    assert (await Node(any_store, clock, THERE).last(2 * DAY_S, clock)).num_requests == 2


async def test_a_store_that_was_away_at_the_start_is_added_to_not_overwritten(
    server: EmbeddedValkey, store: ValkeyStore, clock: Clock
) -> None:
    before = Node(store, clock)
    before.history.add(missed())
    await before.keeping.flush()
    late = Node(store, clock)
    late.may_use = False  # it is not known yet whose store it is
    late.history.add(answered())
    await late.keeping.flush()
    assert (await late.last(60, clock)).num_requests == 1
    assert not late.history.is_complete
    late.may_use = True
    await late.keeping.flush()
    assert (await Node(store, clock, THERE).last(60, clock)).num_requests == 2


async def test_memory_stays_bounded_while_the_store_is_away_and_says_what_was_given_up(
    any_store: RemoteStore, clock: Clock
) -> None:
    node = Node(any_store, clock)
    node.may_use = False
    for _ in range(3 * MINUTES.num_waiting):
        node.history.add(answered(at=clock.now))
        node.history.settle()
        clock.pass_by(60)
    held = node.history._shelf._held
    assert sum(bucket.resolution == MINUTES for bucket in held) == MINUTES.num_waiting
    assert "history" in node.degraded
    node.may_use = True
    await node.keeping.flush()
    # Minutes before the last two hours are gone, hours are not.
    found = await Node(any_store, clock, THERE).history.between(NOON, NOON + 6 * HOUR_S)
    assert found.num_requests == 3 * MINUTES.num_waiting


async def test_a_store_that_lost_everything_gets_what_is_in_memory_and_the_list_of_gateways(
    server: EmbeddedValkey, store: ValkeyStore, clock: Clock
) -> None:
    node = Node(store, clock)
    node.history.add(missed())
    await node.keeping.flush()
    client = redis.from_url(server.url)
    await client.flushall()
    node.history.add(answered())
    await node.keeping.flush()
    await client.aclose()
    assert (await Node(store, clock, THERE).last(60, clock)).num_requests == 2


async def test_a_damaged_bucket_counts_as_empty_and_is_written_anew(
    server: EmbeddedValkey, store: ValkeyStore, clock: Clock
) -> None:
    node = Node(store, clock)
    node.history.add(missed())
    await node.keeping.flush()
    client = redis.from_url(server.url)
    for key in await client.keys("h:[mhd]:*"):
        await client.setrange(key, 30, b"\xff\xff")
    other = Node(store, clock, THERE)
    assert other.history.is_complete
    assert (await other.last(60, clock)).num_requests == 0
    assert other.archive.num_unreadable > 0
    assert not other.history.is_complete
    again = Node(store, clock)
    again.history.add(answered())
    await again.keeping.flush()
    await client.aclose()
    clock.pass_by(120)
    assert (await Node(store, clock, "c" * 16).last(300, clock)).num_requests == 1


async def test_encrypted_history_names_nobody_in_the_store(
    server: EmbeddedValkey, store: ValkeyStore, clock: Clock
) -> None:
    cipher = EntryCipher({"k": bytes(range(32))})
    node = Node(store, clock, cipher=cipher)
    node.history.add(missed(agent="a-very-secret-agent"))
    node.durations.learn(missed(model="a-very-secret-model"))
    await node.keeping.flush()
    client = redis.from_url(server.url)
    keys = await client.keys("*")
    assert {key[:4] for key in keys} >= {b"h:m:", b"h:h:", b"h:d:", b"h:n:", b"h:t"}
    for key in keys:
        assert b"secret" not in key
        assert b"secret" not in (await client.get(key))
    await client.aclose()
    found = await Node(store, clock, cipher=cipher).last(60, clock)
    assert found.lines_by(1).keys() == {"a-very-secret-agent"}
    assert (await Node(store, clock, THERE).last(60, clock)).num_requests == 0


async def test_a_clock_that_goes_back_adds_to_what_was_there(any_store: RemoteStore, clock: Clock) -> None:
    node = Node(any_store, clock)
    for _ in range(3):
        node.history.add(answered(at=clock.now))
        await node.keeping.flush()
        clock.pass_by(600)
    clock.now -= 1200  # to the second one's minute
    node.history.add(missed(at=clock.now - 2))
    await node.keeping.flush()
    restarted = Node(any_store, clock)
    restarted.history.add(missed(at=clock.now - 2))
    await restarted.keeping.flush()
    clock.now = NOON + 3600
    found = await Node(any_store, clock, THERE).last(2 * HOUR_S, clock)
    assert (found.num_requests, found.line().spent, found.line().saved) == (5, 1400, 1500)
    second = await Node(any_store, clock, THERE).history.between(NOON + 600, NOON + 660)
    assert (second.num_requests, second.line().spent) == (3, 1400)


async def test_midnight_of_utc_parts_two_days(any_store: RemoteStore, clock: Clock) -> None:
    node = Node(any_store, clock)
    midnight = NOON + DAY_S / 2
    for at in (midnight - 0.5, midnight, midnight + 0.5):
        node.history.add(answered(at=at, duration_s=0.0))
    await node.keeping.flush()
    clock.pass_by(3 * DAY_S)
    reader = Node(any_store, clock, THERE)
    assert (await reader.history.between(midnight - DAY_S, midnight)).num_requests == 1
    assert (await reader.history.between(midnight, midnight + DAY_S)).num_requests == 2


async def test_a_request_counts_in_the_minute_in_which_it_ended(any_store: RemoteStore, clock: Clock) -> None:
    node = Node(any_store, clock)
    node.history.add(missed(at=NOON - 50, duration_s=70.0))
    clock.pass_by(60)
    assert (await node.history.between(NOON, NOON + 60)).num_requests == 1
    assert (await node.history.between(NOON - 60, NOON)).num_requests == 0


async def test_what_is_older_than_it_is_kept_is_removed_whoever_wrote_it(
    server: EmbeddedValkey, store: ValkeyStore, clock: Clock
) -> None:
    dead, node = Node(store, clock, THERE), Node(store, clock)
    dead.history.add(missed())
    node.history.add(answered())
    await dead.keeping.flush()
    await node.keeping.flush()
    client = redis.from_url(server.url)

    async def kept() -> list[int]:
        return [len(await client.keys(f"h:{letter}:*")) for letter in "mhdn"]

    assert await kept() == [2, 2, 2, 2]
    for days, expected in ((1.5, [0, 2, 2, 2]), (35, [0, 0, 2, 2]), (370, [0, 0, 0, 0])):
        clock.pass_by(days * DAY_S)
        await node.sweeper.sweep()
        clock.pass_by(700)  # a leap of the clock would be given as much time to be taken back
        assert await node.sweeper.sweep() >= 0
        clock.pass_by(-700)
        assert await kept() == expected, days
    await client.aclose()


async def test_the_sums_stay_the_same_while_finer_ones_go(any_store: RemoteStore, clock: Clock) -> None:
    node = Node(any_store, clock)
    for i in range(50):
        node.history.add(answered(at=NOON - 3 * HOUR_S + 200 * i))
    await node.keeping.flush()
    for days in (0.5, 2, 40, 300):
        clock.now = NOON + days * DAY_S
        clock.moment += 100_000
        await node.sweeper.sweep()
        clock.moment += 1000
        clock.now += 1000
        await node.sweeper.sweep()
        reader = Node(any_store, clock, THERE)
        assert (await reader.history.between(NOON - DAY_S, NOON + 5)).num_requests == 50


async def test_a_clock_that_leaps_forward_removes_nothing_at_once(
    any_store: RemoteStore, clock: Clock
) -> None:
    node = Node(any_store, clock)
    node.history.add(missed())
    await node.keeping.flush()
    clock.pass_by(3600)
    await node.sweeper.sweep()
    clock.now += 10 * 365 * DAY_S  # and somebody sets it right again after some minutes
    for _ in range(100):
        assert await node.sweeper.sweep() == 0
        clock.pass_by(4)
    clock.now -= 10 * 365 * DAY_S
    clock.pass_by(3600)
    await node.sweeper.sweep()
    assert (await Node(any_store, clock, THERE).last(3 * HOUR_S, clock)).num_requests == 1


async def test_what_was_learnt_of_upstreams_outlives_a_restart_for_all(
    any_store: RemoteStore, clock: Clock
) -> None:
    node = Node(any_store, clock)
    node.durations.learn(missed(duration_s=4.0))
    await node.keeping.flush()
    again = Node(any_store, clock)
    await again.keeping.flush()
    assert (
        again.durations.saved_s("oa", "gpt-heron", prompt_tokens=90, completion_tokens=20, took_s=1.0) == 3.0
    )


async def test_history_never_expires_since_the_store_evicts_what_does(
    server: EmbeddedValkey, store: ValkeyStore, clock: Clock
) -> None:
    node = Node(store, clock)
    node.history.add(missed())
    node.durations.learn(missed())
    await node.keeping.flush()
    client = redis.from_url(server.url)
    assert {await client.ttl(key) for key in await client.keys("h:*")} == {-1}
    await client.aclose()


async def test_a_day_has_room_for_many_gateways_and_each_is_listed_once(
    any_store: RemoteStore, clock: Clock
) -> None:
    names = [f"{i:016x}" for i in range(40)]
    nodes = [Node(any_store, clock, name) for name in names]
    for node in nodes:
        node.history.add(answered())
    for _ in range(2):
        await asyncio.gather(*(node.keeping.flush() for node in nodes))
    day = Bucket.of(DAYS, NOON).day
    assert sorted((await nodes[0].archive.nodes.of([day]))[day]) == names
    clock.pass_by(6)
    assert (await Node(any_store, clock, "f" * 16).last(60, clock)).num_requests == 40
