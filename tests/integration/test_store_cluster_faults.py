"""ClusterStore when nodes die and are replaced, and when they refuse us."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

import pytest

from openclaw_cache.errors import ConfigError, StoreError, StoreUnavailableError
from openclaw_cache.store.remote import open_store
from openclaw_cache.store.slots import slot_of
from support.cluster_store import PATIENT_S, Changes, eventually, key_on, opened, scanned
from support.valkey_cluster import Cluster, running_cluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def fragile_cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Where a primary that is gone takes only its own slots along, and what was written survives."""
    options = (
        "--cluster-require-full-coverage",
        "no",
        "--cluster-node-timeout",
        "2000",
        "--appendonly",
        "yes",
    )
    with running_cluster(tmp_path, *options) as cluster:
        yield cluster


async def test_a_killed_node_is_missed_by_its_own_keys_and_by_what_concerns_all(
    fragile_cluster: Cluster,
) -> None:
    cluster, changes = fragile_cluster, Changes()
    store = await opened(cluster.nodes[0].url, changes=changes)
    keys = [key_on(cluster, node) for node in cluster.nodes]
    for key in keys:
        await store.put(key, b"v")
    assert await store.make_durable() is True
    killed, lost, kept = cluster.nodes[1], keys[1], [keys[0], keys[2]]
    killed.kill()
    with pytest.raises(StoreUnavailableError):
        await store.get(lost)
    assert store.up
    for _ in range(3):
        assert await store.get_many(kept) == [b"v", b"v"]
        with pytest.raises(StoreUnavailableError):
            await store.get_many(keys)
        with pytest.raises(StoreUnavailableError):
            await store.info()
        with pytest.raises(StoreUnavailableError):
            await store.make_durable()
        assert await scanned(store, str(killed.port)) >= set(kept)
        await asyncio.sleep(1.2)  # past the time after which the others hold it for failed
    await killed.restart()
    assert await eventually(store, lost) == b"v"
    assert await store.delete(*keys, b"absent") == 3
    assert changes == [False, True]
    await store.aclose()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_durable_is_what_every_node_has_after_a_power_cut_of_all(fragile_cluster: Cluster) -> None:
    cluster = fragile_cluster
    store = await opened(cluster.nodes[0].url)
    keys = [key_on(cluster, node, number) for node in cluster.nodes for number in range(20)]
    await asyncio.gather(*(store.put(key, b"v") for key in keys))
    assert await store.make_durable() is True
    for node in cluster.nodes:
        node.process.kill()
    await store.aclose()
    changes = Changes()
    store = await opened(cluster.url, changes=changes)  # while nobody is there
    assert not store.up
    assert changes == [False]
    with pytest.raises(StoreUnavailableError):
        await store.get(keys[0])
    for node in cluster.nodes:
        node.process.wait()
        await node.restart()
    for key in keys:
        assert await eventually(store, key) == b"v"
    assert changes[:2] == [False, True]
    await store.aclose()


@pytest.fixture
def replicated_cluster(tmp_path: Path) -> Iterator[Cluster]:
    options = ("--cluster-node-timeout", "1500", "--appendonly", "yes")
    with running_cluster(tmp_path, *options, with_replicas=True, password="correct") as cluster:
        yield cluster


async def test_a_replica_that_takes_over_is_found_and_has_what_was_durable(
    replicated_cluster: Cluster,
) -> None:
    cluster, changes = replicated_cluster, Changes()
    url = cluster.url.replace("://", "://:correct@")
    store = await opened(url, changes=changes)
    assert "correct" not in repr(store)
    keys = [key_on(cluster, cluster.nodes[1], number) for number in range(20)]
    for key in keys:
        await store.put(key, b"v")
    assert await store.make_durable() is True
    cluster.nodes[1].kill()
    for key in keys:
        assert await eventually(store, key) == b"v"
    assert (await cluster.owner(slot_of(keys[0]))).port == cluster.nodes[4].port
    async with asyncio.timeout(30):
        while changes != [False, True]:
            await asyncio.sleep(0.02)
    assert await store.add(keys[0], b"w") == b"v"
    assert await store.make_durable() is True
    await store.aclose()


async def test_a_replica_that_does_not_follow_is_not_passed_over_in_silence(
    replicated_cluster: Cluster,
) -> None:
    cluster = replicated_cluster
    store = open_store(cluster.url.replace("://", "://:correct@"), timeout_s=PATIENT_S, durable_timeout_s=1.0)
    await store.start()
    replica = cluster.nodes[3]
    replica.process.send_signal(signal.SIGSTOP)
    with pytest.raises(StoreUnavailableError, match="replica did not follow"):
        await store.make_durable()
    replica.process.send_signal(signal.SIGCONT)
    async with asyncio.timeout(60):
        while True:
            try:
                assert await store.make_durable() is True
                break
            except StoreError:
                await asyncio.sleep(0.1)
    await store.aclose()


@pytest.fixture
def strict_cluster(tmp_path: Path) -> Iterator[Cluster]:
    with running_cluster(tmp_path, "--cluster-node-timeout", "1500", password="correct") as cluster:
        yield cluster


async def test_a_cluster_that_has_lost_slots_is_unavailable_as_a_whole_where_it_is_set_so(
    strict_cluster: Cluster,
) -> None:
    cluster = strict_cluster
    store = await opened(cluster.url.replace("://", "://:correct@"))
    cluster.nodes[1].kill()
    key = key_on(cluster, cluster.nodes[0])
    reason = ""
    async with asyncio.timeout(30):
        while not reason:
            await asyncio.sleep(0.05)
            try:
                await store.get(key)
            except StoreUnavailableError as error:
                reason = str(error)
    assert "CLUSTERDOWN" in reason
    await store.aclose()


async def test_a_wrong_password_is_a_configuration_error_that_does_not_show_it(
    strict_cluster: Cluster,
) -> None:
    for wrong in ("", ":battery@"):
        with pytest.raises(ConfigError, match=r"^store\.url: ") as caught:
            await opened(strict_cluster.url.replace("://", f"://{wrong}"))
        assert "battery" not in str(caught.value)
    assert asyncio.all_tasks() == {asyncio.current_task()}
