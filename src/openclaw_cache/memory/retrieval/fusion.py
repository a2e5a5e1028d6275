"""Several rankings as one: reciprocal rank fusion (Cormack, Clarke and Büttcher, SIGIR 2009)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

K: Final = 10
"""How little the first places differ. The paper's 60 is for many rankings; with two, `benchmarks.memory` says, less."""


Weight = Callable[[str, int], float]


def _equal(name: str, number: int) -> float:
    return 1.0


@dataclass(frozen=True, slots=True)
class Place:
    """Where a list had a passage, from 1, and by what value."""

    rank: int
    value: float


@dataclass(slots=True)
class Fused:
    """A passage's sum over all lists."""

    number: int
    score: float = 0.0
    places: dict[str, Place] = field(default_factory=dict)


def fuse(lists: Mapping[str, Sequence[tuple[int, float]]], weight: Weight = _equal) -> list[Fused]:
    """Passages by the sum of `weight / (K + rank)` over the lists that have them, best first.

    Args:
        lists: By name, passage numbers with their values, best first.
        weight: What a list's word counts for a passage; 1 for each in the paper.
    """
    found: dict[int, Fused] = {}
    for name, ranking in lists.items():
        for rank, (number, value) in enumerate(ranking, start=1):
            fused = found.setdefault(number, Fused(number))
            fused.score += weight(name, number) / (K + rank)
            fused.places[name] = Place(rank, value)
    return sorted(found.values(), key=lambda fused: (-fused.score, fused.number))
