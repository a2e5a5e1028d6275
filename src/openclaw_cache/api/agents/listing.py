"""All agents of a namespace, what one of them has, and its removal."""

from __future__ import annotations

from typing import Final

import msgspec

from openclaw_cache.api.agents.ask import Ask, Reply, Table
from openclaw_cache.errors import RequestError

ALL: Final = "*"
"""What the table calls the list of agents: no agent has this path below it."""


async def agents(ask: Ask) -> Reply:
    """The agents that this key may use."""
    ask.only()
    rows = await ask.service.agents(ask.namespace)
    shown = [
        {
            "id": row.agent,
            "num_memories": row.num_memories,
            "num_turns": row.num_turns,
            "size_bytes": row.size_bytes,
            "last_used_at": row.last_used_at,
        }
        for row in rows
        if _may_use(ask, row.agent)
    ]
    return Reply({"agents": shown})


async def stats(ask: Ask) -> Reply:
    """What an agent's store holds."""
    ask.only()
    fingerprint = ask.service.embedder.fingerprint
    async with ask.memory() as memory:
        found = await memory.run(lambda store: store.stats(fingerprint))
    shown = msgspec.to_builtins(found)
    if fingerprint is None:
        shown["num_without_vector"] = None
    return Reply({"id": ask.agent, **shown, "embedder": ask.service.embedder.state})


async def remove(ask: Ask) -> Reply:
    """Remove an agent with all that it remembers."""
    ask.only("confirm")
    if ask.query.get("confirm") != ask.agent:
        raise RequestError(
            400,
            "confirm: repeat the agent's id in the query: this removes all that it remembers",
            param="confirm",
        )
    was_there = await ask.service.remove(ask.namespace, ask.agent)
    return Reply({"id": ask.agent, "removed": was_there})


def _may_use(ask: Ask, agent: str) -> bool:
    try:
        ask.principal.check_agent(agent)
    except RequestError:
        return False
    return True


ROUTES: Final[Table] = {("GET", ALL): agents, ("GET", "stats"): stats, ("DELETE", ""): remove}
