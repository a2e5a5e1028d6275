"""Stretches of time that sums are kept for: minutes, hours and days of UTC, and where they lie in the store. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from openclaw_cache.history.lines import NUM_LINES

MINUTE_S: Final = 60
HOUR_S: Final = 3600
DAY_S: Final = 86_400

PREFIX: Final = b"h:"
_KEY: Final = re.compile(rb"h:([mhd]):[0-9a-f]{16}:([0-9]{1,12})")


class Resolution(NamedTuple):
    """One width of bucket."""

    letter: bytes
    span_s: int
    keep_s: int
    """How long they are kept."""
    sweep_s: int
    """They go by whole hours or days, so that none is missed between two of them."""
    num_lines: int
    """Lines of one bucket."""
    num_waiting: int
    """How many are held in memory, the last ones: what the store has not got yet while it is down is among them."""

    def keeps(self, at: float, now: float) -> bool:
        """Whether the bucket that a moment lies in is still kept."""
        return floor(at, self.sweep_s) + self.keep_s > now


MINUTES: Final = Resolution(b"m", MINUTE_S, 25 * HOUR_S, HOUR_S, 64, 120)
HOURS: Final = Resolution(b"h", HOUR_S, 35 * DAY_S, DAY_S, NUM_LINES, 48)
DAYS: Final = Resolution(b"d", DAY_S, 400 * DAY_S, DAY_S, NUM_LINES, 8)
RESOLUTIONS: Final = (MINUTES, HOURS, DAYS)


class Bucket(NamedTuple):
    """One minute, hour or day."""

    resolution: Resolution
    start_at: int

    @classmethod
    def of(cls, resolution: Resolution, at: float) -> Bucket:
        """The one that a moment lies in."""
        return cls(resolution, floor(at, resolution.span_s))

    @classmethod
    def named(cls, key: bytes) -> Bucket | None:
        """The one whose sums, any node's, lie under this key; None under another one."""
        if (parts := _KEY.fullmatch(key)) is None:
            return None
        resolution = next(r for r in RESOLUTIONS if r.letter == parts[1])
        return cls(resolution, int(parts[2]))

    @property
    def end_at(self) -> int:
        """Where the next one begins."""
        return self.start_at + self.resolution.span_s

    @property
    def day(self) -> int:
        """The day that it lies in, counted from 1970."""
        return self.start_at // DAY_S

    def key(self, node: str) -> bytes:
        """Where a node's sums of it lie in the store."""
        return b"%b%b:%b:%d" % (PREFIX, self.resolution.letter, node.encode(), self.start_at)


def floor(at: float, span_s: int) -> int:
    """The last multiple of a span that is not after a moment."""
    return math.floor(at / span_s) * span_s


def ceil(at: float, span_s: int) -> int:
    """The first multiple of a span that is not before a moment."""
    return math.ceil(at / span_s) * span_s


def finest(at: float, now: float) -> Resolution:
    """The finest resolution that is still kept of a moment."""
    return next((each for each in (MINUTES, HOURS) if each.keeps(at, now)), DAYS)


def cover(start_at: float, end_at: float, now: float) -> Iterator[Bucket]:
    """The fewest buckets that together are a time, in order: days inside, hours and minutes at its edges.

    Where minutes (or hours) are no longer kept, the time is widened to whole hours (or days). What reaches until
    now, or is still to come, ends with the bucket that now lies in.
    """
    if start_at >= end_at:
        return
    at = floor(start_at, finest(start_at, now).span_s)
    # Of the bucket that now lies in, the rest is empty, so it may be as wide as it likes.
    end = ceil(now, DAY_S) if end_at >= now else ceil(end_at, finest(end_at, now).span_s)
    while at < end and at <= now:
        kept = finest(at, now).span_s
        found = next(
            Bucket(r, at)
            for r in reversed(RESOLUTIONS)
            if at % r.span_s == 0 and at + r.span_s <= end and r.span_s >= kept
        )
        yield found
        at = found.end_at


_STEPS: Final = (60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400)


def step_s(start_at: float, end_at: float, num_points: int, now: float) -> int:
    """The width of a point, so that at most `num_points` of them are a time: a round one, which what is kept has."""
    least = max((end_at - start_at) / num_points, finest(start_at, now).span_s)
    return next((step for step in _STEPS if step >= least), ceil(least, DAY_S))


def points(start_at: float, end_at: float, num_points: int, now: float) -> list[tuple[int, int]]:
    """Equal stretches of time, in order: a part of a stretch at the beginning is left out where there are too many."""
    step = step_s(start_at, end_at, num_points, now)
    first = floor(start_at, step)
    starts = range(first, max(ceil(end_at, step), first + step), step)
    return [(at, at + step) for at in starts[-num_points:]]
