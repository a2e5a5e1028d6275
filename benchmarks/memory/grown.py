"""More vectors than were embedded."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.float32]


def grown(rows: Rows, num_rows: int, seed: int = 1) -> Rows:
    """So many rows: the given ones, then others as far from each other as they are.

    One of those is a row, moved by a part of the difference of two others, and brought back to length 1.
    """
    missing = num_rows - len(rows)
    if missing <= 0:
        return rows[:num_rows]
    rng = np.random.default_rng(seed)
    one, other, base = (rng.integers(0, len(rows), missing) for _ in range(3))
    part = rng.uniform(0.3, 0.7, (missing, 1)).astype(np.float32)
    more = rows[base] + part * (rows[one] - rows[other])
    return np.concatenate([rows, more / np.linalg.norm(more, axis=1, keepdims=True)])
