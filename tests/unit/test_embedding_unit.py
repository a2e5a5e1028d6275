"""Vectors of length 1."""

from __future__ import annotations

import numpy as np
import pytest

from openclaw_cache.embedding.pooling import pooled
from openclaw_cache.embedding.unit import unit
from openclaw_cache.errors import EmbeddingError


def test_a_vector_is_brought_to_length_one() -> None:
    made = unit(np.array([3.0, 4.0]))

    assert made.tolist() == pytest.approx([0.6, 0.8])
    assert made.dtype == np.float32


def test_lengths_near_the_ends_of_float32_have_a_direction_too() -> None:
    assert unit(np.array([3e30, 4e30], np.float32)).tolist() == pytest.approx([0.6, 0.8])


@pytest.mark.parametrize(
    "values", [[0.0, 0.0], [float("nan"), 1.0], [float("inf"), 1.0], [-float("inf"), 0.0], []]
)
def test_a_vector_without_a_direction_is_an_error(values: list[float]) -> None:
    with pytest.raises(EmbeddingError, match="direction"):
        unit(np.array(values))


def test_a_vector_that_is_shared_cannot_be_written_to() -> None:
    for given in ([3.0, 4.0], [0.6, 0.8]):
        with pytest.raises(ValueError, match="read-only"):
            unit(np.array(given, np.float32))[0] = 1


def test_a_vector_of_length_one_keeps_its_bits() -> None:
    given = unit(np.arange(1.0, 100.0))

    assert unit(given).tobytes() == given.tobytes()


def test_each_pooling_is_what_its_name_says() -> None:
    tokens = np.array([[1.0, 8.0], [2.0, 0.0], [6.0, 1.0]])

    assert pooled(tokens, "mean").tolist() == [3.0, 3.0]
    assert pooled(tokens, "max").tolist() == [6.0, 8.0]
    assert pooled(tokens, "cls").tolist() == [1.0, 8.0]
    assert pooled(tokens, "lasttoken").tolist() == [6.0, 1.0]
