"""What one agent's store keeps. Values only."""

from __future__ import annotations

from typing import Literal

import msgspec

from openclaw_cache.types import Json

Role = Literal["user", "assistant", "toolResult", "custom", "system"]


class Provenance(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a memory comes from, so far as that is known."""

    session: str | None = None
    turn: str | None = None
    """Id of the turn in which it was said."""
    message: str | None = None
    """Id of the message in which it was said."""
    path: str | None = None
    """File that it was imported from."""
    line: int | None = None
    """Its first line there, from 1."""


class Memory(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that an agent remembers, in its current version.

    `at` is the time it speaks of (Unix s): when it happened, or was said; `created_at` is when it was first stored.
    `slot` names what a single-valued statement is about, such as `user.name`: of memories with one slot, one is
    current. A superseded memory is kept and found only where it is asked for.
    """

    id: str
    text: str
    kind: str
    """`fact`, `preference`, `event`, `decision`, `task`, `note`, or any other word of the caller's."""
    tags: tuple[str, ...]
    source: str
    """How it came: `api`, `tool`, `capture`, `import`, or another word of the caller's."""
    at: float
    created_at: float
    updated_at: float
    version: int = 1
    slot: str | None = None
    supersedes: tuple[str, ...] = ()
    superseded_by: str | None = None
    provenance: Provenance = Provenance()


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """One message of a turn, as the host gave it.

    `id` names the message within its session, the same whenever the host shows it again (`context.identity`).
    `content` is text or the host's list of parts, unchanged.
    """

    id: str
    role: str
    content: Json
    at: float
    tool_call: str | None = None
    """Of a tool's result: the id of the call it answers."""
    tool_name: str | None = None


class Turn(msgspec.Struct, frozen=True, omit_defaults=True):
    """An accepted turn: the user's message, the tool loop, and the reply.

    `key` makes storing it idempotent, within its session: the host's advancement key, or a name made from its first
    message.
    """

    id: str
    key: str
    session: str
    at: float
    messages: tuple[Message, ...]
    session_key: str | None = None
    is_heartbeat: bool = False
    origin: Literal["commit", "reconciled", "import"] = "commit"


class RecalledItem(msgspec.Struct, frozen=True):
    """One line of a recall: what it is from, and the line itself as it stands in the text."""

    of: Literal["memory", "message"]
    owner: str
    line: str


class Recall(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was recalled before a turn, to be attached there again, byte for byte, as long as the history is sent.

    `after` is the id of the message before it, empty at the beginning of a history. `items` are the lines of `text`,
    so that one can be taken out when what it says is forgotten.
    """

    id: str
    session: str
    after: str
    text: str
    items: tuple[RecalledItem, ...]
    num_tokens: int
    at: float


class Passage(msgspec.Struct, frozen=True):
    """A run of text that search finds: a memory, or a part of a message, short enough to have one vector."""

    number: int
    """Names it within the store; never used again."""
    of: Literal["memory", "message"]
    owner: str
    """Id of the memory or message."""
    text: str
    at: float
    session: str | None = None
    role: str | None = None


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """What may be found. Every field that is given must hold; `tags` asks for all of them."""

    of: Literal["memory", "message"] | None = None
    kinds: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    since: float | None = None
    until: float | None = None
    """Exclusive."""
    session: str | None = None
    with_superseded: bool = False
    with_heartbeats: bool = False


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """What a store holds."""

    num_memories: int
    """With those that are superseded."""
    num_superseded: int
    num_turns: int
    num_messages: int
    num_sessions: int
    num_recalls: int
    """Without those that say that nothing was recalled."""
    num_passages: int
    num_without_vector: int
    """Passages that wait for their vector."""
    size_bytes: int
    oldest_at: float | None
    """Time of the oldest text that can be found, and of the newest; None where there is none."""
    newest_at: float | None
