"""The buckets of this gateway in memory: today's, this hour's, the last minutes, and what the store has not got yet."""

from __future__ import annotations

from dataclasses import dataclass

from openclaw_cache.history.buckets import RESOLUTIONS, Bucket
from openclaw_cache.history.rollup import Rollup


@dataclass(slots=True)
class Held:
    """One bucket."""

    rollup: Rollup
    is_whole: bool = False
    """Whether what an earlier process stored of it is in it."""
    is_dirty: bool = False
    """Whether it has something that the store has not got."""


class Shelf:
    """Adds sums up by minute, hour and day, in bounded memory: a few hundred kB, 10 MB where clients make up names.

    Args:
        node: What this gateway is called.
        written_as: By which name its sums lie in the store; the same one where none is given.
    """

    def __init__(self, node: str, written_as: str | None = None) -> None:
        self.node = node
        self.written_as = written_as or node
        self._held: dict[Bucket, Held] = {}

    def take(self, rollup: Rollup) -> int:
        """Add the sums of a minute to its minute, hour and day; returns how many unstored buckets had to go for it.

        Cost: O(rows), 0.3 ms for 50 lines.
        """
        rollup.nodes.add(self.node)
        num_lost = 0
        for resolution in RESOLUTIONS:
            bucket = Bucket.of(resolution, rollup.start_at)
            held = self._held.get(bucket)
            if held is None:
                held = self._held[bucket] = Held(Rollup(bucket.start_at, resolution.span_s))
                num_lost += self._make_room(bucket)
            held.rollup.absorb(rollup).trim(resolution.num_lines)
            held.is_dirty = True
        return num_lost

    def find(self, bucket: Bucket) -> Held | None:
        """What is held of a bucket."""
        return self._held.get(bucket)

    def dirty(self) -> list[tuple[Bucket, Held]]:
        """What the store has not got, oldest first."""
        found = [(bucket, held) for bucket, held in self._held.items() if held.is_dirty]
        return sorted(found, key=lambda item: (item[0].start_at, item[0].resolution.span_s))

    def _make_room(self, added: Bucket) -> int:
        """Forget the oldest of its resolution where there are too many; returns how many of those were not stored."""
        resolution = added.resolution
        same = sorted(bucket for bucket in self._held if bucket.resolution == resolution)
        surplus = [bucket for bucket in same if bucket != added][: max(0, len(same) - resolution.num_waiting)]
        return sum(self._held.pop(bucket).is_dirty for bucket in surplus)
