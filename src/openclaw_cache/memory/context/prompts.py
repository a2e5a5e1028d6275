"""Which prompts a person wrote, and which the host made."""

from __future__ import annotations

import re
from typing import Final

_STAMP: Final = re.compile(r"^\[[A-Z][a-z]{2} \d{4}-\d{2}-\d{2} \d{2}:\d{2} [^\]\n]{1,40}\] ")
"""`[Sun 2026-11-29 17:32 UTC] `, before a user's text in what the host sends to a model."""

_WAKES: Final = (
    "[OpenClaw heartbeat poll]",
    "[OpenClaw exec completion]",
    "[OpenClaw cron wake]",
    "[OpenClaw session event]",
    "Follow the heartbeat monitor scratch context when provided.",
    "Run the following periodic tasks (only those due based on their intervals):",
)
"""How a turn begins that no message caused. The host replaces the last two by the first, once they are history."""

_INTERNAL: Final = (
    *_WAKES,
    "Pre-compaction memory flush",
    "A background task completed. Use this result to reply",
    "A new session was started via /new or /reset",
    "Agent-to-agent announce step",
    "[Internal task completion event]",
    "[Inter-session message]",
    "OpenClaw runtime context (internal):",
    "OpenClaw runtime event.",
    "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>",
)

_SUBAGENT: Final = "[Subagent Context]"
_TASK: Final = "\n[Subagent Task]\n"
_BEGIN: Final = "\n\nBegin. Execute the assigned task to completion."

_MACHINE_SESSIONS: Final = frozenset({"subagent", "cron", "hook", "heartbeat"})


def query_of(prompt: str) -> str | None:
    """What to recall for: the words of whoever asks; None for a prompt of the host's own.

    Of a sub-agent's first prompt it is the task.
    """
    text = _STAMP.sub("", prompt, count=1).strip()
    if text.startswith(_SUBAGENT):
        _, found, task = text.partition(_TASK)
        text = task.partition(_BEGIN)[0].strip() if found else ""
    return text if text and not text.startswith(_INTERNAL) else None


def is_wake(text: str) -> bool:
    """Whether this is the question of a turn that no message caused: a heartbeat, a timer, an event."""
    return _STAMP.sub("", text, count=1).lstrip().startswith(_WAKES)


def is_internal(text: str) -> bool:
    """Whether the host made this user message, so that nothing in it is the user's word."""
    bare = _STAMP.sub("", text, count=1).lstrip()
    return bare.startswith((*_INTERNAL, _SUBAGENT))


def is_machine_session(session_key: str | None) -> bool:
    """Whether a session's user messages come from a model, a timer or the network (`agent:main:subagent:…`)."""
    return session_key is not None and not _MACHINE_SESSIONS.isdisjoint(session_key.lower().split(":"))
