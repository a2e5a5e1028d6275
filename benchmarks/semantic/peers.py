"""What other semantic caches serve, by their own rules, over the same vectors.

GPTCache 0.1.44 (MIT), `init_similar_cache`: vectors in FAISS "Flat" with METRIC_L2, which returns squared distances;
`SearchDistanceEvaluation` ranks a candidate by 4 less that distance, cut to 0 … 4; a hit ranks at least
`similarity_threshold` (0.8) of that range. Its better evaluations are models that it fetches from a hub.
RedisVL 0.28 (MIT), `SemanticCache`: a vector range query with Redis' COSINE distance, 1 − cosine, of at most
`distance_threshold` (0.1).
The vectors have length 1. Their rules are monotone in the cosine, so at the best limit they are one rule.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from benchmarks.semantic.measuring import Scores


@dataclass(frozen=True, slots=True)
class Peer:
    """A rule: its score of a pair from the cosine, and the score it serves from by default."""

    name: str
    score: Callable[[Scores], Scores]
    default: float


def _gptcache(cosines: Scores) -> Scores:
    squared_distance = np.clip(2.0 - 2.0 * cosines, 0.0, 4.0)
    return 4.0 - squared_distance


def _redisvl(cosines: Scores) -> Scores:
    return -(1.0 - cosines)


PEERS: Final = (
    Peer("GPTCache", _gptcache, 0.8 * 4.0),
    Peer("RedisVL", _redisvl, -0.1),
    Peer("cosine 0.90", lambda cosines: cosines, 0.90),
)
