"""What turns texts into vectors, whoever does the work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float32]
"""One text's meaning: float32, of length 1, so that a dot product of two is their cosine. Shape (num_dims,)."""


class Embedder(Protocol):
    """A model of sentences. Never works on the event loop."""

    @property
    def fingerprint(self) -> str:
        """Names the weights and the way texts are prepared: vectors of two fingerprints are never compared.

        Known once `start` has returned.
        """
        ...

    @property
    def num_dims(self) -> int:
        """Length of its vectors. Known once `start` has returned."""
        ...

    @property
    def max_batch(self) -> int:
        """Most texts of one call that it reads together; 1 where together is not faster than one after the other."""
        ...

    async def start(self) -> None:
        """Load the model. Raises EmbeddingError where that cannot be, ConfigError for what an operator must mend."""
        ...

    async def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        """One vector per text, in order; None for a text that has no one meaning to compare.

        That is one longer than the model's window, of which it would read a part only, and one without a visible
        character. The same text gets the same vector whatever stands beside it in `texts`.

        Raises EmbeddingError: the model or its endpoint failed, or was too slow.
        """
        ...

    async def aclose(self) -> None:
        """End what `start` began. Idempotent."""
        ...
