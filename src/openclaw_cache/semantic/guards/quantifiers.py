"""How much a question takes in: all, some, only."""

from __future__ import annotations

from typing import Final

from openclaw_cache.semantic.validity import Pair, Verdict

_APART: Final = (("all", "some"), ("all", "only"), ("least", "at most"), ("least", "most"), ("some", "only"))


class Quantifiers:
    """Objects to all against some, least against most, and to an "only" that one side alone has."""

    name = "quantifiers"

    def verdict(self, pair: Pair) -> Verdict:
        """Judge a pair."""
        asked, stored = pair.asked.marks.quantifiers, pair.stored.marks.quantifiers
        if asked == stored:
            return Verdict(self.name, True)
        only_asked, only_stored = asked - stored, stored - asked
        for one, other in _APART:
            if (one in only_asked and other in only_stored) or (other in only_asked and one in only_stored):
                return Verdict(self.name, False, "quantifier")
        if "only" in only_asked | only_stored:
            return Verdict(self.name, False, "only")
        return Verdict(self.name, True)
