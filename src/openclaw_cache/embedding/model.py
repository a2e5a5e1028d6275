"""A model of sentences in the process that computes it."""

from __future__ import annotations

from typing import Final, Protocol

from openclaw_cache.embedding.embedder import Vector
from openclaw_cache.embedding.text import prepared

MOST_CHARS_PER_TOKEN: Final = 16
"""A text with more characters than this per token of the window is too long uncounted (prose has 1 to 5)."""


class Model(Protocol):
    """Weights in memory. Not for two threads at a time; reads one text at a time, so none changes another's vector.

    `encode` may be asked only for texts that `prepared` let through and that fit the window.
    """

    @property
    def fingerprint(self) -> str:
        """Its name, the hash of its weights and tokenizer, and the version of what we do to a text before."""
        ...

    @property
    def num_dims(self) -> int:
        """Length of its vectors."""
        ...

    @property
    def window_tokens(self) -> int:
        """Most tokens of a text that it reads, its own marks and its prompt counted."""
        ...

    def num_tokens(self, text: str) -> int:
        """Tokens of a text, counted as for `window_tokens`."""
        ...

    def encode(self, text: str) -> Vector:
        """The text's vector. Raises EmbeddingError where it gives none."""
        ...


def vector_of(model: Model, text: str, max_tokens: int) -> Vector | None:
    """The vector of any text; None where it has nothing to read, or more than the window or `max_tokens`.

    Raises:
        EmbeddingError: the model gave none.
    """
    most = min(max_tokens, model.window_tokens)
    readable = prepared(text, most * MOST_CHARS_PER_TOKEN)
    if readable is None or model.num_tokens(readable) > most:
        return None
    return model.encode(readable)
