"""One pass against a cache that is really kept, block by block, and the sums it rests on."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw_cache.kv.eviction import LRU
from openclaw_cache.simulation.bounds import belady, infinite
from openclaw_cache.simulation.fenwick import Fenwick
from openclaw_cache.simulation.replay import replay
from openclaw_cache.simulation.request import Request
from openclaw_cache.simulation.stack import LruStack
from openclaw_cache.simulation.trace import collected

# Prompts are words over three letters: many share beginnings, some are beginnings of others.
PROMPTS = st.lists(st.text("abc", max_size=7), min_size=1, max_size=40)
BLOCK_TOKENS = 4


def requests_of(words: list[str], cut: list[int]) -> list[Request]:
    """A block for each letter; of the last one as many tokens are there as `cut` says."""
    numbers: dict[str, int] = {}
    found = []
    for i, word in enumerate(words):
        ids = [numbers.setdefault(word[: n + 1], len(numbers)) for n in range(len(word))]
        num_tokens = len(ids) * BLOCK_TOKENS - (cut[i % len(cut)] if ids else 0)
        found.append(Request(float(i), np.array(ids, np.int64), num_tokens, place=str(i)))
    return found


def kept_by_lru(requests: list[Request], capacity: int) -> int:
    """Tokens found by a cache of single blocks that is really kept, of which the one used last goes last."""
    held: OrderedDict[int, None] = OrderedDict()
    num_found = 0
    for request in requests:
        ids = request.ids.tolist()
        num_leading = 0
        while num_leading < len(ids) and ids[num_leading] in held:
            num_leading += 1
        num_found += min(num_leading * BLOCK_TOKENS, request.num_tokens)
        for block in reversed(ids[:capacity]):
            held[block] = None
            held.move_to_end(block)
        while len(held) > capacity:
            held.popitem(last=False)
    return num_found


@settings(deadline=None)
@given(PROMPTS, st.lists(st.integers(0, BLOCK_TOKENS - 1), min_size=1, max_size=5))
def test_one_pass_finds_what_a_cache_of_every_size_finds(words: list[str], cut: list[int]) -> None:
    requests = requests_of(words, cut)
    stack = LruStack(BLOCK_TOKENS)
    for request in requests:
        stack.add(request)
    curve = stack.curve()
    for capacity in range(1, curve.num_blocks + 2):
        place = min(capacity, len(curve.hit_tokens) - 1)
        assert curve.hit_tokens[place] == kept_by_lru(requests, capacity)


@settings(deadline=None)
@given(PROMPTS)
def test_room_for_everything_finds_the_same_in_every_way(words: list[str]) -> None:
    requests = [request for request in requests_of(words, [0]) if len(request.ids)]
    stack = LruStack(BLOCK_TOKENS)
    for request in requests:
        stack.add(request)
    trace, most = collected(requests, BLOCK_TOKENS), max(1, stack.num_blocks)
    found = infinite(trace).num_hit_tokens
    assert stack.curve().hit_tokens[-1] == found
    assert replay(trace, most, LRU()).num_hit_tokens == found
    assert belady(trace, most).num_hit_tokens == found


@settings(deadline=None)
@given(PROMPTS, st.integers(1, 30))
def test_no_cache_beats_the_bound(words: list[str], capacity: int) -> None:
    requests = [request for request in requests_of(words, [0]) if len(request.ids)]
    trace = collected(requests, BLOCK_TOKENS)
    best = belady(trace, capacity).num_hit_tokens
    assert kept_by_lru(requests, capacity) <= best
    assert replay(trace, capacity, LRU()).num_hit_tokens <= best


@settings(deadline=None)
@given(PROMPTS, st.integers(1, 60))
def test_a_sample_never_finds_less_with_more_room(words: list[str], percent: int) -> None:
    stack = LruStack(BLOCK_TOKENS, percent / 100)
    for request in requests_of(words, [0]):
        stack.add(request)
    curve = stack.curve()
    ratios = [curve.hit_ratio(capacity) for capacity in range(1, 60)]
    assert ratios == sorted(ratios)
    assert 0 <= ratios[0] <= ratios[-1] <= 1


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(-3, 9)), max_size=40), st.integers(0, 20))
def test_sums_are_those_of_a_plain_list(changes: list[tuple[int, int]], place: int) -> None:
    plain, sums = [2] * 10 + [0] * 11, Fenwick(21, [2] * 10)
    for at, count in changes:
        plain[at] += count
        sums.add(at, count)
    assert sums.behind(place) == sum(plain[place + 1 :])
    assert sums.total == sum(plain)
