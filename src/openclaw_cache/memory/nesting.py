"""How deep a message's content may be nested."""

from __future__ import annotations

import json
from typing import Final

from openclaw_cache.types import Json

MOST: Final = 100
"""Whoever reads, changes or shows a content calls itself for each level, and must come to its end."""


def flat(content: Json) -> Json:
    """The content; as its JSON text where it is nested deeper than `MOST`. Cost: linear."""
    level = [content]
    for _ in range(MOST):
        level = [
            part
            for value in level
            if isinstance(value, (list, dict))
            for part in (value.values() if isinstance(value, dict) else value)
        ]
        if not level:
            return content
    return json.dumps(content, ensure_ascii=False)
