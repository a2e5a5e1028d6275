"""Signs that are no words: operators, options, escapes, emoji. Models of sentences pass over them."""

from __future__ import annotations

import re
from typing import Final

from openclaw_cache.semantic.validity import Pair, Verdict
from openclaw_cache.semantic.words.spelling import plain

_MOST_READ: Final = 4096
_SIGN: Final = re.compile(
    r"[+=<>^~≤≥≠≈±×÷√∞∈∪∩⊂→←↑↓]+(?:[=!<>]+)?|!=+|&&|\|\||\+\+|--(?=[a-z])"
    r"|(?<!\*)\*{1,4}(?=[^\s*.,;:!?)'\"]{1,20}(?:[\s.,;:!?)]|$))|(?<=[\s\w)])\*{1,4}(?=[\s(])"
    r"|\\[A-Za-z]|[$][@#*?!]|#(?=include\b|define\b)"
    r"|(?<![\w-])-{1,2}[A-Za-z](?![\w-])"
    r"|(?<![\w.,:)-])-(?=[0-9])"
    r"|(?<=[0-9a-z)]) ?[-/] ?(?=[a-z]?\()|(?<=[0-9)]) [-/] (?=[0-9(])|(?<![^\W_]{2}) [-/] (?=[0-9(])"
    r"|(?<=\s)[!?%](?=\s+\w)"
)
_EMOJI: Final = re.compile(r"[\u2600-\u27bf\U0001f300-\U0001faff]")
_SHORT: Final = re.compile(r"(?<![^\W_])(?=[a-z]?[A-Z])[A-Za-z]{2}(?![^\W_])")
"""Units and symbols, where capitals tell them apart: Mb and MB, mW and MW."""
_PAIRED: Final = re.compile(r"(\*{1,2}|~~|==)(?=\w)([^*~=\n]*\w)\1")
"""Marks of layout around words: **so**."""


class Symbols:
    """Objects where an operator, an option or an escape of one question is missing in the other: `-r`, `<=`.

    So it does to a unit that both have with a capital, but not the same one.

    Emoji only where both have some: one alone adorns.
    """

    name = "symbols"

    def verdict(self, pair: Pair) -> Verdict:
        """Judge a pair."""
        asked, stored = pair.asked.text[:_MOST_READ], pair.stored.text[:_MOST_READ]
        if _signs(asked) != _signs(stored):
            return Verdict(self.name, False, "symbol")
        if _are_cased_apart(asked, stored):
            return Verdict(self.name, False, "case")
        ours, theirs = frozenset(_EMOJI.findall(asked)), frozenset(_EMOJI.findall(stored))
        return (
            Verdict(self.name, False, "emoji")
            if ours and theirs and ours != theirs
            else Verdict(self.name, True)
        )


def _signs(text: str) -> list[str]:
    """The signs that mean something, in any order."""
    return sorted(found.strip() for found in _SIGN.findall(_PAIRED.sub(r"\2", plain(text))))


def _are_cased_apart(one: str, other: str) -> bool:
    if one.isupper() or other.isupper():
        return False
    ours, theirs = set(_SHORT.findall(one)), set(_SHORT.findall(other))
    return any(unit.lower() in {left.lower() for left in theirs - ours} for unit in ours - theirs)
