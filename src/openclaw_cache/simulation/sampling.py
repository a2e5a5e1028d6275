"""Which blocks stand for all: a random, but always the same, part of them.

Spatial sampling by hash: a block is in the sample if a hash of its id is below a threshold, so all its uses are, or
none (SHARDS: Waldspurger, Park, Garthwaite, Ahmad, FAST 2015). A cache of c blocks is then told by a sample of rate R
through one of c × R blocks, for any policy (miniature simulation: Waldspurger, Saemundsson, Ahmad, Park, ATC 2017).

Why single blocks and not conversations. A prefix counts only as far as all before it is there, so it may seem that
paths have to stay whole. They need not: only ends of paths are ever evicted, so a block that is held has all
before it held too, and a prompt's hits are just the number of its blocks that are held. Leaving blocks out makes paths
shorter, not wrong. Sampled conversations, on the other hand, would count the prefix that all of them share as often as
there are sampled ones, and a few hundred conversations of very different length are too few to draw from.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from openclaw_cache.simulation.request import Ids

_TOP: Final = 1 << 64
_MIX_1: Final = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2: Final = np.uint64(0x94D049BB133111EB)
_STEP: Final = np.uint64(0x9E3779B97F4A7C15)


def hashes(ids: Ids) -> NDArray[np.uint64]:
    """A well mixed 64-bit hash of each id: the finalizer of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014)."""
    mixed = ids.astype(np.int64).view(np.uint64) + _STEP
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _MIX_1
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _MIX_2
    result: NDArray[np.uint64] = mixed ^ (mixed >> np.uint64(31))
    return result


def is_sampled(ids: Ids, rate: float) -> NDArray[np.bool_]:
    """Which ids a sample of this rate has; a smaller rate's sample is part of a larger one's."""
    if rate >= 1:
        return np.ones(len(ids), bool)
    return hashes(ids) < np.uint64(int(rate * _TOP))
