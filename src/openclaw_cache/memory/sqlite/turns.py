"""The log of turns of a store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from openclaw_cache.memory.passages import text_of
from openclaw_cache.memory.record import Message, Turn
from openclaw_cache.memory.sqlite.filtering import marks
from openclaw_cache.memory.sqlite.packing import pack_content, unpack_content
from openclaw_cache.memory.sqlite.passages import add_passages, remove_passages
from openclaw_cache.memory.sqlite.redaction import drop_lines, redact

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openclaw_cache.memory.sqlite.database import Database, Row

_BATCH: Final = 4096
_EMBEDDED_ROLES: Final = ("user", "assistant")
"""What a tool gave back or a host put in is found by its words only: it is long, and seldom asked for by meaning."""
_MESSAGE: Final = "g.id, g.role, g.content, g.at, g.tool_call, g.tool_name"
_TURN: Final = "t.number, t.id, t.key, s.name, t.session_key, t.at, t.is_heartbeat, t.origin"


class SqliteTurns:
    """The log part of `store.Turns` in SQLite."""

    _db: Database

    def append(self, turn: Turn) -> bool:
        """See `store.Turns`. Cost: one commit, and O(length) for each text."""
        with self._db.writing():
            session = session_number(self._db, turn.session)
            if self._db.first("SELECT 1 FROM turn WHERE session = ? AND key = ?", (session, turn.key)):
                return False
            number = self._db.add(
                "INSERT INTO turn (id, key, session, session_key, at, is_heartbeat, origin)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                (turn.id, turn.key, session, turn.session_key, turn.at, int(turn.is_heartbeat), turn.origin),
            )
            for message in turn.messages:
                _append(self._db, message, number, session, is_heartbeat=turn.is_heartbeat)
        return True

    def turn(self, turn_id: str) -> Turn | None:
        """See `store.Turns`."""
        with self._db.reading():
            found = self._turns("t.id = ?", (turn_id,), 1)
        return found[0] if found else None

    def turns(self, session: str | None, after: str, limit: int) -> list[Turn]:
        """See `store.Turns`."""
        with self._db.reading():
            last = 0
            if after:
                row = self._db.first("SELECT number FROM turn WHERE id = ?", (after,))
                if row is None:
                    return []
                last = row[0]
            if session is None:
                return self._turns("t.number > ?", (last,), limit)
            return self._turns("t.number > ? AND s.name = ?", (last, session), limit)

    def around(self, message_id: str, before: int, after: int) -> list[Message]:
        """See `store.Turns`."""
        with self._db.reading():
            row = self._db.first(
                "SELECT number, session FROM message WHERE id = ? ORDER BY number LIMIT 1", (message_id,)
            )
            if row is None:
                return []
            number, session = row
            earlier = self._db.rows(
                f"SELECT {_MESSAGE} FROM message g WHERE session = ? AND number < ? ORDER BY number DESC LIMIT ?",  # noqa: S608
                (session, number, max(before, 0)),
            )
            rest = self._db.rows(
                f"SELECT {_MESSAGE} FROM message g WHERE session = ? AND number >= ? ORDER BY number LIMIT ?",  # noqa: S608
                (session, number, max(after, 0) + 1),
            )
        return list(map(_message, [*reversed(earlier), *rest]))

    def missing(self, session: str, ids: Sequence[str]) -> list[str]:
        """See `store.Turns`."""
        known: set[str] = set()
        for start in range(0, len(ids), _BATCH):
            some = ids[start : start + _BATCH]
            known |= {
                message_id
                for (message_id,) in self._db.rows(
                    "SELECT g.id FROM session s JOIN message g ON g.session = s.number"  # noqa: S608
                    f" WHERE s.name = ? AND g.id IN ({marks(len(some))})",
                    (session, *some),
                )
            }
        return [message_id for message_id in ids if message_id not in known]

    def turn_ids(self, message_ids: Sequence[str]) -> list[str | None]:
        """See `store.Turns`."""
        found: dict[str, str] = {}
        for start in range(0, len(message_ids), _BATCH):
            some = message_ids[start : start + _BATCH]
            found |= dict(
                self._db.rows(
                    "SELECT g.id, t.id FROM message g JOIN turn t ON t.number = g.turn"  # noqa: S608
                    f" WHERE g.id IN ({marks(len(some))}) ORDER BY g.number DESC",
                    some,
                )
            )
        return [found.get(message_id) for message_id in message_ids]

    def sessions(self) -> list[str]:
        """See `store.Turns`."""
        rows = self._db.rows(
            "SELECT name FROM session s WHERE EXISTS (SELECT 1 FROM turn WHERE session = s.number)"
            " OR EXISTS (SELECT 1 FROM recall WHERE session = s.number) ORDER BY number"
        )
        return [name for (name,) in rows]

    def redact(self, texts: Sequence[str], mark: str) -> int:
        """See `store.Turns`. Cost: reads every message and recall once."""
        with self._db.writing():
            changed = redact(self._db, texts, mark)
            for number, message, is_heartbeat in changed.messages:
                remove_passages(self._db, "message", number)
                _add_passages(self._db, number, message, is_heartbeat=is_heartbeat)
        if changed.num:
            self._db.scrub()
        return changed.num

    def drop_session(self, session: str) -> int:
        """See `store.Turns`."""
        with self._db.writing():
            row = self._db.first("SELECT number FROM session WHERE name = ?", (session,))
            if row is None:
                return 0
            messages: dict[str, int] = dict(
                self._db.rows("SELECT id, number FROM message WHERE session = ?", row)
            )
            drop_lines(self._db, messages)
            for message in messages.values():
                remove_passages(self._db, "message", message)
            self._db.run("DELETE FROM message WHERE session = ?", row)
            num_turns = self._db.run("DELETE FROM turn WHERE session = ?", row)
            self._db.run("DELETE FROM recall WHERE session = ?", row)
            self._db.run("DELETE FROM session WHERE number = ?", row)
        self._db.scrub()
        return num_turns

    def session_of(self, session_key: str) -> str | None:
        """See `store.Turns`."""
        row = self._db.first(
            "SELECT s.name FROM turn t JOIN session s ON s.number = t.session WHERE t.session_key = ?"
            " ORDER BY t.at DESC, t.number DESC LIMIT 1",
            (session_key,),
        )
        return row[0] if row else None

    def _turns(self, condition: str, values: Sequence[Any], limit: int) -> list[Turn]:
        rows = self._db.rows(
            f"SELECT {_TURN} FROM turn t JOIN session s ON s.number = t.session WHERE {condition}"  # noqa: S608
            " ORDER BY t.number LIMIT ?",
            (*values, max(limit, 0)),
        )
        messages: dict[int, list[Message]] = {row[0]: [] for row in rows}
        numbers = list(messages)
        for start in range(0, len(numbers), _BATCH):
            some = numbers[start : start + _BATCH]
            for turn, *message in self._db.rows(
                f"SELECT g.turn, {_MESSAGE} FROM message g WHERE g.turn IN ({marks(len(some))}) ORDER BY g.number",  # noqa: S608
                some,
            ):
                messages[turn].append(_message(tuple(message)))
        return [_turn(row, messages[row[0]]) for row in rows]


def session_number(database: Database, name: str) -> int:
    """The number of a session, which is written down where it is new."""
    row = database.first("SELECT number FROM session WHERE name = ?", (name,))
    return int(row[0]) if row else database.add("INSERT INTO session (name) VALUES (?)", (name,))


def _append(database: Database, message: Message, turn: int, session: int, *, is_heartbeat: bool) -> None:
    if database.first("SELECT 1 FROM message WHERE id = ? AND session = ?", (message.id, session)):
        return
    number = database.add(
        "INSERT INTO message (id, turn, session, role, content, at, tool_call, tool_name)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            message.id,
            turn,
            session,
            message.role,
            pack_content(message.content),
            message.at,
            message.tool_call,
            message.tool_name,
        ),
    )
    _add_passages(database, number, message, is_heartbeat=is_heartbeat)


def _add_passages(database: Database, number: int, message: Message, *, is_heartbeat: bool) -> None:
    is_embedded = message.role in _EMBEDDED_ROLES and not is_heartbeat
    add_passages(database, "message", number, text_of(message), message.at, is_embedded=is_embedded)


def _message(row: Row) -> Message:
    message_id, role, content, at, tool_call, tool_name = row
    return Message(
        id=message_id,
        role=role,
        content=unpack_content(content),
        at=at,
        tool_call=tool_call,
        tool_name=tool_name,
    )


def _turn(row: Row, messages: list[Message]) -> Turn:
    _, turn_id, key, session, session_key, at, is_heartbeat, origin = row
    return Turn(
        id=turn_id,
        key=key,
        session=session,
        at=at,
        messages=tuple(messages),
        session_key=session_key,
        is_heartbeat=bool(is_heartbeat),
        origin=origin,
    )
