"""A Valkey of one's own, as a gateway starts it, and a store over it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from openclaw_cache.store.embedded import EmbeddedValkey
from openclaw_cache.store.valkey import ValkeyStore


@contextlib.asynccontextmanager
async def own_valkey(data_dir: Path) -> AsyncIterator[EmbeddedValkey]:
    """Stopped afterwards, whatever happens."""
    server = EmbeddedValkey(data_dir)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@contextlib.asynccontextmanager
async def connected(server: EmbeddedValkey, timeout_s: float = 1.0) -> AsyncIterator[ValkeyStore]:
    """A store that is up."""
    store = ValkeyStore(server.url, timeout_s=timeout_s)
    await store.start()
    assert store.up
    yield store
    await store.aclose()
