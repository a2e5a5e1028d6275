"""History of gateways that share a Valkey cluster."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from openclaw_cache.errors import StoreError
from openclaw_cache.history.buckets import DAYS, HOUR_S, MINUTES, Bucket
from openclaw_cache.store.cluster import ClusterStore
from openclaw_cache.store.slots import slot_of
from support.cluster_store import opened
from support.every_api import CHAT, answer_all, two_vendors
from support.history_node import HERE, THERE, Clock, Node
from support.records import NOON, answered, missed
from support.scripted_upstream import ScriptedUpstream
from support.served import Served, served
from support.valkey_cluster import Cluster, running_cluster
from support.valkey_cluster import Node as ClusterNode


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def clock() -> Clock:
    return Clock()


async def test_two_gateways_on_a_cluster_add_up_and_keep_it_over_a_change_of_keys(
    tmp_path: Path, cluster: Cluster, upstream: ScriptedUpstream
) -> None:
    upstream.script = answer_all

    @contextlib.asynccontextmanager
    async def gateway(name: str, *keys: str) -> AsyncIterator[Served]:
        coded = [f"{key}:{base64.b64encode(hashlib.sha256(key.encode()).digest()).decode()}" for key in keys]
        settings: dict[str, Any] = {
            "upstreams": two_vendors(upstream.url),
            "store__url": cluster.url,
            "store__timeout": 5.0,
            "server__secret_file": tmp_path / "secret",
            "result_cache__encryption_key_env": "STORE_KEYS",
        }
        async with served(tmp_path / name, [], env={"STORE_KEYS": ",".join(coded)}, **settings) as running:
            yield running

    async def total(of: Served) -> dict[str, int]:
        shown = (await of.get("/admin/history?time_range=last%201h")).json()
        assert (shown["num_nodes"], shown["is_complete"]) == (2, True)
        counts: dict[str, int] = shown["total"]["requests"]
        return counts

    for name in ("here", "there"):
        async with gateway(name, "k1") as running:
            assert (await running.ask(CHAT.body("herons"), path=CHAT.path)).status == 200
            await running.written()
    async with gateway("here", "k2", "k1") as running:
        assert await total(running) == {"miss": 1, "exact": 1}
        done = (await running.ask({}, path="/admin/rekey")).json()["by_kind"]["history"]
        assert done["num_rewritten"] >= 6  # a minute, an hour and a day of each
        assert done["num_unreadable"] == 0
    async with gateway("there", "k2") as running:
        assert await total(running) == {"miss": 1, "exact": 1}


async def one_without_the_list(cluster: Cluster) -> ClusterNode:
    """A node of the cluster that does not have the day's list of gateways."""
    listed = await cluster.owner(slot_of(b"h:n:%d:0" % Bucket.of(DAYS, NOON).day))
    return next(each for each in cluster.nodes if each is not listed)


@contextlib.asynccontextmanager
async def frozen(node: ClusterNode, store: ClusterStore) -> AsyncIterator[None]:
    """A node that answers nothing, and is back, as the store sees it, afterwards."""
    node.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        node.process.send_signal(signal.SIGCONT)
    async with asyncio.timeout(20):
        while not all(each.up for each in store._topology.nodes()):
            await asyncio.sleep(0.05)


async def test_a_node_of_a_cluster_that_is_away_keeps_back_its_own_sums_only(
    cluster: Cluster, clock: Clock
) -> None:
    await cluster.flush()
    store = await opened(cluster.url, timeout_s=0.25)
    node = Node(store, clock)
    node.history.add(missed())
    await node.keeping.flush()
    away = await one_without_the_list(cluster)
    minutes = [Bucket(MINUTES, int(NOON) + 60 * i) for i in range(30)]
    owners = [await cluster.owner(slot_of(minute.key(HERE))) for minute in minutes]
    async with frozen(away, store):
        for _ in minutes[1:]:
            clock.pass_by(60)
            node.history.add(answered(at=clock.now))
        await node.keeping.flush()
        assert node.degraded == ["history"]
        for minute, owner in zip(minutes, owners, strict=True):
            if owner is not away:
                assert await owner.order("GET", minute.key(HERE)) is not None
        assert (await node.last(HOUR_S, clock)).num_requests == 30  # from memory
        assert not node.history.is_complete
    await node.keeping.flush()
    assert (await Node(store, clock, THERE).last(HOUR_S, clock)).num_requests == 30
    await store.aclose()


async def test_a_node_of_a_cluster_that_is_away_at_the_start_keeps_back_its_own_sums_only(
    cluster: Cluster, clock: Clock
) -> None:
    await cluster.flush()
    store = await opened(cluster.url, timeout_s=0.25)
    before = Node(store, clock)
    before.history.add(missed())
    await before.keeping.flush()
    away = await one_without_the_list(cluster)
    node = Node(store, clock)
    for _ in range(29):
        clock.pass_by(60)
        node.history.add(answered(at=clock.now))
    async with frozen(away, store):
        await node.keeping.flush()
        assert node.degraded == ["history"]
        name = node.archive._shelf.written_as
        written = 0
        for key in [Bucket(MINUTES, int(NOON) + 60 * i).key(name) for i in range(30)]:
            with contextlib.suppress(StoreError):
                written += await store.get(key) is not None
        assert written > 0
        await node.keeping.flush()
        assert node.archive._shelf.written_as == name
    await node.keeping.flush()
    found = await Node(store, clock, THERE).last(HOUR_S, clock)
    assert (found.num_requests, found.nodes) == (30, {HERE})
    await store.aclose()
