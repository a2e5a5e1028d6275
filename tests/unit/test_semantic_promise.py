"""A limit that is given by hand is held to what the calibrated scale promises there."""

import pytest

from openclaw_cache.semantic.calibration import promised


@pytest.mark.parametrize(
    ("limit", "ratio"), [(0.80, 0.10), (0.85, 0.05), (0.90, 0.03), (0.95, 0.01), (0.5, 0.10), (1.0, 0.01)]
)
def test_the_scales_own_places_promise_what_the_table_says(limit: float, ratio: float) -> None:
    assert promised(limit) == pytest.approx(ratio)


def test_between_two_places_it_is_their_geometric_mean_halfway() -> None:
    assert promised(0.925) == pytest.approx((0.03 * 0.01) ** 0.5)
