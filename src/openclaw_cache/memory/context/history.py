"""A history as a host shows it, held against what an agent's store knows of its session.

All functions block: they are called within one piece of work on the store.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from openclaw_cache.memory.content import text_parts
from openclaw_cache.memory.context import sessions
from openclaw_cache.memory.context.assembling import Place, decided, emptied, last_id
from openclaw_cache.memory.context.host import HostMessage
from openclaw_cache.memory.context.identity import message_ids, part_id, recall_id
from openclaw_cache.memory.context.reconciling import addition, is_reconcilable, texts_added, unlogged
from openclaw_cache.memory.record import Recall, Turn
from openclaw_cache.memory.store import MemoryStore


@dataclass(frozen=True, slots=True)
class History:
    """The messages before the turn that is about to begin."""

    session: str
    places: tuple[Place, ...]
    recalls: tuple[Recall, ...]
    """Those that are kept for the session, empty ones among them."""
    unlogged: tuple[Turn, ...]
    """What the log lacks of it."""
    is_whole: bool
    """Whether it begins where the session began."""

    @property
    def after(self) -> str:
        """The id of its last message; empty where there is none."""
        return last_id(self.places)

    @property
    def decision(self) -> Recall | None:
        """What was decided for the turn that begins here."""
        return decided(self.places, self.recalls)


def read(
    store: MemoryStore,
    session: str,
    session_key: str | None,
    messages: Sequence[HostMessage],
    prompt: str | None,
    now: float,
) -> History:
    """What the store knows of a history.

    A place belongs to the last turn that began there: what was recalled for another prompt at the end of this very
    history (a turn that failed, or was taken back) is removed. Without a prompt the turn is taken to be the same.
    """
    sessions.adopt(store, session, session_key, messages)
    ids = message_ids(sessions.lineage(store, session), messages)
    places = tuple(Place(i, m.role == "toolResult") for i, m in zip(ids, messages, strict=True))
    recalls = store.recalls(session)
    stale = decided(places, recalls)
    if stale is not None and prompt is not None and stale.id != recall_id(session, stale.after, prompt):
        store.replace_recalls([emptied(stale)])
        recalls = [recall for recall in recalls if recall.id != stale.id]
    dropped_at = sessions.dropped_at(store, session) * 1000
    wanted = [
        i
        for i, m in zip(ids, messages, strict=True)
        if is_reconcilable(m) and (m.timestamp is None or m.timestamp > dropped_at)
    ]
    missing = frozenset(sessions.missing(store, session, wanted))
    turns = unlogged(session, session_key, list(zip(ids, messages, strict=True)), missing, now)
    sessions.begin(store, session, _first(ids, messages))
    return History(
        session,
        places,
        tuple(recalls),
        (*_additions(store, session, session_key, ids, messages, missing, now), *turns),
        is_whole=bool(ids) and sessions.begins_with(store, session, ids[0]),
    )


def _additions(
    store: MemoryStore,
    session: str,
    session_key: str | None,
    ids: Sequence[str],
    messages: Sequence[HostMessage],
    missing: Collection[str],
    now: float,
) -> Iterator[Turn]:
    """What was added to replies since they were stored. Cost: reads each reply of several texts."""
    for message_id, message in zip(ids, messages, strict=True):
        if message.role != "assistant" or message_id in missing or not is_reconcilable(message):
            continue
        if len(text_parts(message.content)) < 2:
            continue
        stored = store.around(message_id, 0, 0)
        added = texts_added(stored[0].content, message.content) if stored else {}
        named = {part_id(message_id, index): text for index, text in added.items()}
        if new := sessions.missing(store, session, list(named)):
            yield addition(session, session_key, message, [(i, named[i]) for i in new], now)


def _first(ids: Sequence[str], messages: Sequence[HostMessage]) -> str | None:
    """What a session may begin with: "" where the history begins with something else than what a user said."""
    if not ids:
        return None
    return ids[0] if messages[0].role == "user" and is_reconcilable(messages[0]) else ""
