"""Pairs as the rules of ours and of others judge them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from benchmarks.semantic.measuring import Labels, Scores
from benchmarks.semantic.vectors import Vectors

from openclaw_cache.semantic import guards
from openclaw_cache.semantic.reading import Reading, read
from openclaw_cache.semantic.scoring import Scorer
from openclaw_cache.semantic.validity import Pair


@dataclass(frozen=True, slots=True)
class Judged:
    """Some pairs: their cosines, our scores, and which guards object to each."""

    same: Labels
    cosines: Scores
    scores: Scores
    """On the calibrated scale, guards left aside."""
    objections: list[frozenset[str]]

    def ours(self, without: str = "") -> Scores:
        """Our scores, minus infinity where a guard objects; `without` leaves one out."""
        passes = [not objections - {without} for objections in self.objections]
        return np.where(passes, self.scores, -np.inf)

    def some(self, chosen: npt.NDArray[np.bool_]) -> Judged:
        """Those that are chosen."""
        objections = [own for own, is_in in zip(self.objections, chosen, strict=True) if is_in]
        return Judged(self.same[chosen], self.cosines[chosen], self.scores[chosen], objections)


class Judge:
    """Reads each text once."""

    def __init__(self, vectors: Vectors, scorer: Scorer) -> None:
        self._vectors = vectors
        self._scorer = scorer
        self._readings: dict[str, Reading] = {}

    def judge(self, texts: Sequence[tuple[str, str]], same: Sequence[bool]) -> Judged:
        """Judge pairs of texts: asked, stored."""
        asked, stored = self._vectors.of(a for a, _ in texts), self._vectors.of(b for _, b in texts)
        cosines = (asked * stored).sum(1).astype(np.float64)
        pairs = [self.pair(a, b, float(cosine)) for (a, b), cosine in zip(texts, cosines, strict=True)]
        return Judged(
            np.array(same, bool),
            cosines,
            np.array([self._scorer.score(pair) for pair in pairs]),
            [objections(pair) for pair in pairs],
        )

    def pair(self, asked: str, stored: str, cosine: float) -> Pair:
        """A pair as the cache makes it."""
        return Pair(self._reading(asked), self._reading(stored), cosine, "default", 0.0)

    def score(self, pair: Pair) -> float:
        """Our score where no guard objects, else minus infinity."""
        return -np.inf if objections(pair) else self._scorer.score(pair)

    def _reading(self, text: str) -> Reading:
        if text not in self._readings:
            self._readings[text] = read(text)
        return self._readings[text]


def objections(pair: Pair) -> frozenset[str]:
    """Names of the guards that object."""
    return frozenset(guard.name for guard in guards.ALL if not guard.verdict(pair).passes)
