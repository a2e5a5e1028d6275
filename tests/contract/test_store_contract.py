"""ValkeyStore and ClusterStore keep the contract of Store, over each way to reach a server."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from openclaw_cache.store.address import parse_url
from openclaw_cache.store.embedded import EmbeddedValkey
from openclaw_cache.store.remote import RemoteStore, open_store
from openclaw_cache.store.tls import TlsFiles
from openclaw_cache.testing import StoreContract, running_valkey
from support.certificates import Authority
from support.tls_front import tls_front
from support.valkey_cluster import Cluster, free_ports, running_cluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

# The bound is not what these tests are about, and a busy machine may stall a server for a moment.
PATIENT_S = 10.0


async def opened(url: str, ca_file: Path | None = None) -> RemoteStore:
    store = open_store(url, tls=TlsFiles(ca_file=ca_file), timeout_s=PATIENT_S, durable_timeout_s=PATIENT_S)
    await store.start()
    return store


class TestOverUnixSocket(StoreContract):
    @pytest_asyncio.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[RemoteStore]:
        async with running_valkey(tmp_path) as (url, _):
            store = await opened(url)
            yield store
            await store.aclose()


class TestOverTcpWithPassword(StoreContract):
    @pytest_asyncio.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[RemoteStore]:
        async with running_valkey(tmp_path, tcp=True, password="correct") as (url, _):
            store = await opened(url.removesuffix("/0") + "/3")
            yield store
            await store.aclose()


class TestEmbedded(StoreContract):
    @pytest_asyncio.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[RemoteStore]:
        server = EmbeddedValkey(tmp_path)
        store = await opened(await server.start())
        yield store
        await store.aclose()
        await server.stop()


class TestOverTls(StoreContract):
    @pytest_asyncio.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[RemoteStore]:
        authority = Authority(tmp_path)
        context = authority.issue("localhost").server_context()
        async with (
            running_valkey(tmp_path, tcp=True) as (url, _),
            tls_front(parse_url(url).port, context) as port,
        ):
            store = await opened(f"rediss://localhost:{port}", authority.ca_file)
            yield store
            await store.aclose()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


class TestCluster(StoreContract):
    @pytest_asyncio.fixture
    async def store(self, cluster: Cluster) -> AsyncIterator[RemoteStore]:
        await cluster.flush()
        store = await opened(cluster.nodes[1].url)
        yield store
        await store.aclose()


@pytest.fixture(scope="module")
def client_ports() -> list[int]:
    return free_ports(3)


@pytest.fixture(scope="module")
def fronted_cluster(tmp_path_factory: pytest.TempPathFactory, client_ports: list[int]) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster"), client_ports=client_ports) as cluster:
        yield cluster


class TestClusterOverTls(StoreContract):
    @pytest_asyncio.fixture
    async def store(
        self, fronted_cluster: Cluster, client_ports: list[int], tmp_path: Path
    ) -> AsyncIterator[RemoteStore]:
        await fronted_cluster.flush()
        authority = Authority(tmp_path)
        context = authority.issue("127.0.0.1").server_context()
        async with contextlib.AsyncExitStack() as stack:
            for node, port in zip(fronted_cluster.nodes, client_ports, strict=True):
                await stack.enter_async_context(tls_front(node.port, context, port=port))
            store = await opened(f"rediss+cluster://127.0.0.1:{client_ports[0]}", authority.ca_file)
            yield store
            await store.aclose()
