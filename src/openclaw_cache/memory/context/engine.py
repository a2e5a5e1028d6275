"""The context engine: what a host asks before a turn, and tells after it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from openclaw_cache.errors import MemoryStoreError
from openclaw_cache.memory.content import text_parts
from openclaw_cache.memory.context import sessions
from openclaw_cache.memory.context.assembling import Insertion, Plan, owners, plan, share_of
from openclaw_cache.memory.context.history import History, read
from openclaw_cache.memory.context.host import HostMessage, as_message, is_logged, text_of
from openclaw_cache.memory.context.identity import is_timed, message_ids, recall_id, turn_id
from openclaw_cache.memory.context.prompts import is_internal, is_machine_session, is_wake, query_of
from openclaw_cache.memory.context.reconciling import reconciled_key
from openclaw_cache.memory.context.visible import Visible
from openclaw_cache.memory.record import Recall, Turn

if TYPE_CHECKING:
    from openclaw_cache.memory.agent import AgentMemory
    from openclaw_cache.memory.store import MemoryStore


@dataclass(frozen=True, slots=True)
class RecallRules:
    """How much is recalled for one turn, and for all turns of a prompt together."""

    max_items: int = 10
    max_tokens: int = 1500
    window_ratio: float = 0.10


@dataclass(frozen=True, slots=True)
class Upcoming:
    """A turn that is about to begin, as the host tells of it. `messages` is the history before it."""

    session: str
    messages: Sequence[HostMessage]
    session_key: str | None = None
    prompt: str | None = None
    """What the turn's own message says; None where a turn that has begun is assembled again."""
    token_budget: int | None = None
    is_heartbeat: bool = False
    captures: bool = True
    """Whether memories may be taken from what the log lacks."""


@dataclass(frozen=True, slots=True)
class Assembled:
    """What to insert into a history, and what was done on the way."""

    insertions: tuple[Insertion, ...] = ()
    num_recalled: int = 0
    """Lines that were recalled for this turn."""
    num_reconciled: int = 0
    """Messages that the log lacked, and has now."""
    degraded: tuple[str, ...] = ()
    """What could not be done: `store`, `log`, `recall`, or what search says of itself."""


@dataclass(frozen=True, slots=True)
class Ended:
    """An accepted turn, from the user's message to the last one of the reply."""

    key: str
    session: str
    messages: Sequence[HostMessage]
    session_key: str | None = None
    is_heartbeat: bool = False
    at: float | None = None
    captures: bool = True
    """Whether memories may be taken from it."""


@dataclass(frozen=True, slots=True)
class Committed:
    """What became of a turn."""

    status: Literal["committed", "duplicate"]
    id: str
    captured: tuple[str, ...] = ()
    """Ids of the memories that were taken from it."""


class ContextEngine:
    """What hosts ask of an agent's memory around a turn. Holds nothing: all that lasts is in the agent's store.

    Args:
        rules: How much is recalled.
        captures: Whether memories are taken from what a user says.
        reconcile_s: For how long a turn may wait while the log gets what it lacks; the rest comes with the next ones.
    """

    def __init__(self, rules: RecallRules, *, captures: bool = True, reconcile_s: float = 0.5) -> None:
        self._rules = rules
        self._reconcile_s = reconcile_s
        self._captures = captures

    async def assemble(self, agent: AgentMemory, upcoming: Upcoming, now: float) -> Assembled:
        """Say what stands in a turn's prompt besides the host's own history.

        The same question gets the same bytes, whenever it is asked. Never fails: what cannot be had is left out, and
        said in `degraded`.
        """
        # Should the host show what we inserted, it counts as not there: the index is that of the history given.
        given = [i for i, message in enumerate(upcoming.messages) if not message.is_recall]
        messages = [upcoming.messages[i] for i in given]
        session, prompt = upcoming.session, upcoming.prompt
        try:
            history = await agent.run(
                lambda store: read(store, session, upcoming.session_key, messages, prompt, now)
            )
        except MemoryStoreError:
            return Assembled(degraded=("store",))
        num_reconciled, degraded = await self._reconcile(agent, history, now, captures=upcoming.captures)
        share = share_of(upcoming.token_budget, self._rules.window_ratio)
        recalls = history.recalls
        recalled = history.decision if prompt is not None else None
        query = None if prompt is None or upcoming.is_heartbeat else query_of(prompt)
        if prompt is not None and query is not None and history.decision is None:
            before = plan(history.places, recalls, share, is_whole=history.is_whole)
            try:
                kept, more = await self._recall(agent, history, before, messages, prompt, query, now)
            except MemoryStoreError:
                degraded = (*degraded, "recall")
            else:
                recalls = (*(r for r in recalls if r.after != kept.after), kept)
                recalled, degraded = kept, (*degraded, *more)
        placed = plan(history.places, recalls, share, is_whole=history.is_whole)
        return Assembled(
            _as_given(placed, given, upcoming.messages),
            0 if recalled is None else len(recalled.items),
            num_reconciled,
            degraded,
        )

    async def commit(self, agent: AgentMemory, ended: Ended, now: float) -> Committed:
        """Keep an accepted turn, and take memories from it. Idempotent by the turn's key, however often it is tried.

        Raises:
            MemoryStoreError: then the turn is not kept, and may be committed again.
        """
        turn, is_known = await agent.run(lambda store: _turn(store, ended, now))
        if is_known:
            return Committed("duplicate", turn.id)
        captured = await self._capture(agent, turn, now, captures=ended.captures)
        is_new = await agent.run(lambda store: store.append(agent.cleaned(turn)))
        agent.touched()
        return Committed("committed" if is_new else "duplicate", turn.id, captured)

    async def _reconcile(
        self, agent: AgentMemory, history: History, now: float, *, captures: bool
    ) -> tuple[int, tuple[str, ...]]:
        num_messages, began = 0, time.monotonic()
        try:
            for turn in history.unlogged:
                if num_messages and time.monotonic() - began > self._reconcile_s:
                    return num_messages, ("log",)
                await self._capture(agent, turn, now, captures=captures)
                await agent.run(lambda store, turn=turn: store.append(agent.cleaned(turn)))  # type: ignore[misc]
                agent.touched()
                num_messages += len(turn.messages)
        except MemoryStoreError:
            return num_messages, ("log",)
        return num_messages, ()

    async def _capture(
        self, agent: AgentMemory, turn: Turn, now: float, *, captures: bool
    ) -> tuple[str, ...]:
        """Take memories from what a person said in a turn.

        Done before the turn is kept: a crash in between repeats it, and what is known is not taken twice.
        """
        if not (captures and self._captures) or turn.is_heartbeat or is_machine_session(turn.session_key):
            return ()
        if any(m.role == "user" and is_internal("\n".join(text_parts(m.content))) for m in turn.messages):
            return ()
        captured = await agent.capture(turn.session, agent.cleaned(turn).messages, now, turn=turn.id)
        return tuple(memory.id for memory in captured.memories)

    async def _recall(
        self,
        agent: AgentMemory,
        history: History,
        before: Plan,
        messages: Sequence[HostMessage],
        prompt: str,
        query: str,
        now: float,
    ) -> tuple[Recall, tuple[str, ...]]:
        """Recall for a turn once and for all: if another call was first, its recall is the one that stays."""
        max_tokens = min(self._rules.max_tokens, before.room)
        visible = Visible((p.id for p in history.places), messages, prompt, owners(before.recalls))
        found = await agent.recall(
            query,
            max_items=self._rules.max_items,
            max_tokens=max_tokens,
            exclude=visible.owners,
            is_known=visible.shows,
        )
        recall = Recall(
            recall_id(history.session, history.after, prompt),
            history.session,
            history.after,
            found.text,
            tuple(found.items),
            found.num_tokens,
            now,
        )
        return await agent.run(lambda store: store.put_recall(recall)), tuple(found.degraded)


def _turn(store: MemoryStore, ended: Ended, now: float) -> tuple[Turn, bool]:
    """The turn as it is kept, and whether the log has it: committed before, or found in a history meanwhile."""
    session, key = ended.session, ended.key
    own_id = turn_id(session, key)
    logged = [message for message in ended.messages if is_logged(message)]
    ids = message_ids(sessions.lineage(store, session), logged, turn=key)
    is_known = store.turn(own_id) is not None
    dropped_at = sessions.dropped_at(store, session)
    if (
        not is_known
        and ids
        and all(m.timestamp is not None and m.timestamp / 1000 <= dropped_at for m in logged)
    ):
        is_known = True  # the session was removed since
    if not is_known and ids and all(map(is_timed, logged)) and not sessions.missing(store, session, ids):
        found = turn_id(session, reconciled_key(ids[0]))
        own_id, is_known = found if store.turn(found) is not None else own_id, True
    if not is_known:
        sessions.note_key(store, session, ended.session_key)
    first = next((m for m in logged if m.role == "user"), None)
    messages = tuple(as_message(message, i, now) for i, message in zip(ids, logged, strict=True))
    turn = Turn(
        id=own_id,
        key=key,
        session=session,
        at=ended.at if ended.at is not None else messages[0].at if messages else now,
        messages=messages,
        session_key=ended.session_key,
        is_heartbeat=ended.is_heartbeat or (first is not None and is_wake(text_of(first))),
    )
    return turn, is_known


def _as_given(placed: Plan, given: Sequence[int], messages: Sequence[HostMessage]) -> tuple[Insertion, ...]:
    """Insertions by the index of the history that was given, without those that stand there."""
    insertions = []
    for insertion in placed.insertions:
        index = given[insertion.index] if insertion.index < len(given) else len(messages)
        shown = messages[index - 1] if index else None
        if shown is None or not shown.is_recall or text_of(shown) != insertion.text:
            insertions.append(Insertion(index, insertion.text))
    return tuple(insertions)
