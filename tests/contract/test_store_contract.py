"""ValkeyStore keeps the contract of Store, over each way to reach a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest_asyncio

from openclaw_cache.store.embedded import EmbeddedValkey
from openclaw_cache.store.valkey import ValkeyStore
from openclaw_cache.testing import StoreContract, running_valkey

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

# The bound is not what these tests are about, and a busy machine may stall a server for a moment.
PATIENT_S = 10.0


async def opened(url: str) -> ValkeyStore:
    store = ValkeyStore(url, timeout_s=PATIENT_S, durable_timeout_s=PATIENT_S)
    await store.start()
    return store


class TestOverUnixSocket(StoreContract):
    @pytest_asyncio.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[ValkeyStore]:
        async with running_valkey(tmp_path) as (url, _):
            store = await opened(url)
            yield store
            await store.aclose()


class TestOverTcpWithPassword(StoreContract):
    @pytest_asyncio.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[ValkeyStore]:
        async with running_valkey(tmp_path, tcp=True, password="correct") as (url, _):
            store = await opened(url.removesuffix("/0") + "/3")
            yield store
            await store.aclose()


class TestEmbedded(StoreContract):
    @pytest_asyncio.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[ValkeyStore]:
        server = EmbeddedValkey(tmp_path)
        store = await opened(await server.start())
        yield store
        await store.aclose()
        await server.stop()
