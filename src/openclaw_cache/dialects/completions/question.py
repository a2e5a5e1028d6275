"""The question of a text completion request."""

from __future__ import annotations

from openclaw_cache.dialects.question import Question, is_told
from openclaw_cache.types import Json


def question(body: dict[str, Json]) -> Question | None:
    """Return the prompt apart from the rest; None where it is no single text.

    None also for a request that has its prompt echoed: its reply fits no other wording.
    """
    prompt = body.get("prompt")
    if not is_told(prompt) or body.get("echo"):
        return None
    return Question(text=prompt, rest={**body, "prompt": ""}, has_earlier_turns=False)
