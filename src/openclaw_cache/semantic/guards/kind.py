"""What kind of answer is asked for: how, why, when, where, who, what price, how long; and of which time."""

from __future__ import annotations

from itertools import product
from typing import Final

from openclaw_cache.semantic.validity import Pair, Verdict

_APART: Final = frozenset(
    frozenset((kind, other))
    for kind, others in {
        "why": "how when where who price duration number often whether",
        "how": "when price duration number often distance age whether",
        "when": "where price who whether distance age",
        "where": "price duration whether",
        "who": "price duration whether",
        "price": "number duration distance age often whether",
        "duration": "distance often whether age",
        "number": "whether",
        "distance": "whether age",
        "age": "whether",
    }.items()
    for other in others.split()
)
_FOR_A_THING: Final = frozenset(("who", "what", "which", "where"))
_TIMES: Final = {"is": "now", "are": "now", "was": "then", "were": "then", "will": "yet"}


class Kind:
    """Objects where what is asked for cannot be told in the same words, or is who or what was and who or what is."""

    name = "kind"

    def verdict(self, pair: Pair) -> Verdict:
        """Judge a pair."""
        time, other = _time_of(pair.asked.order), _time_of(pair.stored.order)
        if time and other and time != other:
            return Verdict(self.name, False, "time")
        asked, stored = pair.asked.marks.asks, pair.stored.marks.asks
        if not asked or not stored or not asked.isdisjoint(stored):
            return Verdict(self.name, True)
        apart = all(frozenset(kinds) in _APART for kinds in product(asked, stored))
        return Verdict(self.name, False, "kind") if apart else Verdict(self.name, True)


def _time_of(order: tuple[str, ...]) -> str:
    """Of which time a question for a person or thing is; empty where it does not say so at once."""
    if not order or order[0] not in _FOR_A_THING:
        return ""
    return next((_TIMES[token] for token in order[1:3] if token in _TIMES), "")
