"""Vectors for tests of the semantic index: grouped as questions are, not spread evenly."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32]


def unit(rows: npt.NDArray[np.floating]) -> Vectors:
    """Rows brought to length 1."""
    return (rows / np.linalg.norm(rows, axis=-1, keepdims=True)).astype(np.float32)


def grouped(num_rows: int, num_dims: int, seed: int, *, num_groups: int = 50, spread: float = 0.5) -> Vectors:
    """Rows around random centres, all of which lean to one side, as those of real sentence models do."""
    rng = np.random.default_rng(seed)
    centres = unit(rng.standard_normal((num_groups, num_dims))) + unit(rng.standard_normal(num_dims))
    noise = spread * unit(rng.standard_normal((num_rows, num_dims)))
    return unit(centres[rng.integers(0, num_groups, num_rows)] + noise)


def nearby(rows: Vectors, seed: int, *, distance: float = 0.3) -> Vectors:
    """Each row moved by `distance` in a random direction: cosine 1 / √(1 + distance²) at the usual right angle."""
    rng = np.random.default_rng(seed)
    return unit(rows + distance * unit(rng.standard_normal(rows.shape)))


def nearest(
    rows: dict[int, npt.NDArray[np.float32]], vector: npt.NDArray[np.float32], k: int
) -> list[tuple[int, float]]:
    """By looking at every row: the `k` with the greatest cosines in double precision, greatest first."""
    cosines = {row_id: float(row.astype(float) @ vector.astype(float)) for row_id, row in rows.items()}
    return sorted(cosines.items(), key=lambda pair: -pair[1])[:k]
