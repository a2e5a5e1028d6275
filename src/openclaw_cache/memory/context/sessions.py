"""Which session goes on from which.

A sub-agent that inherits its parent's conversation, and a session that the host continues under a new id, show messages
that the log has under another session. Such a session takes that one's lineage: its messages keep their ids there, are
not stored twice, and what was recalled between them stands there too.

All functions block: they are called within one piece of work on the store.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from openclaw_cache.memory.context.assembling import emptied
from openclaw_cache.memory.context.host import HostMessage
from openclaw_cache.memory.context.identity import message_ids
from openclaw_cache.memory.store import MemoryStore

_MOST_ANCESTORS: Final = 16
_OPEN: Final = "?"
"""In place of a message's id: the session has begun, and its first message was not shown yet."""


def lineage(store: MemoryStore, session: str) -> str:
    """The session that this one's messages are named after: itself, or the first one of its ancestors."""
    return store.label(f"lineage:{session}") or session


def with_ancestors(store: MemoryStore, session: str) -> list[str]:
    """The session, and those that it goes on from, nearest first."""
    found = [session]
    while len(found) <= _MOST_ANCESTORS and (parent := store.label(f"parent:{found[-1]}")):
        found.append(parent)
    return found


def missing(store: MemoryStore, session: str, ids: Sequence[str]) -> list[str]:
    """Those of the ids that neither the session nor an ancestor has, in order."""
    left = list(ids)
    for one in with_ancestors(store, session):
        left = store.missing(one, left) if left else left
    return left


def dropped_at(store: MemoryStore, session: str) -> float:
    """When what was said in a session until then was removed (Unix s), its ancestors' too; -inf where it was not.

    What its host shows of it is not logged again.
    """
    times = (store.label(f"dropped:{one}") for one in with_ancestors(store, session))
    return max((float(at) for at in times if at), default=-math.inf)


def adopt(store: MemoryStore, session: str, session_key: str | None, messages: Sequence[HostMessage]) -> None:
    """Let a session that begins with another one's messages go on from it. Idempotent."""
    note_key(store, session, session_key)
    if not messages or store.label(f"lineage:{session}"):
        return
    parent = _announced(store, session, session_key)
    if parent is None or parent == session:
        return
    root = lineage(store, parent)
    ids = message_ids(root, messages)
    if len(missing(store, parent, ids)) == len(ids):
        return
    store.set_label(f"parent:{session}", parent)
    store.set_label(f"lineage:{session}", root)
    store.fork(parent, session)


def note_key(store: MemoryStore, session: str, session_key: str | None) -> None:
    """Note that a host's key names this session now, and which one it named before: this one may go on from there."""
    before = newest(store, session_key) if session_key else None
    if session_key is None or before == session:
        return
    store.set_label(f"key:{session_key}", session)
    if before is not None and not store.label(f"inherits:{session}"):
        store.set_label(f"inherits:{session}", before)


def newest(store: MemoryStore, session_key: str) -> str | None:
    """The session that a host's key names: the last one that was heard of under it."""
    return store.label(f"key:{session_key}") or store.session_of(session_key)


def announce_fork(
    store: MemoryStore, parent: str | None, parent_key: str, child: str | None, child_key: str
) -> bool:
    """Note that a session will begin with another one's history. False where that one is not known."""
    parent = parent or newest(store, parent_key)
    if parent is None:
        return False
    for name in filter(None, (child, child_key)):
        store.set_label(f"inherits:{name}", parent)
    return True


def roll_back(store: MemoryStore, child: str | None, child_key: str) -> int:
    """Remove a session that did not come to be; returns how many turns it had."""
    session = child or newest(store, child_key)
    begins = store.turns(session, "", 1) if session is not None else []
    if any(turn.session_key not in (None, child_key) for turn in begins):
        return 0  # it is another one's, such as the parent's
    for name in (f"inherits:{child_key}", f"key:{child_key}"):
        store.set_label(name, "")
    if session is None:
        return 0
    for what in ("inherits", "parent", "lineage", "begun"):
        store.set_label(f"{what}:{session}", "")
    return store.drop_session(session)


def reset(store: MemoryStore, session: str) -> None:
    """Let a session begin anew under its own id: what was recalled in it is not shown again. The log stays."""
    store.replace_recalls([emptied(recall) for recall in store.recalls(session)])
    for what in ("inherits", "parent", "lineage"):
        store.set_label(f"{what}:{session}", "")


def begin(store: MemoryStore, session: str, first: str | None) -> None:
    """Note with which message a session begins: the first one that is shown after a history that was empty.

    A session may begin more than once under the same id, when its host resets it. The log cannot tell.

    Args:
        store: The agent's.
        session: Which.
        first: The id of the first message of its history, if a user sent it; None for an empty history.
    """
    begun = store.label(f"begun:{session}")
    if first is None and begun != _OPEN:
        store.set_label(f"begun:{session}", _OPEN)
    elif first and begun == _OPEN:
        store.set_label(f"begun:{session}", first)


def begins_with(store: MemoryStore, session: str, message_id: str) -> bool:
    """Whether a session, or one that it goes on from, begins with this message."""
    return any(store.label(f"begun:{one}") == message_id for one in with_ancestors(store, session))


def _announced(store: MemoryStore, session: str, session_key: str | None) -> str | None:
    """The session that this one may go on from."""
    for name in filter(None, (session, session_key)):
        if parent := store.label(f"inherits:{name}"):
            return parent
    return None
