"""Who is served next: a bounded line, first come, first served."""

from __future__ import annotations

import math
from typing import Generic, TypeVar

from openclaw_cache.errors import OpenClawCacheError

Work = TypeVar("Work")

_LONGEST_RETRY_S = 60


class LineFullError(OpenClawCacheError):
    """No place in the line. `retry_after_s` is when one is likely."""

    def __init__(self, num_waiting: int, retry_after_s: int) -> None:
        super().__init__(f"{num_waiting} requests are waiting already")
        self.retry_after_s = retry_after_s


class Line(Generic[Work]):
    """Requests that wait and how many are being served. Pure; not thread-safe.

    Up to `max_served` items are served together, and up to `max_waiting` more wait. Items are compared by
    identity.
    """

    def __init__(self, max_waiting: int, max_served: int = 1) -> None:
        self._max_waiting = max_waiting
        self._max_served = max_served
        self._waiting: list[Work] = []
        self._num_served = 0
        self._mean_s = 0.0

    @property
    def num_waiting(self) -> int:
        """Items that are not being served yet."""
        return len(self._waiting)

    @property
    def num_served(self) -> int:
        """Items that are being served."""
        return self._num_served

    def waiting(self) -> list[Work]:
        """Those who wait, in order of arrival; a copy."""
        return list(self._waiting)

    def join(self, item: Work) -> None:
        """Add an item at the end.

        Raises:
            LineFullError: `max_waiting` items wait already, and no place to be served is free.
        """
        ahead = len(self._waiting) + self._num_served
        if ahead >= self._max_waiting + self._max_served:
            wait_s = math.ceil(self._mean_s * ahead / self._max_served)
            raise LineFullError(len(self._waiting), max(1, min(wait_s, _LONGEST_RETRY_S)))
        self._waiting.append(item)

    def leave(self, item: Work) -> None:
        """Take an item out if it is still waiting. Linear in the line's length."""
        self._waiting = [other for other in self._waiting if other is not item]

    def serve(self, item: Work) -> None:
        """Begin to serve an item, also one that has just left: then it is served to its early end."""
        self.leave(item)
        self._num_served += 1

    def served(self, took_s: float) -> None:
        """One of those being served is done after `took_s`; the mean of recent ones estimates the wait."""
        self._num_served -= 1
        self._mean_s = took_s if self._mean_s == 0 else 0.8 * self._mean_s + 0.2 * took_s
