"""The passages whose vectors are nearest to a question's, among those that a filter lets through."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from openclaw_cache.embedding.embedder import Vector
    from openclaw_cache.memory.record import Filter
    from openclaw_cache.memory.store import Passages

FEW: Final = 2_000
"""Passages of which each is compared, where a filter lets no more through."""
_WIDER: Final = 8
_MOST: Final = 20_000


class Nearest(Protocol):
    """An index: the `k` nearest with their cosines, nearest first."""

    def search(self, vector: Vector, k: int) -> list[tuple[int, float]]:
        """Numbers of passages, and their cosines."""
        ...

    def __len__(self) -> int:
        """How many there are."""
        ...


class Vectors(Protocol):
    """An index, and whose vectors it has."""

    @property
    def fingerprint(self) -> str:
        """The embedder's."""
        ...

    @property
    def index(self) -> Nearest:
        """What finds them."""
        ...


def nearest(
    store: Passages, vectors: Vectors, vector: Vector, num_wanted: int, within: Filter
) -> list[tuple[int, float]]:
    """So many passages with their cosines, nearest first; fewer only where the filter lets fewer through.

    First the index is asked for that many. Where the filter refuses most of them, either the few that it lets
    through are compared one by one, or the index is asked for more and more, up to 20,000.
    """
    index, k = vectors.index, num_wanted
    found = _admitted(store, index.search(vector, k), within)
    if len(found) * 2 >= num_wanted or k >= len(index):
        return found
    few = store.recent(FEW + 1, within)
    if len(few) <= FEW:
        return _compared(store, vectors.fingerprint, few, vector)[:num_wanted]
    while len(found) * 2 < num_wanted and k < min(len(index), _MOST):
        k *= _WIDER
        found = _admitted(store, index.search(vector, k), within)
    return found[:num_wanted]


def _admitted(store: Passages, found: Sequence[tuple[int, float]], within: Filter) -> list[tuple[int, float]]:
    cosines = dict(found)
    return [(passage.number, cosines[passage.number]) for passage in store.admitted(list(cosines), within)]


def _compared(
    store: Passages, fingerprint: str, numbers: Sequence[int], vector: Vector
) -> list[tuple[int, float]]:
    found, rows = store.vectors_of(fingerprint, numbers)
    if not found:
        return []
    cosines = rows.astype(vector.dtype) @ vector
    return sorted(zip(found, cosines.tolist(), strict=True), key=lambda pair: -pair[1])
