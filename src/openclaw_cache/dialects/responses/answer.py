"""The text of a response that is a plain answer."""

from __future__ import annotations

from openclaw_cache.dialects.question import is_told
from openclaw_cache.types import Json


def answer_text(reply: dict[str, Json]) -> str | None:
    """Return the text of a completed response that is one message of text, with reasoning or without; else None.

    O(number of items and parts). Text with annotations is none: they refer to files, or to what was looked up.
    """
    output = reply.get("output")
    if reply.get("status") != "completed" or not isinstance(output, list):
        return None
    if reply.get("error") or reply.get("incomplete_details") or reply.get("background"):
        return None
    told = [item for item in output if not isinstance(item, dict) or item.get("type") != "reasoning"]
    return _text(told[0]) if len(told) == 1 else None


def _text(item: Json) -> str | None:
    """The text of an output item, where it is a whole message that is meant as the answer."""
    if not isinstance(item, dict) or item.get("type") != "message" or item.get("role") != "assistant":
        return None
    parts = item.get("content")
    if item.get("status") not in (None, "completed") or item.get("phase") not in (None, "final_answer"):
        return None
    texts: list[str] = []
    for part in parts if isinstance(parts, list) else ():
        text = part.get("text") if isinstance(part, dict) and part.get("type") == "output_text" else None
        if not isinstance(text, str) or part.get("annotations"):
            return None
        texts.append(text)
    told = "".join(texts)
    return told if is_told(told) else None
