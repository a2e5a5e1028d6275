"""`/v1/agents/{agent}/…` for a host's context engine: turns, assembly, sessions, hints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from openclaw_cache.api.agents.ask import Ask, Reply, Table
from openclaw_cache.api.agents.times import Moment, moment
from openclaw_cache.errors import MemoryStoreError, RequestError
from openclaw_cache.memory.context import sessions
from openclaw_cache.memory.context.engine import ContextEngine, Ended, Upcoming
from openclaw_cache.memory.context.host import HostMessage
from openclaw_cache.types import Namespace

if TYPE_CHECKING:
    from openclaw_cache.gateway.session_prompts import SessionHints
    from openclaw_cache.memory.store import MemoryStore

_MOST_MESSAGES = 20_000

_Label = Annotated[str, msgspec.Meta(min_length=1, max_length=512)]
_Messages = Annotated[list[HostMessage], msgspec.Meta(max_length=_MOST_MESSAGES)]


class TurnOrder(msgspec.Struct, forbid_unknown_fields=True):
    """Body of `POST turns`: an accepted turn."""

    key: _Label
    session_id: _Label
    messages: Annotated[list[HostMessage], msgspec.Meta(min_length=1, max_length=_MOST_MESSAGES)]
    session_key: _Label | None = None
    is_heartbeat: bool = False
    time: Moment | None = None
    capture: bool = True
    """Whether memories may be taken from it."""


class AssembleOrder(msgspec.Struct, forbid_unknown_fields=True):
    """Body of `POST context:assemble`: a turn that is about to begin, and the history before it."""

    session_id: _Label
    messages: _Messages
    session_key: _Label | None = None
    prompt: str | None = None
    token_budget: Annotated[int, msgspec.Meta(ge=0)] | None = None
    is_heartbeat: bool = False
    capture: bool = True
    """Whether memories may be taken from what the log lacks of it."""


class ForkOrder(msgspec.Struct, forbid_unknown_fields=True):
    """Body of `POST sessions:fork`: a sub-agent's session is about to begin."""

    parent_session_key: _Label
    child_session_key: _Label
    mode: Literal["isolated", "fork"]
    parent_session_id: _Label | None = None
    child_session_id: _Label | None = None


class RollbackOrder(msgspec.Struct, forbid_unknown_fields=True):
    """Body of `POST sessions:rollback`: it did not begin after all."""

    child_session_key: _Label
    child_session_id: _Label | None = None


class EndOrder(msgspec.Struct, forbid_unknown_fields=True):
    """Body of `POST sessions:end`."""

    reason: _Label
    session_id: _Label | None = None
    session_key: _Label | None = None


class HintOrder(msgspec.Struct, forbid_unknown_fields=True):
    """Body of `POST hints`: what is known of a session's next call."""

    session_id: _Label
    state: Literal["tool", "idle", "ended"]
    session_key: _Label | None = None


class ContextRoutes:
    """Answers a host's context engine. Assembly, forks and hints never fail for want of a store or an engine."""

    def __init__(self, engine: ContextEngine, hints: SessionHints) -> None:
        self._engine = engine
        self._hints = hints

    def table(self) -> Table:
        """What is answered, by method and path."""
        return {
            ("POST", "turns"): self.commit,
            ("POST", "context:assemble"): self.assemble,
            ("POST", "sessions:fork"): self.fork,
            ("POST", "sessions:rollback"): self.roll_back,
            ("POST", "sessions:end"): self.end,
            ("POST", "hints"): self.hint,
        }

    async def commit(self, ask: Ask) -> Reply:
        """Keep an accepted turn. Raises RequestError, MemoryStoreError: then it may be tried again."""
        order = ask.order(TurnOrder)
        ended = Ended(
            order.key,
            order.session_id,
            order.messages,
            order.session_key,
            order.is_heartbeat,
            None if order.time is None else moment(order.time, "time"),
            order.capture,
        )
        async with ask.memory(create=True) as agent:
            done = await self._engine.commit(agent, ended, ask.now)
        return Reply({"status": done.status, "id": done.id, "captured": list(done.captured)})

    async def assemble(self, ask: Ask) -> Reply:
        """Say what to insert into a history. Raises RequestError (400) only."""
        order = ask.order(AssembleOrder)
        upcoming = Upcoming(
            order.session_id,
            order.messages,
            order.session_key,
            order.prompt,
            order.token_budget,
            order.is_heartbeat,
            order.capture,
        )
        try:
            async with ask.memory(create=True) as agent:
                found = await self._engine.assemble(agent, upcoming, ask.now)
        except MemoryStoreError:
            return Reply({"insertions": [], "recalled": 0, "reconciled": 0, "degraded": ["store"]})
        value: dict[str, Any] = {
            "insertions": [{"index": i.index, "text": i.text} for i in found.insertions],
            "recalled": found.num_recalled,
            "reconciled": found.num_reconciled,
        }
        return Reply(value | ({"degraded": list(found.degraded)} if found.degraded else {}))

    async def fork(self, ask: Ask) -> Reply:
        """Note that a session inherits another one's history, if it does."""
        order = ask.order(ForkOrder)
        inherits = False
        if order.mode == "fork":
            async with ask.memory() as agent:
                inherits = await agent.run(
                    lambda store: sessions.announce_fork(
                        store,
                        order.parent_session_id,
                        order.parent_session_key,
                        order.child_session_id,
                        order.child_session_key,
                    )
                )
        return Reply({"inherits": inherits})

    async def roll_back(self, ask: Ask) -> Reply:
        """Remove a session that did not come to be."""
        order = ask.order(RollbackOrder)
        async with ask.memory() as agent:
            removed = await agent.run(
                lambda store: sessions.roll_back(store, order.child_session_id, order.child_session_key)
            )
        return Reply({"removed": removed})

    async def end(self, ask: Ask) -> Reply:
        """Let go of a session's KV, and of its recalls where it goes on under the same id. Its turns stay."""
        order = ask.order(EndOrder)
        if order.session_id is None and order.session_key is None:
            raise RequestError(400, "give session_id or session_key", param="session_id")
        async with ask.memory() as agent:
            session = await agent.run(lambda store: _ended(store, order))
        return Reply({"told": await self._tell(ask, session, order.session_key, "ended")})

    async def hint(self, ask: Ask) -> Reply:
        """Pass on what is known of a session's next call."""
        order = ask.order(HintOrder)
        return Reply({"told": await self._tell(ask, order.session_id, order.session_key, order.state)})

    async def _tell(
        self, ask: Ask, session: str | None, key: str | None, state: Literal["tool", "idle", "ended"]
    ) -> int:
        names = [name for name in dict.fromkeys((session, key)) if name is not None]
        return sum([await self._hints.tell(Namespace(ask.namespace), name, state) for name in names])


def _ended(store: MemoryStore, order: EndOrder) -> str | None:
    session = order.session_id
    if session is None and order.session_key is not None:
        session = sessions.newest(store, order.session_key)
    if session is not None and order.reason == "reset":
        sessions.reset(store, session)
    return session
