"""Every index against a dictionary and brute force, under any order of adds, removals and searches."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw_cache.semantic import large, matrix
from openclaw_cache.semantic.growing import GrowingIndex
from openclaw_cache.semantic.matrix import MatrixIndex
from support.vectors import grouped, nearest

POOL = grouped(40, 8, 2, num_groups=6)
steps = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "add", "remove", "search"]), st.integers(0, 25), st.integers(0, 39)
    ),
    max_size=150,
)


def follow(index: MatrixIndex | GrowingIndex, steps: list[tuple[str, int, int]], error: float) -> None:
    held: dict[int, np.ndarray] = {}
    for step, row_id, at in steps:
        if step == "add":
            index.add(row_id, POOL[at])
            held[row_id] = POOL[at]
        elif step == "remove":
            assert index.remove(row_id) == (held.pop(row_id, None) is not None)
        else:
            found = index.search(POOL[at], row_id)
            expected = nearest(held, POOL[at], row_id)
            assert [cosine for _, cosine in found] == pytest.approx(
                [cosine for _, cosine in expected], abs=error
            )
            assert all(abs(float(held[number] @ POOL[at]) - cosine) < error for number, cosine in found)
            assert len({number for number, _ in found}) == len(found)
        assert len(index) == len(held)


def after(steps: list[tuple[str, int, int]]) -> set[int]:
    held: set[int] = set()
    for step, row_id, _ in steps:
        if step == "add":
            held.add(row_id)
        elif step == "remove":
            held.discard(row_id)
    return held


@given(steps=steps)
def test_a_matrix_is_exact_at_any_time_with_small_blocks(steps: list[tuple[str, int, int]]) -> None:
    block_rows = matrix.BLOCK_ROWS
    matrix.BLOCK_ROWS = 4  # type: ignore[misc]
    try:
        index = MatrixIndex(8)
        follow(index, steps, 1e-5)
        assert index.capacity_bytes <= (len(index) * 4 / 3 + 2) * 8 * 4
    finally:
        matrix.BLOCK_ROWS = block_rows  # type: ignore[misc]


@pytest.mark.skipif(not large.is_available(), reason="faiss-cpu is not installed")
@settings(deadline=None)
@given(steps=steps, large_from=st.integers(2, 12))
def test_an_index_that_changes_its_kind_meanwhile_stays_exact(
    steps: list[tuple[str, int, int]], large_from: int
) -> None:
    index = GrowingIndex(8, large_from)
    follow(index, steps, 1e-3)  # float16's; all neighbourhoods are looked into while there are 64 or fewer
    index.settle()
    found = {row_id for row_id, _ in index.search(POOL[0], 100)}
    assert found == after(steps)
