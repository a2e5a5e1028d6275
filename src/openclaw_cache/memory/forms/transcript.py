"""Transcripts of OpenClaw's sessions: a header, then entries of a tree, one JSON object a line."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import msgspec

from openclaw_cache.memory.context.host import HostMessage, is_logged
from openclaw_cache.memory.context.identity import message_ids
from openclaw_cache.memory.context.reconciling import unlogged
from openclaw_cache.memory.forms.fault import FormError, Skipped
from openclaw_cache.memory.record import Turn
from openclaw_cache.types import Json

_NEWEST: Final = 4
_SILENT: Final = frozenset(
    {
        "thinking_level_change", "model_change", "compaction", "reset", "branch_summary", "custom", "label",
        "session_info", "leaf",
    }
)  # fmt: skip
"""Entries that say nothing new: settings, marks, and summaries of what is here anyway."""
_ROLES: Final = frozenset({"user", "assistant", "toolResult", "custom"})
_SESSION_IN_NAME: Final = re.compile(r"(?:.*/)?([^/]+?)\.jsonl(?:\..*)?\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Transcript:
    """What a transcript has: its session, the messages that belong into the log with their ids, and bad lines."""

    session: str
    history: list[tuple[str, HostMessage]]
    skipped: list[Skipped]

    def turns(self, missing: Collection[str], now: float) -> list[Turn]:
        """The messages whose ids the log is missing, as turns. Storing them again stores nothing.

        So a transcript that has grown adds what is new, and one of a session that was logged as it went adds nothing.
        """
        turns = unlogged(self.session, None, self.history, missing, now)
        return [msgspec.structs.replace(turn, origin="import") for turn in turns]


def read_transcript(lines: Iterable[bytes], path: str) -> Transcript:
    """Read a session's transcript, of any version up to 4.

    All branches of its tree are read, in the order in which they were written: what was said and then taken back was
    said. What the host keeps out of the model's context, and what it tells it in passing, is not.

    Args:
        lines: The file's.
        path: Its name gives the session's id where the header has none.

    Raises:
        FormError: no line of it is an entry of a transcript, or it is of a newer version.
    """
    session = ""
    messages: list[HostMessage] = []
    skipped: list[Skipped] = []
    has_entry = False
    for number, line in enumerate(lines, 1):
        entry = _entry(line)
        if entry is None:
            if line.strip():
                skipped.append(Skipped(number, "not a JSON object"))
        elif entry.get("type") == "session":
            session = session or _checked_session(entry)
            has_entry = True
        else:
            read = _message(entry)
            if isinstance(read, HostMessage):
                messages.append(read)
            elif read is not None:
                skipped.append(Skipped(number, read))
            has_entry |= read is None or isinstance(read, HostMessage)
    if not has_entry:
        raise FormError("it is no transcript of a session")
    session = session or _session_in(path)
    kept = [message for message in messages if is_logged(message)]
    return Transcript(session, list(zip(message_ids(session, kept), kept, strict=True)), skipped)


def _entry(line: bytes) -> dict[str, Any] | None:
    try:
        entry = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return entry if isinstance(entry, dict) else None


def _checked_session(header: dict[str, Any]) -> str:
    version, session = header.get("version"), header.get("id")
    if isinstance(version, int) and version > _NEWEST:
        raise FormError(
            f"it is a transcript of version {version}; this program reads up to version {_NEWEST}"
        )
    return session if isinstance(session, str) else ""


def _session_in(path: str) -> str:
    name = _SESSION_IN_NAME.match(path)
    return name[1] if name else path


def _message(entry: dict[str, Any]) -> HostMessage | str | None:
    """The message of an entry; None where it has none, or why it cannot be read."""
    kind = entry.get("type")
    if kind in _SILENT:
        return None
    if kind == "custom_message":
        said: Json = {"role": "custom", "content": entry.get("content"), "timestamp": None}
    elif kind == "message":
        said = entry.get("message")
    else:
        return "not an entry of a known type"
    if not isinstance(said, dict) or not isinstance(said.get("role"), str):
        return "an entry without a message"
    if said.get("runtimeContextCarrier") is True:
        return None
    return _host_message(said, entry.get("timestamp"))


def _host_message(said: dict[str, Any], entry_at: Json) -> HostMessage | str | None:
    role, content = said["role"], said.get("content")
    if role == "bashExecution":
        role, content = "custom", f"$ {said.get('command', '')}\n{said.get('output', '')}"
    elif role == "hookMessage":
        role = "custom"
    if role not in _ROLES:
        return None
    if not isinstance(content, str | list):
        return "a message without content"
    return HostMessage(
        role=role,
        content=content,
        timestamp=_milliseconds(said.get("timestamp"), entry_at),
        idempotency_key=_text(said.get("idempotencyKey")),
        tool_call_id=_text(said.get("toolCallId")),
        tool_name=_text(said.get("toolName")),
        exclude_from_context=said.get("excludeFromContext") is True,
    )


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) else None


def _milliseconds(own: Json, entry_at: Json) -> float | None:
    if isinstance(own, int | float) and not isinstance(own, bool):
        return float(own)
    for value in (own, entry_at):
        if isinstance(value, str):
            try:
                return datetime.fromisoformat(value).timestamp() * 1000
            except (ValueError, OverflowError):
                continue
    return None
