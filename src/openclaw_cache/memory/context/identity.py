"""One name for one message, whenever and however the host shows it.

What a host keeps of a message, seen in OpenClaw 2026.9: role and timestamp (the same millisecond in a committed turn
and in every later history, also after a restart) and a tool's name. What it rewrites: the text of a heartbeat's
question, once it is history; a tool's result, trimmed or cleared; the ids of tool calls (`call_2_0` becomes `call20`,
or nine other letters for some providers) and the order of their arguments; `details`, which go. So a name is made from
what is kept, and only for a message without a timestamp from what it says.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from blake3 import blake3

from openclaw_cache.memory.context.host import HostMessage
from openclaw_cache.types import Json

_CONTEXT: Final = "openclaw-cache 2026-11 memory ids"
_KEY: Final = blake3(b"", derive_key_context=_CONTEXT).digest()
_NOT_IN_CALL_IDS: Final = re.compile(r"[^A-Za-z0-9]")


def message_ids(lineage: str, messages: Sequence[HostMessage], *, turn: str = "") -> list[str]:
    """The id of each message.

    Equal messages (same role and time) are told apart by their order. A beginning that the host drops changes no
    other id, unless it had such an equal.

    Args:
        lineage: The session, or the one that it was forked from: a fork shows its parent's messages as its own.
        messages: In the order of the history.
        turn: Of messages that are given turn by turn, the turn's key: two of them without a timestamp may say the
            same in two turns.
    """
    seen: Counter[bytes] = Counter()
    ids = []
    for message in messages:
        name = _name(message) if is_timed(message) else _joined([turn.encode(), _name(message)])
        ids.append(_digest("msg", (lineage.encode(), name, str(seen[name]).encode())))
        seen[name] += 1
    return ids


def part_id(message_id: str, index: int) -> str:
    """The id of a text that a message of this id was given later, by its index among the message's texts."""
    return _digest("msg", (message_id.encode(), str(index).encode()))


def is_timed(message: HostMessage) -> bool:
    """Whether a message has the same name in a history as in the turn that it was committed with."""
    return message.timestamp is not None


def turn_id(session: str, key: str) -> str:
    """The id of the turn that the host commits under this key: the same for every retry."""
    return _digest("turn", (session.encode(), key.encode()))


def recall_id(session: str, after: str, prompt: str) -> str:
    """The id of what is recalled for a prompt at this place: tells a retry from another question."""
    return _digest("rec", (session.encode(), after.encode(), prompt.encode(errors="replace")))


def _name(message: HostMessage) -> bytes:
    parts = [message.role.encode()]
    if message.timestamp is not None:
        parts += [b"at", str(round(message.timestamp)).encode(), (message.tool_name or "").encode()]
    elif message.idempotency_key is not None:
        parts += [b"key", message.idempotency_key.encode()]
    elif message.tool_call_id is not None:
        parts += [b"call", _call_id(message.tool_call_id)]
    else:
        parts += [b"says", msgspec.json.encode(_without_ids(message.content), order="deterministic")]
    return _joined(parts)


def _without_ids(content: Json) -> Json:
    """A content without the ids of its tool calls, which a host may rewrite."""
    if not isinstance(content, list):
        return content
    return [
        {name: value for name, value in part.items() if name != "id"} if isinstance(part, dict) else part
        for part in content
    ]


def _call_id(call_id: str) -> bytes:
    return _NOT_IN_CALL_IDS.sub("", call_id).encode()


def _joined(parts: Iterable[bytes]) -> bytes:
    """Parts with their lengths, so that no two lists of parts give the same bytes."""
    return b"".join(len(part).to_bytes(8, "big") + part for part in parts)


def _digest(prefix: str, parts: Iterable[bytes]) -> str:
    return f"{prefix}_{blake3(_joined([prefix.encode(), *parts]), key=_KEY).hexdigest(length=12)}"
