"""What a message's content says."""

from __future__ import annotations

from openclaw_cache.types import Json


def text_parts(content: Json) -> list[str]:
    """The texts of a content, in order: itself, or its parts of type `text` or `input_text`; no tool calls."""
    if isinstance(content, str):
        return [content]
    if not isinstance(content, list):
        return []
    texts = (
        p.get("text") for p in content if isinstance(p, dict) and p.get("type") in ("text", "input_text")
    )
    return [text for text in texts if isinstance(text, str)]
