"""What finds the nearest of many vectors, however it does so."""

from __future__ import annotations

from typing import Protocol

from openclaw_cache.embedding.embedder import Vector


class Index(Protocol):
    """Vectors of length 1 by number. Every method may be called from any thread, at any time.

    A search that runs while rows come and go may overlook one that is moved in that moment. It never returns a row
    that had been removed before it began, nor a row with the cosine of another.
    """

    def add(self, row_id: int, vector: Vector) -> None:
        """Place a vector; the same number again replaces it. The vector is copied."""
        ...

    def search(self, vector: Vector, k: int) -> list[tuple[int, float]]:
        """The `k` nearest, or all where there are fewer, with their cosines, nearest first."""
        ...

    def remove(self, row_id: int) -> bool:
        """Forget a vector. Returns whether it was there."""
        ...

    def __len__(self) -> int:
        """How many vectors it has."""
        ...

    @property
    def search_bytes(self) -> int:
        """How much memory one search reads: what its time goes by, at 5 to 10 bytes a nanosecond."""
        ...
