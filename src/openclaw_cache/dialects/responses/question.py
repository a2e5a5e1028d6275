"""The question of a Responses request."""

from __future__ import annotations

from typing import Final

from openclaw_cache.dialects.question import Question, is_told, question_in
from openclaw_cache.types import Json

_HELD: Final = ("previous_response_id", "conversation", "prompt")
"""Fields by which the upstream looks up messages that stand before the input."""

_SETTINGS: Final = ("configuration_update",)
"""Input items that say how to answer from there on, and are no turns. Additional tools have the developer's role."""


def question(body: dict[str, Json]) -> Question | None:
    """Return the input, or its last user message's one text, apart from the rest.

    None where it is not certain what was asked. What the upstream holds counts as earlier turns and stays in
    `without_history`: nobody here knows which of it is a system text.
    """
    is_continued = any(body.get(name) for name in _HELD)
    given = body.get("input")
    if isinstance(given, str):
        if not is_told(given):
            return None
        rest = {**body, "input": ""}
        return Question(given, rest, is_continued, rest if is_continued else None)
    last = given[-1] if isinstance(given, list) and given else None
    if not isinstance(last, dict) or last.get("type") not in (None, "message"):
        return None
    return question_in(body, "input", "input_text", settings=_SETTINGS, is_continued=is_continued)
