"""The Bloom filter: it never forgets a key, and takes others for known as seldom as theory says."""

from __future__ import annotations

import hashlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_cache.result.presence import PresenceFilter
from openclaw_cache.types import CacheKey

keys = st.binary(min_size=32, max_size=32).map(CacheKey)


def key(number: int) -> CacheKey:
    """A uniform key, as keyed BLAKE3 gives them."""
    return CacheKey(hashlib.sha256(str(number).encode()).digest())


@given(added=st.lists(keys, max_size=200), capacity=st.integers(1, 100))
def test_every_key_that_was_added_is_found_however_full_the_filter_is(
    added: list[CacheKey], capacity: int
) -> None:
    known = PresenceFilter(capacity)
    for number, new in enumerate(added):
        known.add(new)
        assert all(older in known for older in added[: number + 1])


@given(asked=keys)
def test_an_empty_filter_finds_nothing(asked: CacheKey) -> None:
    assert asked not in PresenceFilter(1000)


def test_a_key_that_is_added_again_counts_once() -> None:
    known = PresenceFilter(1000)
    for _ in range(3):
        for number in range(50):
            known.add(key(number))
    assert known.num_added == 50


@pytest.mark.parametrize("fill", [0.5, 1.0, 2.0])
def test_false_positives_are_as_many_as_bloom_says_and_below_a_hundredth_at_capacity(fill: float) -> None:
    capacity, num_asked = 20_000, 50_000
    num_keys = round(capacity * fill)
    known = PresenceFilter(capacity)
    for number in range(num_keys):
        known.add(key(number))
    num_found = sum(key(-1 - number) in known for number in range(num_asked))
    expected = (
        1 - math.exp(-7 * num_keys / (10 * capacity))
    ) ** 7  # Bloom 1970: k = 7 of m = 10 bits per key
    deviation = math.sqrt(expected * (1 - expected) / num_asked)
    assert abs(num_found / num_asked - expected) < 5 * deviation + 0.05 * expected
    if fill <= 1:
        assert num_found / num_asked < 0.01
    # A key is counted unless it looked known already, which at this fill is rare.
    assert num_keys * (1 - expected) <= known.num_added <= num_keys
