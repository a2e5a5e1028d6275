"""Tests that an implementer of a Protocol runs, and a real server to run them on.

Needs pytest and pytest-asyncio:

class TestMyStore(StoreContract):
    @pytest_asyncio.fixture
    async def store(self):
        store = MyStore(...)          # connected, and empty for each test
        yield store
        await store.aclose()

class TestMyMemoryStore(DurableMemoryStoreContract):   # MemoryStoreContract where nothing outlives `close`
    @pytest.fixture
    def open_store(self, tmp_path):
        return lambda: MyMemoryStore(tmp_path)         # the same store each time, empty at first
"""

from openclaw_cache.testing.memory_contract import DurableMemoryStoreContract, MemoryStoreContract
from openclaw_cache.testing.store_contract import AWKWARD, StoreContract
from openclaw_cache.testing.valkey import free_port, running_valkey, start_valkey, until_answering

__all__ = [
    "AWKWARD",
    "DurableMemoryStoreContract",
    "MemoryStoreContract",
    "StoreContract",
    "free_port",
    "running_valkey",
    "start_valkey",
    "until_answering",
]
