"""The tables of a store, and how a file of an older version becomes one of this version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from openclaw_cache.errors import MemoryStoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from openclaw_cache.memory.sqlite.database import Database

STORE_ID: Final = 0x4F43_4D31
"""Says in a file's header that it is one of our stores."""

_VERSION_1: Final = """
CREATE TABLE label (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE trait (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;

-- The current version of each memory. `body` is all of it but `superseded_by`, which others set.
CREATE TABLE memory (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    version INTEGER NOT NULL,
    kind TEXT NOT NULL,
    at REAL NOT NULL,
    slot TEXT,
    session TEXT,
    superseded_by TEXT,
    text_digest BLOB NOT NULL,
    body BLOB NOT NULL
) STRICT;
CREATE INDEX memory_of_slot ON memory (slot) WHERE slot IS NOT NULL;
CREATE INDEX memory_of_text ON memory (text_digest);
CREATE TABLE earlier_version (
    memory INTEGER NOT NULL REFERENCES memory ON DELETE CASCADE,
    version INTEGER NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (memory, version)
) STRICT, WITHOUT ROWID;
CREATE TABLE tag (
    name TEXT NOT NULL,
    memory INTEGER NOT NULL REFERENCES memory ON DELETE CASCADE,
    PRIMARY KEY (name, memory)
) STRICT, WITHOUT ROWID;
CREATE INDEX tag_of_memory ON tag (memory);

CREATE TABLE session (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE turn (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    session INTEGER NOT NULL REFERENCES session,
    key TEXT NOT NULL,
    session_key TEXT,
    at REAL NOT NULL,
    is_heartbeat INTEGER NOT NULL,
    origin TEXT NOT NULL,
    UNIQUE (session, key)
) STRICT;
CREATE INDEX turn_of_session ON turn (session, number);
CREATE INDEX turn_of_session_key ON turn (session_key, at, number) WHERE session_key IS NOT NULL;
CREATE TABLE message (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL,
    turn INTEGER NOT NULL REFERENCES turn,
    session INTEGER NOT NULL REFERENCES session,
    role TEXT NOT NULL,
    content BLOB NOT NULL,
    at REAL NOT NULL,
    tool_call TEXT,
    tool_name TEXT,
    UNIQUE (id, session)
) STRICT;
CREATE INDEX message_of_session ON message (session, number);
CREATE INDEX message_of_turn ON message (turn, number);

CREATE TABLE recall (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    session INTEGER NOT NULL REFERENCES session,
    after TEXT NOT NULL,
    text TEXT NOT NULL,
    items BLOB NOT NULL,
    num_tokens INTEGER NOT NULL,
    at REAL NOT NULL,
    UNIQUE (session, after)
) STRICT;
CREATE TABLE recalled (
    owner TEXT NOT NULL,
    recall INTEGER NOT NULL REFERENCES recall ON DELETE CASCADE,
    PRIMARY KEY (owner, recall)
) STRICT, WITHOUT ROWID;
CREATE INDEX recalled_in ON recalled (recall);

-- `embedder` is whose vector it has, 0 while it waits for one, NULL where it never gets one.
CREATE TABLE passage (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    memory INTEGER REFERENCES memory,
    message INTEGER REFERENCES message,
    text TEXT NOT NULL,
    at REAL NOT NULL,
    embedder INTEGER
) STRICT;
CREATE INDEX passage_by_time ON passage (at, number);
CREATE INDEX passage_of_memory ON passage (memory) WHERE memory IS NOT NULL;
CREATE INDEX passage_of_message ON passage (message) WHERE message IS NOT NULL;
CREATE INDEX passage_of_embedder ON passage (embedder, at, number) WHERE embedder IS NOT NULL;
CREATE TABLE embedder (
    number INTEGER PRIMARY KEY, fingerprint TEXT NOT NULL UNIQUE, num_dims INTEGER NOT NULL
) STRICT;
CREATE TABLE vector (
    passage INTEGER PRIMARY KEY REFERENCES passage ON DELETE CASCADE,
    embedder INTEGER NOT NULL REFERENCES embedder,
    vector BLOB NOT NULL
) STRICT;

-- Terms, not texts; see full_text.py for why it is no `contentless_delete` table.
CREATE VIRTUAL TABLE full_text USING fts5(terms, content='', tokenize='ascii');
INSERT INTO full_text (full_text, rank) VALUES ('secure-delete', 1);
"""

STORE_MIGRATIONS: Final = (_VERSION_1,)
"""Scripts; the n-th makes version n of version n - 1."""


def migrate(
    database: Database,
    application_id: int,
    migrations: Sequence[str],
    complete: Callable[[], None] = lambda: None,
) -> None:
    """Bring a file to the newest version; an empty one gets all tables. Safe where several processes do so together.

    Args:
        database: the file.
        application_id: what the file's header says that it is.
        migrations: scripts, one for each version.
        complete: writes what else such a file has, where it is new or was of an older version: all or nothing.

    Raises:
        MemoryStoreError: it is of a newer version, or no file of this kind.
    """
    version = _version(database, application_id, len(migrations))
    if version == len(migrations):
        return
    with database.writing():
        version = _version(database, application_id, len(migrations))
        for script in migrations[version:]:
            database.run(script)
        complete()
        database.run(f"PRAGMA application_id = {application_id}")
        database.run(f"PRAGMA user_version = {len(migrations)}")


def _version(database: Database, application_id: int, newest: int) -> int:
    version = int(database.one("PRAGMA user_version")[0])
    is_empty = database.first("SELECT 1 FROM sqlite_schema LIMIT 1") is None
    if not is_empty and database.one("PRAGMA application_id")[0] != application_id:
        raise MemoryStoreError(f"{database.place} is not a memory store: move it away", code="damaged")
    if version > newest:
        raise MemoryStoreError(
            f"memory store {database.place} was written by a newer version of openclaw-cache "
            f"(format {version}, this one knows {newest}): upgrade",
            code="newer",
        )
    return version
