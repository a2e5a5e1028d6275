"""SqliteStore keeps the contract of MemoryStore: in a file, in an encrypted one, and in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from openclaw_cache.memory.sqlite.store import SqliteStore
from openclaw_cache.testing import DurableMemoryStoreContract, MemoryStoreContract

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class TestFile(DurableMemoryStoreContract):
    @pytest.fixture
    def open_store(self, tmp_path: Path) -> Callable[[], SqliteStore]:
        return lambda: SqliteStore.open(tmp_path / "agent.db", key=None)


class TestEncryptedFile(DurableMemoryStoreContract):
    @pytest.fixture
    def open_store(self, tmp_path: Path) -> Callable[[], SqliteStore]:
        return lambda: SqliteStore.open(tmp_path / "agent.db", key=bytes(range(32)))


class TestInMemory(MemoryStoreContract):
    @pytest.fixture
    def open_store(self) -> Callable[[], SqliteStore]:
        return lambda: SqliteStore.open(None, key=None)
