"""Memories of a store, with their versions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from blake3 import blake3
from msgspec.structs import replace

from openclaw_cache.errors import VersionConflictError
from openclaw_cache.memory.record import Memory
from openclaw_cache.memory.sqlite.filtering import marks, of_memories
from openclaw_cache.memory.sqlite.packing import pack, unpack
from openclaw_cache.memory.sqlite.passages import add_passages, remove_passages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openclaw_cache.memory.record import Filter
    from openclaw_cache.memory.sqlite.database import Database, Row

_BATCH: Final = 4096


class SqliteMemories:
    """`store.Memories` in SQLite."""

    _db: Database

    def put(self, memories: Sequence[Memory]) -> None:
        """See `store.Memories`. Cost: one commit, and O(length) for each text."""
        if not memories:
            return
        with self._db.writing():
            for memory in memories:
                _put(self._db, memory)
            for memory in memories:
                for old in memory.supersedes:
                    self._db.run(
                        "UPDATE memory SET superseded_by = ?1 WHERE id = ?2 AND id <> ?1", (memory.id, old)
                    )

    def get(self, ids: Sequence[str]) -> list[Memory | None]:
        """See `store.Memories`."""
        found: dict[str, Memory] = {}
        for start in range(0, len(ids), _BATCH):
            some = ids[start : start + _BATCH]
            rows = self._db.rows(
                f"SELECT body, superseded_by FROM memory WHERE id IN ({marks(len(some))})",  # noqa: S608
                some,
            )
            found |= {memory.id: memory for memory in map(_memory, rows)}
        return [found.get(memory_id) for memory_id in ids]

    def versions(self, memory_id: str) -> list[Memory]:
        """See `store.Memories`."""
        with self._db.reading():
            return _versions(self._db, memory_id)

    def page(self, after: str, limit: int, within: Filter) -> list[Memory]:
        """See `store.Memories`."""
        condition, values = of_memories(within)
        rows = self._db.rows(
            f"SELECT m.body, m.superseded_by FROM memory m WHERE m.id > ? AND {condition}"  # noqa: S608
            " ORDER BY m.id LIMIT ?",
            (after, *values, max(limit, 0)),
        )
        return list(map(_memory, rows))

    def holders(self, slot: str) -> list[Memory]:
        """See `store.Memories`."""
        rows = self._db.rows(
            "SELECT body, superseded_by FROM memory WHERE slot = ? AND superseded_by IS NULL ORDER BY at, id",
            (slot,),
        )
        return list(map(_memory, rows))

    def with_text(self, texts: Sequence[str]) -> list[Memory | None]:
        """See `store.Memories`."""
        digests = [_digest(text) for text in texts]
        found: dict[bytes, Memory] = {}
        for start in range(0, len(digests), _BATCH):
            some = digests[start : start + _BATCH]
            rows = self._db.rows(
                "SELECT body, superseded_by, text_digest FROM memory"  # noqa: S608
                f" WHERE text_digest IN ({marks(len(some))}) AND superseded_by IS NULL ORDER BY id DESC",
                some,
            )
            found |= {digest: _memory((body, superseded_by)) for body, superseded_by, digest in rows}
        return [found.get(digest) for digest in digests]

    def forget(self, ids: Sequence[str]) -> list[Memory]:
        """See `store.Memories`. Their texts and terms are in no file afterwards."""
        removed: list[Memory] = []
        with self._db.writing():
            for memory_id in dict.fromkeys(ids):
                row = self._db.first("SELECT number FROM memory WHERE id = ?", (memory_id,))
                if row is None:
                    continue
                removed += _versions(self._db, memory_id)
                remove_passages(self._db, "memory", row[0])
                self._db.run("DELETE FROM memory WHERE number = ?", row)
        if removed:
            self._db.scrub()
        return removed


def _put(database: Database, memory: Memory) -> None:
    row = database.first("SELECT number, version, body, superseded_by FROM memory WHERE id = ?", (memory.id,))
    number, version = row[:2] if row else (None, 0)
    if memory.version != version + 1:
        raise VersionConflictError(
            f"memory {memory.id} is at version {version}: the next one is {version + 1}, not {memory.version}"
        )
    fields = (
        memory.id,
        memory.version,
        memory.kind,
        memory.at,
        memory.slot,
        memory.provenance.session,
        memory.superseded_by,
        _digest(memory.text),
        _body(memory),
    )
    if row is None or number is None:
        number = database.add(
            "INSERT INTO memory (id, version, kind, at, slot, session, superseded_by, text_digest, body)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            fields,
        )
        add_passages(database, "memory", number, memory.text, memory.at, is_embedded=True)
    else:
        earlier = _memory(row[2:])
        database.run(
            "INSERT INTO earlier_version (memory, version, body) VALUES (?, ?, ?)",
            (number, version, pack(earlier)),
        )
        database.run(
            "UPDATE memory SET id = ?, version = ?, kind = ?, at = ?, slot = ?, session = ?, superseded_by = ?,"
            " text_digest = ?, body = ? WHERE number = ?",
            (*fields, number),
        )
        database.run("DELETE FROM tag WHERE memory = ?", (number,))
        if earlier.text == memory.text:
            database.run("UPDATE passage SET at = ? WHERE memory = ?", (memory.at, number))
        else:
            remove_passages(database, "memory", number)
            add_passages(database, "memory", number, memory.text, memory.at, is_embedded=True)
    database.run_for_each(
        "INSERT INTO tag (name, memory) VALUES (?, ?)", [(tag, number) for tag in set(memory.tags)]
    )


def _versions(database: Database, memory_id: str) -> list[Memory]:
    earlier = database.rows(
        "SELECT v.body FROM memory m JOIN earlier_version v ON v.memory = m.number WHERE m.id = ? ORDER BY v.version",
        (memory_id,),
    )
    current = database.rows("SELECT body, superseded_by FROM memory WHERE id = ?", (memory_id,))
    return [*(unpack(body, Memory) for (body,) in earlier), *map(_memory, current)]


def _body(memory: Memory) -> bytes:
    return pack(replace(memory, superseded_by=None))


def _memory(row: Row) -> Memory:
    body, superseded_by = row
    memory = unpack(body, Memory)
    return replace(memory, superseded_by=superseded_by) if superseded_by is not None else memory


def _digest(text: str) -> bytes:
    return blake3(text.encode("utf-8", "surrogatepass")).digest(16)
