"""Questions of which one denies what the other asserts."""

from __future__ import annotations

from openclaw_cache.semantic.validity import Pair, Verdict


class Negation:
    """Objects where one question has an odd number of negations and the other an even one.

    A word such as "lost" or "unable" denies without a "not": where the side with fewer negations alone has one, it
    passes.
    """

    name = "negation"

    def verdict(self, pair: Pair) -> Verdict:
        """Judge a pair."""
        asked, stored = pair.asked.marks, pair.stored.marks
        if (asked.num_negations - stored.num_negations) % 2 == 0:
            return Verdict(self.name, True)
        fewer, more = (asked, stored) if asked.num_negations < stored.num_negations else (stored, asked)
        return Verdict(self.name, True) if fewer.lacks - more.lacks else Verdict(self.name, False, "negation")
