"""Questions of which one has the opposite of a word of the other."""

from __future__ import annotations

from typing import Final

from openclaw_cache.semantic.guards.alignment import MAX_LEFT, align
from openclaw_cache.semantic.validity import Pair, Verdict
from openclaw_cache.semantic.words.lexicon import lexicon

_SMALL: Final = (("before", "after"), ("with", "without"), ("above", "below"), ("over", "under"))
"""Opposites among the words that are left out where words are compared."""
_LAST: Final = ({"on", "off"}, {"up", "down"}, {"in", "out"})
"""Opposites where they end a question: "turn the alarm on"."""
_PREFIXES: Final = (
    "un",
    "dis",
    "non",
    "in",
    "im",
    "ir",
    "il",
    "de",
    "mis",
    "anti",
    "over",
    "under",
    "pre",
    "post",
    "re",
)


class Opposites:
    """Objects to enable and disable, before and after, legal and illegal, 开 and 关."""

    name = "opposites"

    def verdict(self, pair: Pair) -> Verdict:
        """Judge a pair."""
        found = align(pair.asked, pair.stored)
        known = lexicon()
        for word in found.other_asked[:MAX_LEFT]:
            for other in found.other_stored[:MAX_LEFT]:
                one, another = word.key.removesuffix("ly"), other.key.removesuffix("ly")
                if known.are_opposite(one, another) or differ_by_prefix(one, another):
                    return Verdict(self.name, False, "opposite")
        asked, stored = frozenset(pair.asked.order), frozenset(pair.stored.order)
        for small, against in _SMALL:
            if (small in asked) != (small in stored) and (against in asked) != (against in stored):
                both = (small in asked) == (against in asked)
                if not both:
                    return Verdict(self.name, False, "opposite")
        if pair.asked.order and pair.stored.order and {pair.asked.order[-1], pair.stored.order[-1]} in _LAST:
            return Verdict(self.name, False, "opposite")
        return Verdict(self.name, True)


def differ_by_prefix(one: str, other: str) -> bool:
    """Whether one word is the other with a prefix that turns its meaning round."""
    longer, shorter = (one, other) if len(one) > len(other) else (other, one)
    return len(shorter) > 2 and longer.endswith(shorter) and longer[: -len(shorter)] in _PREFIXES
