"""How what a store keeps is written as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from openclaw_cache.api.agents.times import shown
from openclaw_cache.types import Json

if TYPE_CHECKING:
    from openclaw_cache.memory.record import Memory, Message, Turn
    from openclaw_cache.memory.retrieval.search import Hit
    from openclaw_cache.memory.retrieval.time_words import TimeRange


def memory_json(memory: Memory) -> dict[str, Json]:
    """A memory in its version. `time` is when it happened or was said; it and no other time can be set."""
    return {
        "id": memory.id,
        "text": memory.text,
        "kind": memory.kind,
        "tags": list(memory.tags),
        "time": shown(memory.at),
        "source": memory.source,
        "slot": memory.slot,
        "version": memory.version,
        "created_at": memory.created_at,
        "updated_at": memory.updated_at,
        "supersedes": list(memory.supersedes),
        "superseded_by": memory.superseded_by,
        "provenance": msgspec.to_builtins(memory.provenance),
    }


def message_json(message: Message) -> dict[str, Json]:
    """A message as the host gave it."""
    found = {
        "id": message.id,
        "role": message.role,
        "content": message.content,
        "time": shown(message.at),
    }
    if message.tool_call is not None:
        found["tool_call"] = message.tool_call
    if message.tool_name is not None:
        found["tool_name"] = message.tool_name
    return found


def turn_json(turn: Turn) -> dict[str, Json]:
    """A turn with its messages."""
    return {
        "id": turn.id,
        "key": turn.key,
        "session_id": turn.session,
        "session_key": turn.session_key,
        "time": shown(turn.at),
        "is_heartbeat": turn.is_heartbeat,
        "origin": turn.origin,
        "messages": [message_json(message) for message in turn.messages],
    }


def range_json(asked: TimeRange) -> dict[str, Json]:
    """The time that a question named."""
    return {
        "since": None if asked.since is None else shown(asked.since),
        "until": None if asked.until is None else shown(asked.until),
        "phrase": asked.phrase,
    }


def why_json(hit: Hit) -> dict[str, Json]:
    """Why something was found: its rank and value in each list."""
    return {
        name: {"rank": place.rank or None, "value": round(place.value, 4)} for name, place in hit.why.items()
    }
