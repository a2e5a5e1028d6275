"""Taking a text out of everything that was said.

Every message is read: an index of terms does not find a text whose first or last word runs on, and forgetting must
not miss one. The texts are looked for in the stored JSON first, so only what has one of them is decoded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from openclaw_cache.memory.forgetting import forms_of, pattern_of, replaced
from openclaw_cache.memory.record import Message, RecalledItem
from openclaw_cache.memory.sqlite.packing import (
    content_bytes,
    pack,
    pack_content,
    plain_content_bytes,
    unpack,
    unpack_content,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from openclaw_cache.memory.sqlite.database import Database

_BATCH: Final = 500


@dataclass(slots=True)
class Redacted:
    """What was changed: messages by number, to be indexed anew, with whether they are of a heartbeat's turn."""

    messages: list[tuple[int, Message, bool]] = field(default_factory=list)
    num_recalls: int = 0

    @property
    def num(self) -> int:
        """How many messages and recalls."""
        return len(self.messages) + self.num_recalls


def redact(database: Database, texts: Sequence[str], mark: str) -> Redacted:
    """Write `mark` over the texts in messages and recalls; of two that overlap the longer goes first."""
    changed = Redacted()
    forms = {form for text in texts if text for form in forms_of(text)}
    if not forms:
        return changed
    pattern = pattern_of(texts)
    _redact_messages(database, pattern, [content_bytes(form)[1:-1] for form in forms], mark, changed)
    _redact_recalls(database, pattern, mark, changed)
    return changed


def _redact_messages(
    database: Database, pattern: re.Pattern[str], needles: list[bytes], mark: str, changed: Redacted
) -> None:
    needle = re.compile(b"|".join(map(re.escape, needles)))
    last = 0
    while rows := database.rows(
        "SELECT g.number, g.content, g.id, g.role, g.at, t.is_heartbeat FROM message g JOIN turn t ON t.number = g.turn"
        " WHERE g.number > ? ORDER BY g.number LIMIT ?",
        (last, _BATCH),
    ):
        last = rows[-1][0]
        for number, content, message_id, role, at, is_heartbeat in rows:
            if not needle.search(plain_content_bytes(content)):
                continue
            old = unpack_content(content)
            new = replaced(old, pattern, mark)
            if new != old:
                database.run("UPDATE message SET content = ? WHERE number = ?", (pack_content(new), number))
                message = Message(id=message_id, role=role, content=new, at=at)
                changed.messages.append((number, message, bool(is_heartbeat)))


def _redact_recalls(database: Database, pattern: re.Pattern[str], mark: str, changed: Redacted) -> None:
    numbers = drop_lines(database, {message.id for _, message, _ in changed.messages})
    for number, text, items in database.rows("SELECT number, text, items FROM recall"):
        redacted = pattern.sub(lambda _: mark, text)
        if redacted != text:
            lines = tuple(
                RecalledItem(of=item.of, owner=item.owner, line=pattern.sub(lambda _: mark, item.line))
                for item in unpack(items, tuple[RecalledItem, ...])
            )
            database.run(
                "UPDATE recall SET text = ?, items = ? WHERE number = ?", (redacted, pack(lines), number)
            )
            numbers.add(number)
    changed.num_recalls += len(numbers)


def drop_lines(database: Database, owners: Collection[str]) -> set[int]:
    """Take the lines that are of these messages out of all recalls; returns the numbers of those that changed.

    A line is made harmless and may be cut, so it need not have a message's very words. A recall without lines goes.
    """
    numbers = {
        number
        for owner in owners
        for (number,) in database.rows("SELECT recall FROM recalled WHERE owner = ?", (owner,))
    }
    for number in numbers:
        text, packed = database.one("SELECT text, items FROM recall WHERE number = ?", (number,))
        items = unpack(packed, tuple[RecalledItem, ...])
        gone = [item for item in items if item.owner in owners]
        for item in gone:
            text = text.replace(f"{item.line}\n", "", 1)
        if len(gone) == len(items):
            database.run("DELETE FROM recall WHERE number = ?", (number,))
            continue
        left = tuple(item for item in items if item.owner not in owners)
        database.run("UPDATE recall SET text = ?, items = ? WHERE number = ?", (text, pack(left), number))
        database.run_for_each(
            "DELETE FROM recalled WHERE recall = ? AND owner = ?", [(number, item.owner) for item in gone]
        )
    return numbers
