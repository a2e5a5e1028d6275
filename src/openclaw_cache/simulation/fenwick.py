"""Sums over a range of counts that change."""

from __future__ import annotations

from collections.abc import Sequence


class Fenwick:
    """Counts at places 0 to size - 1, with sums over all places up to one (Fenwick 1994). Both in O(log size)."""

    __slots__ = ("_nodes", "total")

    def __init__(self, size: int, counts: Sequence[int] = ()) -> None:
        """Cost: O(size)."""
        nodes = [0] * (size + 1)
        nodes[1 : len(counts) + 1] = counts
        for i in range(1, size + 1):
            above = i + (i & -i)
            if above <= size:
                nodes[above] += nodes[i]
        self._nodes = nodes
        self.total = sum(counts)

    def __len__(self) -> int:
        return len(self._nodes) - 1

    def add(self, place: int, count: int) -> None:
        """Change the count at a place."""
        nodes, i, size = self._nodes, place + 1, len(self._nodes)
        self.total += count
        while i < size:
            nodes[i] += count
            i += i & -i

    def behind(self, place: int) -> int:
        """The sum of all counts behind a place."""
        nodes, i, before = self._nodes, place + 1, 0
        while i:
            before += nodes[i]
            i &= i - 1
        return self.total - before
