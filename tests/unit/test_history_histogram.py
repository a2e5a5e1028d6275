"""Durations in cells: quantiles near the truth, sums exact."""

from __future__ import annotations

import random

import pytest

from openclaw_cache.history.histogram import MAX_ERROR_RATIO, Histogram


@pytest.mark.parametrize("seconds", [1e-5, 0.0004, 0.02, 1.0, 59.9, 1800.0])
def test_a_single_duration_is_found_again_within_the_promised_error(seconds: float) -> None:
    histogram = Histogram()
    histogram.add(seconds)
    assert histogram.quantile(0.5) == pytest.approx(seconds, rel=MAX_ERROR_RATIO)
    assert histogram.sum_us == round(seconds * 1e6)


@pytest.mark.parametrize("share", [0.01, 0.5, 0.95, 0.99, 1.0])
def test_quantiles_are_those_of_the_sorted_durations_within_the_promised_error(share: float) -> None:
    draw = random.Random(7)
    durations = [draw.lognormvariate(-3, 2) for _ in range(5000)]
    histogram = Histogram()
    for seconds in durations:
        histogram.add(seconds)
    rank = max(1, -(-int(share * 5000 * 1000) // 1000))
    assert histogram.quantile(share) == pytest.approx(sorted(durations)[rank - 1], rel=MAX_ERROR_RATIO)


def test_the_error_is_that_of_a_sixteenth_of_an_octave() -> None:
    assert pytest.approx(0.0443, abs=0.0001) == MAX_ERROR_RATIO


def test_durations_beyond_every_cell_are_counted_in_the_first_and_last() -> None:
    histogram = Histogram()
    for seconds in (-1.0, 0.0, 1e-9, 1e9):
        histogram.add(seconds)
    assert histogram.num == 4
    assert len(histogram.counts) == 2


def test_nothing_has_no_quantile() -> None:
    assert Histogram().quantile(0.5) is None


def test_durations_known_by_bounds_only_are_spread_evenly_and_none_is_lost() -> None:
    histogram = Histogram()
    histogram.add_between(0.1, 0.5, 1000)
    assert histogram.num == 1000
    # Evenly between 0.1 and 0.5: the median is 0.3, 95 % are below 0.48.
    assert histogram.quantile(0.5) == pytest.approx(0.3, rel=0.1)
    assert histogram.quantile(0.95) == pytest.approx(0.48, rel=0.1)


def test_the_first_bucket_of_a_metric_says_nothing_of_durations_near_zero() -> None:
    """A bucket up to 16 ms is taken to begin at 1 ms."""
    histogram = Histogram()
    histogram.add_between(0.0, 0.016, 1000)
    least = histogram.quantile(0.001)
    assert least is not None
    assert least > 0.0009


def test_the_first_and_the_last_bucket_of_a_metric_lose_nothing_either() -> None:
    histogram = Histogram()
    histogram.add_between(0.0, 0.00001, 3)
    histogram.add_between(2.5, float("inf"), 4)
    assert histogram.num == 7
    assert histogram.quantile(1.0) == pytest.approx(2.5, rel=0.1)
