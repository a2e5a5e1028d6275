"""What is served where questions come as people ask them: each against an index of others.

Each question of the reported half is asked of all others of it. A hit is wrong where the stored question was written
for another intent; one of the same intent is counted right, although an intent is wider than an answer ("what is the
capital of" two countries is one intent), and the sets have wrong labels of their own. So this estimates what
unrelated and near questions do to a cache; traps are no part of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from benchmarks.semantic.judging import Judge
from benchmarks.semantic.sets import Intents, half_of
from benchmarks.semantic.vectors import Vectors

from openclaw_cache.semantic.cache import NUM_CANDIDATES


@dataclass(frozen=True, slots=True)
class Traffic:
    """The best candidate of each question: our score of it, its cosine, whether its intent is the same."""

    num_asked: int
    num_stored: int
    scores: list[float]
    ours_same: list[bool]
    cosines: list[float]
    nearest_same: list[bool]


def traffic(questions: Intents, vectors: Vectors, judge: Judge) -> Traffic:
    """Ask each question of the others, as the cache would."""
    own = [at for at, text in enumerate(questions.texts) if half_of(text) == "report"]
    rows = vectors.of(questions.texts[at] for at in own)
    cosines = rows @ rows.T
    np.fill_diagonal(cosines, -1)
    nearest = np.argsort(-cosines, axis=1)[:, :NUM_CANDIDATES]
    found = Traffic(len(own), len(own) - 1, [], [], [], [])
    for row, at in enumerate(own):
        candidates = [(own[place], float(cosines[row, place])) for place in nearest[row]]
        found.cosines.append(candidates[0][1])
        found.nearest_same.append(questions.intents[at] == questions.intents[candidates[0][0]])
        judged = [
            (judge.score(judge.pair(questions.texts[at], questions.texts[other], cosine)), other)
            for other, cosine in candidates
        ]
        score, best = max(judged)
        found.scores.append(score)
        found.ours_same.append(questions.intents[at] == questions.intents[best])
    return found


def served(scores: list[float], same: list[bool], serves: Callable[[float], bool]) -> tuple[int, int]:
    """How many hits, and how many of them of another intent."""
    hits = [is_same for score, is_same in zip(scores, same, strict=True) if serves(score)]
    return len(hits), hits.count(False)
