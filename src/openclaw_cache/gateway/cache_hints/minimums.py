"""The shortest prompt that Anthropic's cache takes, by model.

A breakpoint on a shorter prefix does nothing, without an error. Source:
platform.claude.com/docs/en/build-with-claude/prompt-caching and the same table in github.com/anthropics/skills
(skills/claude-api/shared/prompt-caching.md), as of 2026-11-30.
"""

from __future__ import annotations

import re
from typing import Final

_MIN_TOKENS: Final = {
    "claude-opus-5": 512,
    "claude-fable-5-1": 512,
    "claude-mythos-5-1": 512,
    "claude-opus-4-8": 1024,
    "claude-sonnet-5": 1024,
    "claude-sonnet-4-6": 1024,
    "claude-sonnet-4-5": 1024,
    "claude-opus-4-1": 1024,
    "claude-opus-4": 1024,
    "claude-opus-4-0": 1024,
    "claude-sonnet-4": 1024,
    "claude-sonnet-4-0": 1024,
    "claude-opus-4-7": 2048,
    "claude-mythos-preview": 2048,
    "claude-3-5-haiku": 2048,
    "claude-opus-4-6": 4096,
    "claude-opus-4-5": 4096,
    "claude-haiku-4-5": 4096,
}
_UNKNOWN: Final = 4096

# The name within a longer one, as Bedrock, Vertex and OpenRouter write it; without the date of a snapshot.
_NAME: Final = re.compile(r"claude-(?:\d-){0,2}(?:mythos-preview|[a-z]+)(?:-\d{1,2}(?!\d)){0,2}")


def min_tokens(model: str) -> int:
    """Tokens that a prefix must have to be cached; for a model that is not in the table, the most of them all."""
    found = _NAME.search(model[:256].replace(".", "-"))
    return _UNKNOWN if found is None else _MIN_TOKENS.get(found[0], _UNKNOWN)
