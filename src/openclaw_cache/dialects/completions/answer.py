"""The text of a text completion that is a plain answer."""

from __future__ import annotations

from openclaw_cache.dialects.openai.answer import only_choice
from openclaw_cache.dialects.question import is_told
from openclaw_cache.types import Json


def answer_text(reply: dict[str, Json]) -> str | None:
    """Return the text of a completion that came to its own end; None for any other reply."""
    choice = only_choice(reply)
    text = choice.get("text") if choice is not None else None
    return text if is_told(text) else None
