"""What kind of turn a prompt is for, as far as its client says: user turns are the unnamed rest.

For names in labels only; nothing is decided by them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from openclaw_cache.prefix.outline import Outline, Part

Place = Literal["system", "first", "last"]
"""The first system text; the first, and the last message of a user (transient carriers aside)."""

CARRIERS: Final = (
    ("<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>", "<<<END_OPENCLAW_INTERNAL_CONTEXT>>>"),
    ("<!-- openclaw:attempt:DYNAMIC -->", "<!-- /openclaw:attempt:DYNAMIC -->"),
)
"""How a message begins and ends that its client, or the canonicaliser, moves to the tail of every prompt."""


class Turn(NamedTuple):
    """A kind of turn: a pattern that the head of the text at `place` matches."""

    name: str
    place: Place
    pattern: re.Pattern[str]


_HEAD_CHARS: Final = 400
_STAMP: Final = r"(?:\[[^\]\n]{1,48}\] )?"

TURNS: Final = (
    Turn("summariser", "system", re.compile(r"(?i)[^\n]{0,120}\b(?:summari[sz]|compacti|condens)")),
    Turn(
        "summariser",
        "last",
        re.compile(
            r"\s*(?:Your task is to create a detailed summary|CRITICAL: Respond with TEXT ONLY"
            r"|You are performing a CONTEXT CHECKPOINT COMPACTION|Provide a detailed prompt for continuing"
            r'|<explicit_instructions type="summarize_task">|You are tasked with compacting)'
        ),
    ),
    Turn("summariser", "first", re.compile(r"\s*(?:You are maintaining a context-aware state summary)")),
    Turn("title", "system", re.compile(r"(?i)[^\n]{0,120}\b(?:title|topic)\b[^\n]{0,80}\bconversation")),
    Turn("memory flush", "last", re.compile(rf"{_STAMP}Pre-compaction memory flush")),
    Turn("sub-agent", "first", re.compile(rf"{_STAMP}\[Subagent (?:Context|Task)\]")),
    Turn("sub-agent", "system", re.compile(r"You are an agent for |You are a sub-?agent")),
    Turn(
        "sub-agent's announcement",
        "last",
        re.compile(rf"{_STAMP}(?:A background task completed|\[Internal task completion event\])"),
    ),
    Turn("heartbeat", "last", re.compile(rf"(?i){_STAMP}[^\n]{{0,80}}\bheartbeat\b")),
)


def turn_of(prompt: Outline) -> str:
    """The kind of turn; empty for a user's, and where nothing is known. A few µs."""
    texts = _texts(prompt.parts)
    for turn in TURNS:
        text = texts.get(turn.place)
        if text is not None and turn.pattern.match(text):
            return turn.name
    return ""


def is_carrier(part: Part) -> bool:
    """Whether a message only carries what its client moves to the tail of each prompt."""
    if part.kind != "message" or not part.spans:
        return False
    begin = part.spans[0][0]
    return any(
        part.text.startswith(opening, begin) and part.text.rstrip().endswith(closing)
        for opening, closing in CARRIERS
    )


def num_tail(parts: Sequence[Part]) -> int:
    """How many of the last parts only ever stand at the tail of a prompt, and are no part of its history.

    Carriers, and a last message of the system behind a user's or a tool's: what the canonicaliser moves there.
    """
    number = 0
    while number < len(parts) and is_carrier(parts[-1 - number]):
        number += 1
    if number + 1 < len(parts):
        last, before = parts[-1 - number], parts[-2 - number]
        is_late = last.kind == "message" and last.name in ("system", "developer")
        number += is_late and before.kind == "message" and before.name in ("user", "tool")
        while 0 < number < len(parts) and is_carrier(parts[-1 - number]):
            number += 1
    return number


def without_stamp(part: Part) -> str:
    """A message without the time stamp that OpenClaw puts before each."""
    text = part.text[part.spans[0][0] :] if part.spans else part.text
    return re.sub(rf"\A{_STAMP}", "", text)


def _texts(parts: Sequence[Part]) -> dict[Place, str]:
    found: dict[Place, str] = {}
    for part in parts:
        if part.kind == "system":
            found["system"] = part.text[:_HEAD_CHARS]
            break
    users = [part for part in parts if part.kind == "message" and part.name == "user" and part.spans]
    if users:
        found["first"] = _head(users[0])
        found["last"] = _head(next((part for part in reversed(users) if not is_carrier(part)), users[-1]))
    return found


def _head(part: Part) -> str:
    return part.text[part.spans[0][0] :][:_HEAD_CHARS]
