"""Numbers, dates, times, amounts: the same ones must stand on both sides."""

from __future__ import annotations

from openclaw_cache.semantic.guards.alignment import other_quantities
from openclaw_cache.semantic.validity import Pair, Verdict


class Numbers:
    """Objects where a quantity of one question has no equal in the other.

    Units count: 30 days are not 30 months, but 14 days are two weeks. A number without a unit equals one with any.
    """

    name = "numbers"

    def verdict(self, pair: Pair) -> Verdict:
        """Judge a pair."""
        asked, stored = other_quantities(pair.asked.quantities, pair.stored.quantities)
        if asked or stored:
            return Verdict(self.name, False, "number")
        if pair.asked.marks.days != pair.stored.marks.days:
            return Verdict(self.name, False, "day")
        return Verdict(self.name, True)
