"""Rankings fused: sums by hand."""

from __future__ import annotations

import pytest

from openclaw_cache.memory.retrieval.fusion import K, Place, fuse
from openclaw_cache.memory.retrieval.recency import freshness


def test_a_score_is_the_sum_of_reciprocal_ranks() -> None:
    first, second, third = fuse({"a": [(1, 0.9), (2, 0.8)], "b": [(2, 7.0), (3, 6.0)]})

    assert (first.number, second.number, third.number) == (2, 1, 3)
    assert first.score == pytest.approx(1 / (K + 2) + 1 / (K + 1))
    assert second.score == pytest.approx(1 / (K + 1))
    assert third.score == pytest.approx(1 / (K + 2))


def test_each_list_is_explained_by_place_and_value() -> None:
    fused = fuse({"a": [(1, 0.9), (2, 0.8)], "b": [(2, 7.0)]})[0]

    assert fused.places == {"a": Place(2, 0.8), "b": Place(1, 7.0)}


def test_a_list_counts_as_much_as_it_weighs() -> None:
    fused = fuse({"a": [(1, 0.9)], "b": [(2, 7.0)]}, lambda name, number: 3.0 if name == "b" else 1.0)

    assert [each.number for each in fused] == [2, 1]
    assert fused[0].score == pytest.approx(3 / (K + 1))


def test_equal_scores_come_in_the_order_of_their_numbers() -> None:
    assert [each.number for each in fuse({"a": [(9, 1.0)], "b": [(4, 1.0)]})] == [4, 9]


def test_nothing_fuses_to_nothing() -> None:
    assert fuse({}) == []
    assert fuse({"a": []}) == []


def test_freshness_halves_with_each_half_life_and_is_never_above_one() -> None:
    assert freshness(100.0, 100.0, 50.0) == 1.0
    assert freshness(50.0, 100.0, 50.0) == 0.5
    assert freshness(0.0, 100.0, 50.0) == 0.25
    assert freshness(500.0, 100.0, 50.0) == 1.0
