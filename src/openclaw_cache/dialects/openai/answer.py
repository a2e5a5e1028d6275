"""The text of a chat completion that is a plain answer."""

from __future__ import annotations

from typing import Final

from openclaw_cache.dialects.question import is_told
from openclaw_cache.types import Json

_PLAIN: Final = frozenset(
    {"role", "content", "reasoning", "reasoning_content", "reasoning_details", "thinking", "thinking_blocks"}
)
"""Fields of a message that a plain answer fills. Any other one says that more was given than a text: calls, a
refusal, audio, images, citations, searches that were made, or what we do not know."""

_NOT_PLAIN: Final = ("error", "citations", "search_results", "images", "prompt_logprobs", "prompt_token_ids")
"""Fields of a reply or a choice that cite, or tell of the prompt that was asked."""

_THOUGHTS: Final = ("thinking", "reasoning")
"""Types of parts that may stand beside the text."""


def answer_text(reply: dict[str, Json]) -> str | None:
    """Return the text of a whole plain answer; None for any other reply. O(number of parts)."""
    choice = only_choice(reply)
    message = choice.get("message") if choice is not None else None
    if not isinstance(message, dict) or message.get("role") not in (None, "assistant"):
        return None
    if any(value and name not in _PLAIN for name, value in message.items()):
        return None
    text = _text(message.get("content"))
    return text if is_told(text) else None


def only_choice(reply: dict[str, Json]) -> dict[str, Json] | None:
    """Return the one choice of a reply, where it came to its own end and there is nothing beside it."""
    choices = reply.get("choices")
    if not isinstance(choices, list) or len(choices) != 1:
        return None
    choice = choices[0]
    if not isinstance(choice, dict) or choice.get("finish_reason") != "stop":
        return None
    return None if any(reply.get(name) or choice.get(name) for name in _NOT_PLAIN) else choice


def _text(content: Json) -> str | None:
    """A content, or its text parts joined."""
    if isinstance(content, str):
        return content
    texts: list[str] = []
    for part in content if isinstance(content, list) else ():
        kind = part.get("type") if isinstance(part, dict) else None
        if kind in _THOUGHTS:
            continue
        text = part.get("text") if kind == "text" else None
        if not isinstance(text, str) or part.get("annotations") or part.get("citations"):
            return None
        texts.append(text)
    return "".join(texts)
