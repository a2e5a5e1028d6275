"""The text of a message that is a plain answer."""

from __future__ import annotations

from typing import Final

from openclaw_cache.dialects.question import is_told
from openclaw_cache.types import Json

_WHOLE: Final = ("end_turn", "stop_sequence")
_THOUGHTS: Final = ("thinking", "redacted_thinking")
"""Types of blocks that may stand beside the text."""


def answer_text(reply: dict[str, Json]) -> str | None:
    """Return the text of a whole plain answer; None for any other reply. O(number of blocks).

    Text that cites is none: what it cites was looked up, or is referred to by an id of the upstream's.
    """
    content = reply.get("content")
    if reply.get("stop_reason") not in _WHOLE or not isinstance(content, list):
        return None
    if reply.get("type") != "message" or reply.get("role") != "assistant" or reply.get("container"):
        return None
    texts: list[str] = []
    for block in content:
        kind = block.get("type") if isinstance(block, dict) else None
        if kind in _THOUGHTS:
            continue
        text = block.get("text") if kind == "text" else None
        if not isinstance(text, str) or block.get("citations"):
            return None
        texts.append(text)
    told = "".join(texts)
    return told if is_told(told) else None
