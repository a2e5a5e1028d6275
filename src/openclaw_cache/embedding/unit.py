"""Vectors of length 1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from openclaw_cache.errors import EmbeddingError

if TYPE_CHECKING:
    import numpy.typing as npt

    from openclaw_cache.embedding.embedder import Vector

_NEAR: Final = 1e-6  # what float32 leaves of a length


def unit(vector: npt.NDArray[Any]) -> Vector:
    """The vector as float32, at length 1, read-only; unchanged where it has that length already.

    Raises:
        EmbeddingError: it has no direction: all zero, or with a NaN or an infinity in it.
    """
    wide = np.asarray(vector, np.float64)
    length = float(np.sqrt(wide @ wide))
    if not (np.isfinite(length) and length > 1e-9):
        raise EmbeddingError("the model gave a vector without a direction")
    made = np.array(vector if abs(length - 1) < _NEAR else wide / length, np.float32)
    made.flags.writeable = False
    return made
