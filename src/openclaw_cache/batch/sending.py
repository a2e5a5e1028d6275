"""Requests sent in an order, some at a time, each after the one that computes what it shares."""

from __future__ import annotations

import heapq
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Final

from openclaw_cache.admin_client import UnreachableError, WholeReply
from openclaw_cache.batch.batch_file import BatchRequest
from openclaw_cache.prefix.ordering import Place
from openclaw_cache.request_logs.logged_request import encoded

_TRIES: Final = 6
_FIRST_WAIT_S: Final = 1.0
_MOST_WAIT_S: Final = 60.0
_TRY_AGAIN: Final = (429, 502, 503, 504)

Exchange = Callable[[str, bytes], WholeReply]


class Stopped(Exception):  # noqa: N818 - an order, not an error
    """Nobody waits for this reply any more."""


class Sender:
    """Sends requests over a server's own connection, and tries again what it was too busy for."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._stop = threading.Event()

    def send(self, request: BatchRequest) -> WholeReply:
        """Send one request and wait for its reply; up to six tries, as far apart as the server asks for.

        Raises:
            UnreachableError: the server is away.
            Stopped: it was to stop meanwhile.
        """
        body, wait_s = encoded(request.body), _FIRST_WAIT_S
        for last in (*[False] * (_TRIES - 1), True):
            try:
                reply = self._exchange(request.path, body)
            except UnreachableError:
                if last:
                    raise
                asked_s = None
            else:
                if last or reply.status not in _TRY_AGAIN:
                    return reply
                asked_s = _retry_after_s(reply.headers)
            if self._stop.wait(min(_MOST_WAIT_S, wait_s if asked_s is None else asked_s)):
                raise Stopped
            wait_s *= 2
        raise AssertionError("the last try returns or raises")

    def stop(self) -> None:
        """Let no one wait for another try."""
        self._stop.set()


def run(
    requests: Sequence[BatchRequest],
    places: Sequence[Place],
    sender: Sender,
    num_at_once: int,
    num_groups: int,
    done: Callable[[BatchRequest, WholeReply], None],
) -> None:
    """Send all requests; `done` is called in this thread with each reply as it comes.

    A request waits until its leader has its reply, so that it finds what they share computed; meanwhile others of the
    group go, and then those of other groups. What is on its way when the server goes away is waited for.

    Args:
        requests: all of them, by index.
        places: the order.
        sender: sends one.
        num_at_once: how many requests at the same time.
        num_groups: how many groups at the same time, that share nothing: each takes its room in the cache.
        done: what takes a reply.

    Raises:
        UnreachableError: the server is away; what is not done was not sent, or has no reply.
        KeyboardInterrupt: it was to stop; the replies to what was on its way are taken. A second one drops them.
    """
    line = _Line(places, num_groups)
    under_way: dict[Future[WholeReply], Place] = {}
    fault: BaseException | None = None
    with ThreadPoolExecutor(num_at_once, "batch") as pool:
        try:
            while True:
                try:
                    while (
                        fault is None and len(under_way) < num_at_once and (place := line.next()) is not None
                    ):
                        under_way[pool.submit(sender.send, requests[place.index])] = place
                    if not under_way:
                        break
                    for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                        place = under_way.pop(future)
                        line.done(place)
                        done(requests[place.index], future.result())
                except (UnreachableError, Stopped, KeyboardInterrupt) as e:
                    if isinstance(e, KeyboardInterrupt) and isinstance(fault, KeyboardInterrupt):
                        raise
                    fault = fault or e
                    sender.stop()
        finally:
            sender.stop()
            for future in under_way:
                future.cancel()
    if fault is not None:
        raise fault


class _Line:
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
        is_alone = self._num_left[self._first[0].index] == 1
        if not is_alone and len(self._opened) >= self._num_groups:
            return None
        place = self._first.popleft()
        if not is_alone:
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


def _retry_after_s(headers: Mapping[str, str]) -> float | None:
    try:
        seconds = float(headers.get("retry-after", ""))
    except ValueError:
        return None
    return seconds if seconds >= 0 else None
