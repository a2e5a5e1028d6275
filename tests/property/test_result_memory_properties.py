"""The memory tier against a plain dict: it may forget, but never answers wrongly and never exceeds its bound."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from openclaw_cache.result.s3fifo import S3Fifo

CAPACITY = 30
steps = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "get", "get", "remove"]), st.integers(0, 12), st.integers(1, 12)
    ),
    max_size=120,
)


@given(steps=steps, ghost_cost=st.sampled_from([0, 1]))
def test_bound_sizes_and_values_hold_under_any_steps(
    steps: list[tuple[str, int, int]], ghost_cost: int
) -> None:
    cache: S3Fifo[int, tuple[int, int]] = S3Fifo(CAPACITY, ghost_cost=ghost_cost)
    truth: dict[int, tuple[int, int]] = {}
    for number, (step, key, size) in enumerate(steps):
        if step == "put":
            truth[key] = (number, size)
            cache.put(key, (number, size), size)
        elif step == "get":
            value = cache.get(key)
            assert value is None or value == truth[key]
        else:
            was_held = key in {held for held, _, _ in cache.items()}
            assert cache.remove(key) == was_held
            truth.pop(key, None)
            assert cache.get(key) is None
        held = list(cache.items())
        assert len({key for key, _, _ in held}) == len(held) == len(cache)
        assert all(truth[key] == value and value[1] == size for key, value, size in held)
        assert sum(size for _, _, size in held) <= cache.size <= CAPACITY


@given(keys=st.lists(st.integers(0, 9), max_size=60))
def test_nothing_is_forgotten_while_there_is_room(keys: list[int]) -> None:
    cache: S3Fifo[int, int] = S3Fifo(10)
    for key in keys:
        cache.put(key, key, 1)
        assert cache.get(key) == key
    assert sorted(key for key, _, _ in cache.items()) == sorted(set(keys))
    assert cache.num_evictions == 0
