"""The last thing that a user said in a request, apart from all else in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeGuard

from openclaw_cache.types import Json

_SYSTEM: Final = ("system", "developer")
"""Roles that tell the model what to be, and are no turn of the conversation."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a semantic cache compares (`text`), and what must be equal beside it (`rest`)."""

    text: str
    """The text of the last user message."""
    rest: dict[str, Json]
    """The body with that text replaced by an empty one: system text, earlier turns, tools, images, parameters."""
    has_earlier_turns: bool
    """Whether anybody but the system spoke before."""
    without_history: dict[str, Json] | None = None
    """`rest` without the earlier turns (system texts and the last user message stay); None where there are none."""


def question_in(
    body: dict[str, Json],
    field: str,
    part: str,
    *,
    settings: tuple[str, ...] = (),
    is_continued: bool = False,
) -> Question | None:
    """Return the question that a list of messages ends with, or None where it is not certain what was asked.

    It is certain where the last message is a user's with one text, and where it opens the conversation or follows
    upon an assistant's: of two messages in a row, or one after a tool's result, either may be what was asked.
    O(number of messages), some 10 µs for a hundred; what is unchanged is shared with the body, which stays as it is.

    Args:
        body: The request.
        field: Its list of messages.
        part: The type of the parts that hold a user's text.
        settings: Types of items that are kept where the earlier turns are left out, as system texts are.
        is_continued: Whether the upstream holds turns that came before these.
    """
    turns: Json = body.get(field)
    last: Json = turns[-1] if isinstance(turns, list) and turns else None
    if not isinstance(last, dict) or last.get("role") != "user":
        return None
    told = _only_text(last.get("content"), part)
    if told is None:
        return None
    text, content = told
    before = turns[:-1]
    kept: list[Json] = []
    speaker: Json = None
    for turn in before:
        role = turn.get("role") if isinstance(turn, dict) else None
        if role in _SYSTEM or (role is None and isinstance(turn, dict) and turn.get("type") in settings):
            kept.append(turn)
        else:
            speaker = role
    has_turns = len(kept) != len(before)
    if has_turns and speaker != "assistant":
        return None
    asked = {**last, "content": content}
    return Question(
        text=text,
        rest={**body, field: [*before, asked]},
        has_earlier_turns=has_turns or is_continued,
        without_history={**body, field: [*kept, asked]} if has_turns or is_continued else None,
    )


def _only_text(content: Json, part_type: str) -> tuple[str, Json] | None:
    """The one text of a content, and the content with an empty one in its place; None where there is not just one.

    Parts that are no text may stand beside it: images, documents. What a tool gave may not, as it was not asked.
    """
    if isinstance(content, str):
        return (content, "") if is_told(content) else None
    found: tuple[str, Json] | None = None
    for place, part in enumerate(content if isinstance(content, list) else ()):
        kind = part.get("type") if isinstance(part, dict) else None
        if not isinstance(kind, str) or "tool" in kind:
            return None
        text = part.get("text")
        if kind != part_type and not isinstance(text, str):
            continue
        if kind != part_type or found is not None or not is_told(text):
            return None
        found = (text, [*content[:place], {**part, "text": ""}, *content[place + 1 :]])
    return found


def is_told(text: Json) -> TypeGuard[str]:
    """Whether a value is a text that says something."""
    return isinstance(text, str) and bool(text) and not text.isspace()
