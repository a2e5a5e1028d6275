"""What a history shows and the log lacks, as turns.

Some turns are never committed: whatever was said while we could not be reached, and the announcement of a sub-agent's
result, whose reply the host adds to the reply before it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from openclaw_cache.memory.content import text_parts
from openclaw_cache.memory.context.host import HostMessage, as_message, is_logged, text_of
from openclaw_cache.memory.context.identity import is_timed, turn_id
from openclaw_cache.memory.context.prompts import is_wake
from openclaw_cache.memory.record import Turn
from openclaw_cache.types import Json


def is_reconcilable(message: HostMessage) -> bool:
    """Whether the log should have this message, and can tell whether it has."""
    return is_logged(message) and is_timed(message)


def unlogged(
    session: str,
    session_key: str | None,
    history: Sequence[tuple[str, HostMessage]],
    missing: Collection[str],
    now: float,
) -> list[Turn]:
    """The missing messages of a history as turns, each from a user's message to before the next one.

    Pure. A turn's key comes from its first message, so storing it again stores nothing. A turn that the log has in
    part comes without that part.
    """
    groups: list[list[tuple[str, HostMessage]]] = []
    is_open = False
    for message_id, message in history:
        if message_id not in missing:
            is_open = False
            continue
        if message.role == "user" or not is_open:
            groups.append([])
        groups[-1].append((message_id, message))
        is_open = True
    return [_turn(session, session_key, group, now) for group in groups]


def reconciled_key(first_message_id: str) -> str:
    """The key of the turn that a history was found to have from this message on."""
    return f"reconciled:{first_message_id}"


def texts_added(stored: Json, shown: Json) -> dict[int, str]:
    """The texts that a message was given since it was stored, by their index among its texts.

    None where what was stored is not their beginning: it was changed, here (something was forgotten) or there.
    """
    known, seen = text_parts(stored), text_parts(shown)
    return dict(list(enumerate(seen))[len(known) :]) if seen[: len(known)] == known else {}


def addition(
    session: str, session_key: str | None, message: HostMessage, texts: Sequence[tuple[str, str]], now: float
) -> Turn:
    """Texts that a message was given later (id and text of each), as a turn of their own."""
    parts = [
        (i, msgspec.structs.replace(message, content=[{"type": "text", "text": text}])) for i, text in texts
    ]
    return _turn(session, session_key, parts, now)


def _turn(
    session: str, session_key: str | None, group: Sequence[tuple[str, HostMessage]], now: float
) -> Turn:
    messages = tuple(as_message(message, message_id, now) for message_id, message in group)
    key = reconciled_key(messages[0].id)
    return Turn(
        id=turn_id(session, key),
        key=key,
        session=session,
        at=messages[0].at,
        messages=messages,
        session_key=session_key,
        is_heartbeat=group[0][1].role == "user" and is_wake(text_of(group[0][1])),
        origin="reconciled",
    )
