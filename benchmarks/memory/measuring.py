"""What a way of searching finds of the question set, and how long it takes."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from benchmarks.memory.world import Asked

from openclaw_cache.memory.retrieval.search import Hit

Find = Callable[[int, Asked], list[Hit]]
"""Hits of a question, which is given with its number."""
DEPTH = 10


@dataclass(slots=True)
class Measured:
    """Ranks of the answers (0 = not among the first ten) by language and category, and seconds of each search."""

    ranks: dict[tuple[str, str], list[int]] = field(default_factory=lambda: defaultdict(list))
    seconds: list[float] = field(default_factory=list)

    def recall(self, depth: int, language: str | None = None, category: str | None = None) -> float:
        ranks = self._ranks(language, category)
        return sum(0 < rank <= depth for rank in ranks) / len(ranks)

    def mrr(self, language: str | None = None, category: str | None = None) -> float:
        """Mean of 1 / rank."""
        ranks = self._ranks(language, category)
        return sum(1 / rank for rank in ranks if rank) / len(ranks)

    def milliseconds(self, percentile: float) -> float:
        return float(np.percentile(self.seconds, percentile) * 1e3)

    def _ranks(self, language: str | None, category: str | None) -> list[int]:
        return [
            rank
            for (its_language, its_category), ranks in self.ranks.items()
            if language in (None, its_language) and category in (None, its_category)
            for rank in ranks
        ]


def measure(questions: Sequence[Asked], find: Find) -> Measured:
    """Ask them all, one after the other."""
    found = Measured()
    for number, asked in enumerate(questions):
        started = time.perf_counter()
        hits = find(number, asked)
        found.seconds.append(time.perf_counter() - started)
        owners = [hit.passage.owner for hit in hits[:DEPTH]]
        rank = owners.index(asked.answer) + 1 if asked.answer in owners else 0
        found.ranks[asked.language, asked.category].append(rank)
    return found
