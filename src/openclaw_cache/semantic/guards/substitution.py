"""A question that is the other but for a word: that word is what it asks about."""

from __future__ import annotations

from typing import Final

from openclaw_cache.semantic.guards.alignment import align, frame_ratio
from openclaw_cache.semantic.validity import Pair, Verdict

MIN_FRAME: Final = 0.5
"""Share of a question that must stand in the other too, at its start and end, for the rest to be a word put in."""
MIN_WEIGHT: Final = 0.5


class Substitution:
    """Objects where two questions have the same frame, and in it words that do not answer to each other.

    Where both are worded freely it passes: there a word left over may only be another way to say it, and the score
    weighs it. Texts too long to be read to their end must be equal.
    """

    name = "substitution"

    def verdict(self, pair: Pair) -> Verdict:
        """Judge a pair."""
        if not (pair.asked.is_whole and pair.stored.is_whole) and pair.asked.text != pair.stored.text:
            return Verdict(self.name, False, "length")
        found = align(pair.asked, pair.stored)
        heavy_asked = [word for word in found.left_asked if word.weight >= MIN_WEIGHT]
        heavy_stored = [word for word in found.left_stored if word.weight >= MIN_WEIGHT]
        if not (heavy_asked and heavy_stored) and all(
            word.is_asked for word in (*heavy_asked, *heavy_stored)
        ):
            return Verdict(self.name, True)
        frame = frame_ratio(pair.asked.order, pair.stored.order)
        if frame < MIN_FRAME:
            return Verdict(self.name, True)
        reason = "other" if heavy_asked and heavy_stored else "more"
        return Verdict(self.name, False, reason, frame, MIN_FRAME)
