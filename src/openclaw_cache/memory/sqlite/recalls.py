"""What was recalled before turns, in a store."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Final

from openclaw_cache.memory.record import Recall, RecalledItem
from openclaw_cache.memory.sqlite.packing import pack, unpack
from openclaw_cache.memory.sqlite.turns import session_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openclaw_cache.memory.sqlite.database import Database, Row

_RECALL: Final = "r.id, s.name, r.after, r.text, r.items, r.num_tokens, r.at"


class SqliteRecalls:
    """The recalls of `store.Turns` in SQLite."""

    _db: Database

    def put_recall(self, recall: Recall) -> Recall:
        """See `store.Turns`."""
        with self._db.writing():
            kept = self._recalls("s.name = ? AND r.after = ?", (recall.session, recall.after))
            if kept:
                return kept[0]
            _add(self._db, recall, session_number(self._db, recall.session))
        return recall

    def recalls(self, session: str) -> list[Recall]:
        """See `store.Turns`."""
        return self._recalls("s.name = ?", (session,))

    def replace_recalls(self, recalls: Sequence[Recall]) -> None:
        """See `store.Turns`. What stood there before is in no file afterwards."""
        with self._db.writing():
            for recall in recalls:
                row = self._db.first("SELECT number FROM recall WHERE id = ?", (recall.id,))
                if row is None:
                    continue
                if not recall.text:
                    self._db.run("DELETE FROM recall WHERE number = ?", row)
                    continue
                self._db.run(
                    "UPDATE recall SET text = ?, items = ?, num_tokens = ?, at = ? WHERE number = ?",
                    (recall.text, pack(recall.items), recall.num_tokens, recall.at, *row),
                )
                self._db.run("DELETE FROM recalled WHERE recall = ?", row)
                _add_owners(self._db, recall, row[0])
        self._db.scrub()

    def recalls_with(self, owner: str) -> list[Recall]:
        """See `store.Turns`."""
        return self._recalls("r.number IN (SELECT recall FROM recalled WHERE owner = ?)", (owner,))

    def fork(self, parent: str, child: str) -> None:
        """See `store.Turns`."""
        with self._db.writing():
            session = session_number(self._db, child)
            kept = {recall.after for recall in self.recalls(child)}
            for recall in self.recalls(parent):
                if recall.after not in kept:
                    _add(self._db, recall, session, recall_id=f"rec_{secrets.token_hex(12)}")

    def _recalls(self, condition: str, values: Sequence[Any]) -> list[Recall]:
        rows = self._db.rows(
            f"SELECT {_RECALL} FROM recall r JOIN session s ON s.number = r.session WHERE {condition}"  # noqa: S608
            " ORDER BY r.number",
            values,
        )
        return list(map(_recall, rows))


def _add(database: Database, recall: Recall, session: int, recall_id: str | None = None) -> None:
    number = database.add(
        "INSERT INTO recall (id, session, after, text, items, num_tokens, at) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            recall_id or recall.id,
            session,
            recall.after,
            recall.text,
            pack(recall.items),
            recall.num_tokens,
            recall.at,
        ),
    )
    _add_owners(database, recall, number)


def _add_owners(database: Database, recall: Recall, number: int) -> None:
    owners = {item.owner for item in recall.items}
    database.run_for_each(
        "INSERT INTO recalled (owner, recall) VALUES (?, ?)", [(owner, number) for owner in owners]
    )


def _recall(row: Row) -> Recall:
    recall_id, session, after, text, items, num_tokens, at = row
    return Recall(
        id=recall_id,
        session=session,
        after=after,
        text=text,
        items=unpack(items, tuple[RecalledItem, ...]),
        num_tokens=num_tokens,
        at=at,
    )
