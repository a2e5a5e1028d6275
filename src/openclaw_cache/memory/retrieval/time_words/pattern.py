"""Patterns that name a period, and what they mean."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from openclaw_cache.memory.retrieval.time_words.spans import Now, Span

Groups = tuple[str, ...]
"""What a pattern's groups caught, in small letters, "" for one that caught nothing."""

_GROUP: Final = re.compile(r"(?<!\\)\((?!\?)")


@dataclass(frozen=True, slots=True)
class Pattern:
    """A way to name a period. `meaning` returns None for what only looks like one, such as 31 February."""

    regex: str
    meaning: Callable[[Now, Groups], Span | None]

    @property
    def without_groups(self) -> str:
        """The expression as a part of another."""
        return _GROUP.sub("(?:", self.regex)


def one_of(patterns: list[Pattern]) -> str:
    """An expression for any of them, the first that fits."""
    return "(?:" + "|".join(pattern.without_groups for pattern in patterns) + ")"


class Reader:
    """Finds out which of its patterns a phrase is, and what it means."""

    def __init__(self, patterns: list[Pattern]) -> None:
        self._patterns = [(re.compile(pattern.regex, re.IGNORECASE), pattern) for pattern in patterns]

    def span(self, phrase: str, now: Now) -> Span | None:
        """What a phrase that one of the patterns found means."""
        for regex, pattern in self._patterns:
            if match := regex.fullmatch(phrase):
                groups = tuple((group or "").lower() for group in match.groups())
                try:
                    return pattern.meaning(now, groups)
                except (ValueError, OverflowError):  # no such day
                    return None
        return None
