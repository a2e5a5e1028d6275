"""The replay harness: its bound against an exhaustive search, its replays by hand."""

from __future__ import annotations

import random
from functools import cache

import numpy as np
import pytest

from openclaw_cache.kv.eviction import LRU
from openclaw_cache.simulation.bounds import belady, infinite
from openclaw_cache.simulation.replay import replay
from openclaw_cache.simulation.request import Request
from openclaw_cache.simulation.trace import Trace

PARENTS = {0: None, 1: 0, 2: 1, 3: 0, 4: None, 5: 4}


def trace(*paths: list[int]) -> Trace:
    requests = [Request(float(i), np.array(ids, np.int32), len(ids)) for i, ids in enumerate(paths, 1)]
    return Trace(requests, 1, 1 + max(max(ids) for ids in paths))


def best(paths: list[list[int]], capacity: int, *, holds: bool = False) -> int:
    """The most hits that any sequence of choices gives, where what is kept are always prefixes.

    `holds`: what is kept has the last prompt in it.
    """

    def is_prefixes(kept: frozenset[int]) -> bool:
        return all(PARENTS[block] is None or PARENTS[block] in kept for block in kept)

    def subsets(held: frozenset[int]) -> list[frozenset[int]]:
        found = [frozenset[int]()]
        for block in held:
            found += [one | {block} for one in found]
        return [one for one in found if len(one) <= capacity and is_prefixes(one)]

    @cache
    def most(i: int, held: frozenset[int]) -> int:
        if i == len(paths):
            return 0
        hits = sum(block in held for block in paths[i])
        choices = subsets(held | set(paths[i]))
        if holds:
            choices = [kept for kept in choices if kept.issuperset(paths[i])]
        return hits + max(most(i + 1, kept) for kept in choices)

    return most(0, frozenset())


@pytest.mark.parametrize("seed", range(12))
def test_belady_is_the_best_of_all_choices(seed: int) -> None:
    rng = random.Random(seed)
    choices = [[0], [0, 1], [0, 1, 2], [0, 3], [4], [4, 5]]
    paths = [rng.choice(choices) for _ in range(9)]
    for capacity in (1, 2, 3, 4):
        assert belady(trace(*paths), capacity).num_hit_tokens == best(paths, capacity)


@pytest.mark.parametrize("seed", range(12))
def test_belady_that_holds_the_prompt_is_the_best_of_all_choices_that_do(seed: int) -> None:
    rng = random.Random(seed)
    choices = [[0], [0, 1], [0, 1, 2], [0, 3], [4], [4, 5]]
    paths = [rng.choice(choices) for _ in range(9)]
    for capacity in (3, 4, 5):
        held = belady(trace(*paths), capacity, holds_prompt=True).num_hit_tokens
        assert held == best(paths, capacity, holds=True) <= best(paths, capacity)


def test_a_replay_under_lru_by_hand() -> None:
    # Room for three: [0 1 2] fills it; [4] pushes out 2, the end; [0 1] is whole; 2 has to come again.
    outcome = replay(trace([0, 1, 2], [4], [0, 1], [0, 1, 2]), 3, LRU())
    assert (outcome.num_hit_tokens, outcome.num_tokens, outcome.num_evicted_blocks) == (4, 9, 2)


def test_infinite_room_misses_every_block_once() -> None:
    assert infinite(trace([0, 1], [0, 1], [4, 5], [0, 3])).num_hit_tokens == 3
