"""One agent's store: one SQLite file, encrypted where there is a key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from openclaw_cache.errors import MemoryStoreError
from openclaw_cache.memory.record import Stats
from openclaw_cache.memory.sqlite import full_text
from openclaw_cache.memory.sqlite.database import Database
from openclaw_cache.memory.sqlite.memories import SqliteMemories
from openclaw_cache.memory.sqlite.passages import SqlitePassages
from openclaw_cache.memory.sqlite.recalls import SqliteRecalls
from openclaw_cache.memory.sqlite.schema import STORE_ID, STORE_MIGRATIONS, migrate
from openclaw_cache.memory.sqlite.turns import SqliteTurns

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

_SET_LABEL: Final = "INSERT OR REPLACE INTO label (name, value) VALUES (?, ?)"


class SqliteStore(SqliteMemories, SqliteTurns, SqliteRecalls, SqlitePassages):
    """`store.MemoryStore` in an SQLite file.

    What a method has done when it returns survives the end of the process and of power. Several processes may have
    one file open; their writes come one after the other. Calls on one object come one at a time, from any thread.
    """

    def __init__(self, database: Database) -> None:
        self._db = database

    @classmethod
    def open(
        cls, path: Path | None, *, key: bytes | None, labels: Mapping[str, str] | None = None
    ) -> SqliteStore:
        """Open a store; the file and its folder are created where they are not there. Without a path: one in memory.

        Args:
            path: where it is.
            key: 32 random bytes where it is to be encrypted, and the same ones each time.
            labels: what a store that is new says of itself from the beginning.

        Raises:
            MemoryStoreError: it is damaged, of a newer version, not readable with this key, or its folder is not
                writable.
        """
        database = Database.open(path, key)
        try:
            migrate(database, STORE_ID, STORE_MIGRATIONS, lambda: _complete(database, labels or {}))
            if not full_text.has_our_terms(database):
                with database.writing():
                    full_text.renew(database)
        except MemoryStoreError:
            database.close()
            raise
        return cls(database)

    def stats(self, fingerprint: str | None) -> Stats:
        """See `store.MemoryStore`. Cost: walks along small indexes, 20 ms for 100,000 memories."""
        with self._db.reading():
            counts = self._db.one(
                "SELECT (SELECT count(*) FROM memory),"
                " (SELECT count(*) FROM memory WHERE superseded_by IS NOT NULL),"
                " (SELECT count(*) FROM turn), (SELECT count(*) FROM message),"
                " (SELECT count(DISTINCT session) FROM turn), (SELECT count(*) FROM recall WHERE text <> ''),"
                " (SELECT count(*) FROM passage), (SELECT min(at) FROM passage), (SELECT max(at) FROM passage)"
            )
            num_waiting = self._num_without_vector(fingerprint) if fingerprint is not None else 0
        return Stats(
            num_memories=counts[0],
            num_superseded=counts[1],
            num_turns=counts[2],
            num_messages=counts[3],
            num_sessions=counts[4],
            num_recalls=counts[5],
            num_passages=counts[6],
            num_without_vector=num_waiting,
            size_bytes=self._db.size_bytes,
            oldest_at=counts[7],
            newest_at=counts[8],
        )

    def together(self) -> AbstractContextManager[None]:
        """See `store.MemoryStore`."""
        return self._db.writing()

    def set_label(self, name: str, value: str) -> None:
        """See `store.MemoryStore`."""
        with self._db.writing():
            self._db.run(_SET_LABEL, (name, value))

    def label(self, name: str) -> str | None:
        """See `store.MemoryStore`."""
        row = self._db.first("SELECT value FROM label WHERE name = ?", (name,))
        return row[0] if row else None

    def close(self) -> None:
        """See `store.MemoryStore`."""
        self._db.close()


def _complete(database: Database, labels: Mapping[str, str]) -> None:
    if not full_text.has_our_terms(database):
        full_text.renew(database)
    if database.first("SELECT 1 FROM label LIMIT 1") is None:
        for label in labels.items():
            database.run(_SET_LABEL, label)
