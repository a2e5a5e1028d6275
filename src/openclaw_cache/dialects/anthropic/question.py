"""The question of a Messages request."""

from __future__ import annotations

from openclaw_cache.dialects.question import Question, question_in
from openclaw_cache.types import Json


def question(body: dict[str, Json]) -> Question | None:
    """Return the last user message's one text apart from the rest; None where it is not certain what was asked."""
    return question_in(body, "messages", "text", is_continued=bool(body.get("thread")))
