"""ClusterStore on a real cluster: where keys are, and what happens while slots move."""

from __future__ import annotations

import asyncio
import random
import signal
from typing import TYPE_CHECKING

import pytest

from openclaw_cache.errors import ConfigError, StoreUnavailableError
from openclaw_cache.store.cluster import ClusterStore
from openclaw_cache.store.remote import open_store
from openclaw_cache.store.slots import slot_of
from openclaw_cache.testing import free_port, running_valkey
from support.cluster_store import PATIENT_S, Changes, eventually, key_on, opened, scanned
from support.valkey_cluster import Cluster, running_cluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    options = ("--cluster-allow-replica-migration", "no")  # else a primary without slots becomes a replica
    with running_cluster(tmp_path_factory.mktemp("cluster"), *options, idle=1) as cluster:
        yield cluster


@pytest.fixture
async def cluster(shared_cluster: Cluster) -> Cluster:
    """Three primaries with slots and a fourth without; empty."""
    await shared_cluster.flush()
    for node in shared_cluster.nodes:
        await node.order("CONFIG", "RESETSTAT")
    return shared_cluster


@pytest.fixture
async def store(cluster: Cluster) -> AsyncIterator[ClusterStore]:
    store = await opened(cluster.nodes[0].url)
    yield store
    await store.aclose()


async def errors_sent(cluster: Cluster, kind: str) -> int:
    """How many errors of a kind the nodes say that they have answered."""
    total = 0
    for node in cluster.nodes:
        for line in (await node.order("INFO", "errorstats")).decode().splitlines():
            if line.startswith(f"errorstat_{kind}:count="):
                total += int(line.partition("=")[2])
    return total


# where keys are


async def test_every_key_is_in_the_slot_that_the_server_says(cluster: Cluster) -> None:
    chance = random.Random(5)
    alphabet = b"{}ab\x00\xff"
    for _ in range(200):
        key = bytes(chance.choices(alphabet, k=chance.randrange(9)))
        assert slot_of(key) == await cluster.nodes[0].order("CLUSTER", "KEYSLOT", key)


async def test_keys_are_spread_and_asked_where_they_are_without_redirection(
    cluster: Cluster, store: ClusterStore
) -> None:
    await asyncio.gather(*(store.put(b"%d" % number, b"v%d" % number) for number in range(300)))
    assert await store.get_many([b"%d" % n for n in range(300)]) == [b"v%d" % n for n in range(300)]
    sizes = [await node.order("DBSIZE") for node in cluster.nodes]
    assert sum(sizes) == 300
    assert all(size > 50 for size in sizes[:3])
    assert sizes[3] == 0
    assert await errors_sent(cluster, "MOVED") == 0


async def test_a_seed_that_is_dead_or_no_member_does_not_matter(cluster: Cluster, tmp_path: Path) -> None:
    async with running_valkey(tmp_path, tcp=True) as (url, _):
        alone = url.removeprefix("redis://").removesuffix("/0")
        store = await opened(
            f"redis+cluster://127.0.0.1:{free_port()},{alone},127.0.0.1:{cluster.nodes[2].port}"
        )
        await store.put(b"k", b"v")
        assert await store.get(b"k") == b"v"
        await store.aclose()


@pytest.mark.parametrize("kind", ["unknown-endpoint", "hostname"])
async def test_nodes_that_do_not_tell_their_address_are_found_on_the_host_that_was_asked(
    cluster: Cluster, kind: str
) -> None:
    # Behind NAT a node does not know what it is called; CLUSTER SLOTS then has no host, or "?".
    for node in cluster.nodes:
        await node.order("CONFIG", "SET", "cluster-preferred-endpoint-type", kind)
    store = await opened(cluster.nodes[0].url)
    for node in cluster.nodes[:3]:
        await store.put(key_on(cluster, node), b"v")
        assert await node.order("GET", key_on(cluster, node)) == b"v"
    moved = key_on(cluster, cluster.nodes[0])
    await cluster.move(slot_of(moved), cluster.nodes[1])  # -MOVED has no host either
    assert await store.get(moved) == b"v"
    await store.aclose()
    await cluster.move(slot_of(moved), cluster.nodes[0])
    for node in cluster.nodes:
        await node.order("CONFIG", "SET", "cluster-preferred-endpoint-type", "ip")


async def test_a_single_server_is_no_cluster_and_a_node_of_one_no_single_server(
    cluster: Cluster, tmp_path: Path
) -> None:
    async with running_valkey(tmp_path, tcp=True) as (url, _):
        with pytest.raises(ConfigError, match=r"store\.url: .*single server"):
            await opened(url.replace("redis://", "redis+cluster://"))
    node = cluster.nodes[0]
    store = open_store(node.url.replace("redis+cluster", "redis"), timeout_s=PATIENT_S)
    await store.start()
    with pytest.raises(StoreUnavailableError, match=r"redis\+cluster://"):
        await store.get(key_on(cluster, cluster.nodes[1]))
    assert await store.get(key_on(cluster, node)) is None
    await store.aclose()


async def test_the_figures_are_sums_over_the_primaries(cluster: Cluster, store: ClusterStore) -> None:
    await asyncio.gather(*(store.put(b"%d" % number, b"v") for number in range(30)))
    info = await store.info()
    assert info.num_keys == 30
    assert info.max_bytes is None
    bounds = [10**8, 2 * 10**8, 3 * 10**8]
    for node, bound in zip(cluster.nodes, bounds, strict=False):
        await node.order("CONFIG", "SET", "maxmemory", bound)
    assert (await store.info()).max_bytes == 6 * 10**8
    for node in cluster.nodes:
        await node.order("CONFIG", "SET", "maxmemory", 0)


# slots that move


async def test_a_slot_that_moves_under_traffic_loses_no_call_and_swaps_no_value(
    cluster: Cluster, store: ClusterStore
) -> None:
    source, target = cluster.nodes[0], cluster.nodes[1]
    tag = key_on(cluster, source, 1)
    slot = slot_of(tag)
    keys = [b"{%b}%d" % (tag, number) for number in range(40)]
    await asyncio.gather(*(store.put(key, b"v:" + key) for key in keys))
    finished = asyncio.Event()

    async def read(key: bytes) -> int:
        num_reads = 0
        while not finished.is_set():
            assert await store.get(key) == b"v:" + key
            num_reads += 1
        return num_reads

    async def write(number: int) -> int:
        num_writes = 0
        while not finished.is_set():
            key = b"{%b}new:%d:%d" % (tag, number, num_writes)
            assert await store.add(key, b"first") == b"first"
            assert await store.add(key, b"second") == b"first"
            await store.put(key, b"third")
            assert await store.get(key) == b"third"
            assert await store.delete(key) == 1
            num_writes += 1
        return num_writes

    traffic = [asyncio.create_task(read(key)) for key in keys]
    traffic += [asyncio.create_task(write(number)) for number in range(4)]
    await cluster.begin_move(slot, source, target)
    await cluster.move_keys(slot, source, target, most=20)
    await asyncio.sleep(0.2)
    assert await store.get_many(keys) == [b"v:" + key for key in keys]
    while await cluster.move_keys(slot, source, target):
        pass
    await cluster.end_move(slot, target)
    await asyncio.sleep(0.2)
    finished.set()
    assert all(number > 5 for number in await asyncio.gather(*traffic))
    assert await errors_sent(cluster, "ASK") > 0
    assert await errors_sent(cluster, "MOVED") > 0
    await cluster.move(slot, source)


async def test_after_a_move_keys_are_asked_at_their_new_place(cluster: Cluster, store: ClusterStore) -> None:
    source, target = cluster.nodes[1], cluster.nodes[2]
    key = key_on(cluster, source, 2)
    await store.put(key, b"v")
    await cluster.move(slot_of(key), target)
    assert await store.get(key) == b"v"
    num_moved = await errors_sent(cluster, "MOVED")
    for _ in range(20):
        assert await store.get(key) == b"v"
    assert await errors_sent(cluster, "MOVED") == num_moved == 1
    await cluster.move(slot_of(key), source)


async def test_a_node_that_gets_its_first_slot_is_found_by_its_redirection(
    cluster: Cluster, store: ClusterStore
) -> None:
    source, target = cluster.nodes[0], cluster.nodes[3]
    key = key_on(cluster, source, 3)
    await store.put(key, b"v")
    await cluster.begin_move(slot_of(key), source, target)
    await cluster.move_keys(slot_of(key), source, target)
    assert await store.get(key) == b"v"
    await store.put(key, b"w")
    with pytest.raises(StoreUnavailableError, match="first slots"):  # nobody can confirm that write
        await store.make_durable()
    await cluster.end_move(slot_of(key), target)
    assert await store.get(key) == b"w"
    assert await target.order("GET", key) == b"w"
    assert await store.make_durable() is False  # answered, by all four
    await cluster.move(slot_of(key), source)
    assert await store.get(key) == b"w"


async def test_many_redirections_cause_few_readings_of_the_map(cluster: Cluster, store: ClusterStore) -> None:
    source, target = cluster.nodes[2], cluster.nodes[1]
    keys = [key_on(cluster, source, number) for number in range(10, 30)]
    for key in keys:
        await cluster.move(slot_of(key), target)
    for node in cluster.nodes:
        await node.order("CONFIG", "RESETSTAT")
    assert await store.get_many(keys * 5) == [None] * 100
    assert await errors_sent(cluster, "MOVED") >= len({slot_of(key) for key in keys})
    num_readings = 0
    for node in cluster.nodes:
        for line in (await node.order("INFO", "commandstats")).decode().splitlines():
            if line.startswith("cmdstat_cluster|slots:calls="):
                num_readings += int(line.partition("=")[2].partition(",")[0])
    assert 1 <= num_readings <= 3
    for key in keys:
        await cluster.move(slot_of(key), source)


async def test_a_scan_sees_keys_that_move_to_a_node_it_has_left(
    cluster: Cluster, store: ClusterStore
) -> None:
    first, last = cluster.nodes[0], cluster.nodes[2]
    tag = key_on(cluster, last, 4)
    movers = {b"{%b}%d" % (tag, number) for number in range(50)}
    others = {key_on(cluster, node, number) for node in cluster.nodes[:3] for number in range(100, 120)}
    await asyncio.gather(*(store.put(key, b"v") for key in movers | others))
    seen: set[bytes] = set()
    async for key in store.scan(b""):
        if not seen:  # the first node's few keys came in one step, the last one has not been asked
            assert slot_of(key) < 5461
            await cluster.move(slot_of(tag), first)
        seen.add(key)
    assert seen == movers | others
    await cluster.move(slot_of(tag), last)


async def test_a_scan_while_slots_keep_moving_does_not_pass_for_complete(
    cluster: Cluster, store: ClusterStore
) -> None:
    source, target = cluster.nodes[0], cluster.nodes[1]
    key = key_on(cluster, source, 5)
    await store.put(key, b"v")
    await cluster.begin_move(slot_of(key), source, target)
    assert await scanned(store, "moving slots") == {key}
    await cluster.move_keys(slot_of(key), source, target)
    await cluster.end_move(slot_of(key), target)
    assert [found async for found in store.scan(b"")] == [key]
    await cluster.move(slot_of(key), source)


async def test_a_frozen_node_costs_its_own_keys_one_wait_and_others_nothing(cluster: Cluster) -> None:
    changes = Changes()
    store = await opened(cluster.nodes[0].url, timeout_s=0.25, changes=changes)
    frozen, well = cluster.nodes[1], cluster.nodes[2]
    lost, kept = key_on(cluster, frozen), key_on(cluster, well)
    await store.put(lost, b"v")
    await store.put(kept, b"v")
    frozen.process.send_signal(signal.SIGSTOP)
    try:
        async with asyncio.timeout(10):
            answers = await asyncio.gather(*(store.get(lost) for _ in range(50)), return_exceptions=True)
        assert {type(answer) for answer in answers} == {StoreUnavailableError}
        call = store.get(lost)
        with pytest.raises(StoreUnavailableError):
            call.send(None)  # without waiting
        assert store.up
        assert await store.get(kept) == b"v"
        assert changes == [False]
    finally:
        frozen.process.send_signal(signal.SIGCONT)
    assert await eventually(store, lost) == b"v"
    assert changes == [False, True]
    await store.aclose()
