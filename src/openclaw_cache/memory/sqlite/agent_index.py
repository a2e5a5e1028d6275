"""A small file that lists agents, so that listing them opens none of their stores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from openclaw_cache.errors import MemoryStoreError
from openclaw_cache.memory.sqlite.database import Database
from openclaw_cache.memory.sqlite.schema import migrate

if TYPE_CHECKING:
    from pathlib import Path

INDEX_ID: Final = 0x4F43_4D30
_MIGRATIONS: Final = (
    """
CREATE TABLE agent (
    name TEXT PRIMARY KEY,
    namespace TEXT NOT NULL,
    agent TEXT NOT NULL,
    num_memories INTEGER NOT NULL,
    num_turns INTEGER NOT NULL,
    used_at REAL NOT NULL,
    is_open INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX agent_of_namespace ON agent (namespace, agent);
""",
)


class IndexedAgent(NamedTuple):
    """What the list says of an agent. Its counts are of the last time that its store was closed."""

    name: str
    namespace: str
    agent: str
    num_memories: int
    num_turns: int
    used_at: float
    is_open: int
    """1 where its store was opened and not closed since: then the counts are old."""


class AgentIndex:
    """The list. What it says can be read from the stores again, so only new agents wait for the disk."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._db.rows("PRAGMA synchronous = NORMAL")

    @classmethod
    def open(cls, path: Path, key: bytes | None) -> AgentIndex:
        """Open the list, or make an empty one. Raises MemoryStoreError."""
        database = Database.open(path, key)
        try:
            migrate(database, INDEX_ID, _MIGRATIONS)
        except MemoryStoreError:
            database.close()
            raise
        return cls(database)

    def names(self) -> set[str]:
        """The files that are listed."""
        return {name for (name,) in self._db.rows("SELECT name FROM agent")}

    def agents(self, namespace: str | None) -> list[IndexedAgent]:
        """The agents of a namespace, or all, by namespace and agent."""
        rows = self._db.rows(
            "SELECT name, namespace, agent, num_memories, num_turns, used_at, is_open FROM agent"
            " WHERE ?1 IS NULL OR namespace = ?1 ORDER BY namespace, agent",
            (namespace,),
        )
        return [IndexedAgent._make(row) for row in rows]

    def add(self, name: str, namespace: str, agent: str, used_at: float) -> None:
        """List an agent that is not listed, as one whose counts are old. On the disk when it returns."""
        self._db.rows("PRAGMA synchronous = FULL")
        try:
            with self._db.writing():
                self._db.run(
                    "INSERT OR IGNORE INTO agent (name, namespace, agent, num_memories, num_turns, used_at, is_open)"
                    " VALUES (?, ?, ?, 0, 0, ?, 1)",
                    (name, namespace, agent, used_at),
                )
        finally:
            self._db.rows("PRAGMA synchronous = NORMAL")

    def note_open(self, name: str, now: float) -> bool:
        """Say that an agent's counts are about to change; returns whether it is listed."""
        with self._db.writing():
            return bool(self._db.run("UPDATE agent SET is_open = 1, used_at = ? WHERE name = ?", (now, name)))

    def note_closed(self, name: str, num_memories: int, num_turns: int, used_at: float) -> None:
        """Keep an agent's counts."""
        with self._db.writing():
            self._db.run(
                "UPDATE agent SET is_open = 0, num_memories = ?, num_turns = ?, used_at = max(used_at, ?)"
                " WHERE name = ?",
                (num_memories, num_turns, used_at, name),
            )

    def remove(self, name: str) -> None:
        """Take an agent off the list."""
        with self._db.writing():
            self._db.run("DELETE FROM agent WHERE name = ?", (name,))

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()
