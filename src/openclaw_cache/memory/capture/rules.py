"""The rules of both languages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from openclaw_cache.memory.capture.phrases.language import Language, chinese, english
from openclaw_cache.memory.capture.statement import Rule


def _rules(language: Language) -> Iterator[Rule]:
    lead_in = language.any_of("lead_in")
    for line in language.lines("rules"):
        head, _, pattern = line.partition(" :: ")
        kind, check, slot = head.split(" ", 2)
        yield Rule(
            kind.rstrip("!"),
            check,
            None if slot == "-" else slot,
            re.compile(lead_in + language.filled(pattern), re.IGNORECASE),
            kind.endswith("!"),
        )


def _same() -> Iterator[tuple[str, str]]:
    for line in chinese().lines("same"):
        words, _, name = line.partition(" = ")
        for word in words.split("|"):
            yield word, name


ENGLISH: Final = tuple(_rules(english()))
"""The first that fits says what a sentence states."""
CHINESE: Final = tuple(_rules(chinese()))
SAME: Final = dict(_same())
"""One name for attributes that mean the same, in both languages."""
