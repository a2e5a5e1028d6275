"""Names, products, versions, codes and identifiers: what is named on one side is named on the other."""

from __future__ import annotations

from openclaw_cache.semantic.guards.alignment import align
from openclaw_cache.semantic.validity import Pair, Verdict


class Names:
    """Objects where a name or a code of one question is missing in the other.

    A Latin name passes beside a question in Chinese, which may write it in characters that no table has.
    """

    name = "names"

    def verdict(self, pair: Pair) -> Verdict:
        """Judge a pair."""
        found = align(pair.asked, pair.stored)
        left = (*found.left_asked, *found.left_stored)
        if any(word.is_code for word in left):
            return Verdict(self.name, False, "code")
        may_be_translated = pair.asked.has_han != pair.stored.has_han
        if any(word.is_name and (word.concepts or not may_be_translated) for word in left):
            return Verdict(self.name, False, "name")
        return Verdict(self.name, True)
