"""A ClusterStore under test, and keys that lie where a test wants them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from openclaw_cache.errors import StoreUnavailableError
from openclaw_cache.store.cluster import ClusterStore
from openclaw_cache.store.remote import open_store
from openclaw_cache.store.slots import slot_of

if TYPE_CHECKING:
    from support.valkey_cluster import Cluster, Node

PATIENT_S = 10.0


async def opened(url: str, *, timeout_s: float = PATIENT_S, changes: Changes | None = None) -> ClusterStore:
    store = open_store(url, timeout_s=timeout_s, durable_timeout_s=PATIENT_S, on_change=changes)
    assert isinstance(store, ClusterStore)
    await store.start()
    return store


class Changes(list[bool]):
    """Records what on_change tells."""

    def __call__(self, up: bool, reason: str) -> None:
        assert reason
        self.append(up)


def key_in(first: int, last: int, number: int = 0) -> bytes:
    """A key whose slot lies between the two; another one for each number."""
    return next(key for n in range(10**6) if first <= slot_of(key := b"%d:%d" % (number, n)) <= last)


def key_on(cluster: Cluster, node: Node, number: int = 0) -> bytes:
    """A key of one of the three primaries of a cluster as it was made."""
    first = 16384 * cluster.nodes.index(node) // 3
    return key_in(first, first + 5000, number)


async def eventually(store: ClusterStore, key: bytes) -> bytes | None:
    async with asyncio.timeout(60):
        while True:
            try:
                return await store.get(key)
            except StoreUnavailableError:
                await asyncio.sleep(0.02)


async def scanned(store: ClusterStore, failure: str) -> set[bytes]:
    """The keys that a scan gives before it fails, for this reason."""
    keys = set()
    try:
        async for key in store.scan(b""):
            keys.add(key)
    except StoreUnavailableError as error:
        if failure in str(error):
            return keys
    pytest.fail("the scan passed for complete, or failed for another reason")
