"""Who is next in an order in which some wait for others."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence

from openclaw_cache.prefix.ordering import Place


class Line:
    """Who is next: the first in the order whose leader is done, of a group that is open, else of one to be opened."""

    def __init__(self, places: Sequence[Place], num_groups: int) -> None:
        self._num_groups = num_groups
        self._group: dict[int, int] = {}
        """By a prompt's index: that of the first of its group, which shares nothing with those before."""
        self._num_left: dict[int, int] = {}
        """By group."""
        self._opened: set[int] = set()
        self._first: deque[Place] = deque()
        """Of the groups that are not open yet."""
        self._ready: list[tuple[int, Place]] = []
        self._followers: dict[int, list[tuple[int, Place]]] = {}
        for number, place in enumerate(places):
            if place.leader is None:
                self._first.append(place)
            else:
                self._followers.setdefault(place.leader, []).append((number, place))
            group = place.index if place.leader is None else self._group[place.leader]
            self._group[place.index] = group
            self._num_left[group] = self._num_left.get(group, 0) + 1

    def next(self) -> Place | None:
        """Who may go now; None where all that is left has to wait."""
        if self._ready:
            return heapq.heappop(self._ready)[1]
        if not self._first:
            return None
        is_single = self._num_left[self._first[0].index] == 1
        if not is_single and len(self._opened) >= self._num_groups:
            return None
        place = self._first.popleft()
        if not is_single:
            self._opened.add(place.index)
        return place

    def done(self, place: Place) -> None:
        """A prompt is computed: those that it leads may go."""
        group = self._group[place.index]
        self._num_left[group] -= 1
        if not self._num_left[group]:
            self._opened.discard(group)
        for follower in self._followers.pop(place.index, ()):
            heapq.heappush(self._ready, follower)
