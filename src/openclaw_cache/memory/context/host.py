"""Messages as an agent's host shows them."""

from __future__ import annotations

from typing import Final

import msgspec

from openclaw_cache.memory.content import text_parts
from openclaw_cache.memory.nesting import flat
from openclaw_cache.memory.record import Message
from openclaw_cache.types import Json

RECALL_KEY: Final = "openclaw-cache:recall"
"""The `idempotencyKey` of a message that we had inserted, should the host show it to us again."""

LOGGED_ROLES: Final = frozenset({"user", "assistant", "toolResult", "custom"})
"""Others, such as a compaction's summary, have a place in the history and say nothing new."""

_INTERNAL: Final = "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>"


class HostMessage(msgspec.Struct, frozen=True, rename="camel"):
    """A message as the host's plugin sends it. What else the host has on it stays with the host."""

    role: str
    content: Json = None
    timestamp: float | None = None
    """Milliseconds of Unix time."""
    idempotency_key: str | None = None
    tool_call_id: str | None = None
    tool_name: str | None = None
    exclude_from_context: bool = False

    @property
    def is_recall(self) -> bool:
        """Whether it is one that we inserted."""
        return self.idempotency_key is not None and self.idempotency_key.startswith(RECALL_KEY)


def text_of(message: HostMessage) -> str:
    """All text of a message, without tool calls."""
    return "\n".join(text_parts(message.content))


def is_logged(message: HostMessage) -> bool:
    """Whether a message belongs into the log: what was said, not what the host tells the model in passing."""
    if message.role not in LOGGED_ROLES or message.is_recall or message.exclude_from_context:
        return False
    return message.role != "custom" or not text_of(message).lstrip().startswith(_INTERNAL)


def as_message(message: HostMessage, message_id: str, now: float) -> Message:
    """The message as it is kept; one without a time of its own is of `now` (Unix s)."""
    return Message(
        id=message_id,
        role=message.role,
        content=flat(message.content),
        at=now if message.timestamp is None else message.timestamp / 1000,
        tool_call=message.tool_call_id,
        tool_name=message.tool_name,
    )
