"""Requests sent in an order, some at a time, each after the one that computes what it shares."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Final, Protocol

from openclaw_cache.admin_client import UnreachableError, WholeReply
from openclaw_cache.batch.batch_file import BatchRequest
from openclaw_cache.batch.line import Line
from openclaw_cache.batch.no_reply import NoReply
from openclaw_cache.batch.presence import Presence
from openclaw_cache.batch.sender import NOT_NOW, Sender, Stopped
from openclaw_cache.errors import OpenClawCacheError
from openclaw_cache.prefix.ordering import Place

MOST_BREAKS: Final = 3
"""Of one request: then it is the request. At all but the first, nothing else was on its way."""
MOST_IN_A_ROW: Final = 10
"""Faults without a reply in between: then it is the server."""
MOST_SILENT_S: Final = 60.0
"""When nothing has come for so long, somebody looks whether the server is there."""
_UNWANTED: Final = frozenset({401, 403, 407})


class RefusesAllError(OpenClawCacheError):
    """The server is there and takes no request: what it says is about its client, or its address."""


class Taker(Protocol):
    """Takes what comes of requests, in the thread of `run`."""

    def done(self, request: BatchRequest, outcome: WholeReply | NoReply) -> None:
        """A request is over."""

    def put_off(self, request: BatchRequest, outcome: NoReply) -> None:
        """A request got no reply: it is sent again when all others are over."""


def run(
    requests: Sequence[BatchRequest],
    places: Sequence[Place],
    suspects: Sequence[int],
    sender: Sender,
    presence: Presence,
    num_at_once: int,
    num_groups: int,
    taker: Taker,
) -> None:
    """Send all requests, and give each reply to `taker` as it comes.

    A request waits until its leader has its reply, so that it finds what they share computed; meanwhile others of the
    group go, and then those of other groups. One whose connection breaks is a suspect: when all others are over, it is
    sent again, with nothing else on its way. After a fault, until a reply comes, they go one at a time.

    Args:
        requests: all of them, by index.
        places: the order.
        suspects: those of an earlier run, by index.
        sender: sends one.
        presence: tells whether the server is there, after a connection broke.
        num_at_once: how many requests at the same time.
        num_groups: how many groups at the same time, that share nothing: each takes its room in the cache.
        taker: what takes what comes of them.

    Raises:
        UnreachableError: the server is away, or answers none of many; what is not done was not sent, or put off.
        RefusesAllError: it refuses all without a look.
        KeyboardInterrupt: it was to stop; the replies to what was on its way are taken. A second one drops them.
    """
    course = _Course(requests, Line(places, num_groups), deque(suspects), sender, presence, taker)
    fault: BaseException | None = None
    try:
        while True:
            try:
                if fault is None:
                    course.send(num_at_once)
                if not course.take():
                    break
            except (UnreachableError, RefusesAllError, Stopped, KeyboardInterrupt) as e:
                if isinstance(e, KeyboardInterrupt) and fault is not None:
                    raise
                fault = fault or e
                course.stop(is_away=isinstance(fault, UnreachableError))
    finally:
        sender.stop()
    if fault is not None:
        raise fault


class _Course:
    """What is on its way, what is left, and what that says of the server."""

    def __init__(
        self,
        requests: Sequence[BatchRequest],
        line: Line,
        suspects: deque[int],
        sender: Sender,
        presence: Presence,
        taker: Taker,
    ) -> None:
        self._requests = requests
        self._line = line
        self._suspects = suspects
        self._num_breaks: Counter[int] = Counter()
        self._sender = sender
        self._presence = presence
        self._taker = taker
        self._under_way: dict[Future[WholeReply | NoReply], tuple[int, Place | None]] = {}
        """Those without a place are suspects, which nobody waits for."""
        self._is_stopped = self._is_away = False
        self._num_in_a_row = 0
        """Faults since the last reply."""
        self._is_unseen = False
        """Whether the server has not been seen since a connection broke."""
        self._last_alone: int | None = None
        """The suspect that was sent last, while the server has not been seen since."""

    def send(self, num_at_once: int) -> None:
        """Send what may go; first look whether the server is there, where that is not known.

        Raises:
            UnreachableError: it is away. A suspect that was alone when it went is over: it may be why.
        """
        if self._is_unseen:
            try:
                self._is_unseen = not self._presence.is_there()
            except UnreachableError:
                if self._last_alone is not None:
                    reason = NoReply("the server went away with nothing else on its way")
                    self._taker.done(self._requests[self._last_alone], reason)
                raise
            if self._is_unseen:
                return
        self._last_alone = None
        num_at_once = 1 if self._num_in_a_row else num_at_once
        while len(self._under_way) < num_at_once and (place := self._line.next()) is not None:
            self._start(place.index, place)
        if self._suspects and not self._under_way:
            self._last_alone = self._suspects.popleft()
            self._start(self._last_alone, None)

    def take(self) -> bool:
        """Take what has come, and wait for something where all is as it should be; False where nothing is to come.

        Raises:
            UnreachableError, RefusesAllError: too many in a row say the same.
            Stopped: one was told to.
        """
        is_looking = self._is_unseen and not self._is_stopped
        if not self._under_way:
            return is_looking
        came = wait(self._under_way, 0.0 if is_looking else MOST_SILENT_S, FIRST_COMPLETED).done
        if not came and not is_looking:
            if self._is_away:
                self._abandon()
                return False
            self._is_unseen = True
        for future in came:
            index, place = self._under_way.pop(future)
            if place is not None:
                self._line.done(place)
            outcome = future.result()
            if isinstance(outcome, NoReply):
                self._broke(index, place, outcome)
            else:
                self._replied(index, place, outcome)
        return True

    def stop(self, *, is_away: bool) -> None:
        """Send nothing more, and wait for no other try; nor for a reply of a server that is away for much longer."""
        self._is_stopped, self._is_away = True, is_away
        self._sender.stop()

    def _start(self, index: int, place: Place | None) -> None:
        """Send a request in a thread that does not keep the process: it may wait for a reply that never comes."""
        future: Future[WholeReply | NoReply] = Future()

        def send() -> None:
            try:
                future.set_result(self._sender.send(self._requests[index]))
            except BaseException as e:  # noqa: BLE001 - whatever it is, it is raised where the reply is waited for
                future.set_exception(e)

        self._under_way[future] = index, place
        threading.Thread(target=send, name=f"batch line {self._requests[index].line}", daemon=True).start()

    def _replied(self, index: int, place: Place | None, reply: WholeReply) -> None:
        self._taker.done(self._requests[index], reply)
        is_not_now = reply.status in NOT_NOW
        if not (is_not_now or reply.status in _UNWANTED or 300 <= reply.status < 400):
            self._num_in_a_row = 0
        elif self._is_one_too_many(place):
            told = f"the server replied with {reply.status}, and refused {MOST_IN_A_ROW} requests in a row"
            if is_not_now:
                raise UnreachableError(told)
            hint = ": OPENCLAW_CACHE_KEY and --namespace say who asks" if reply.status in _UNWANTED else ""
            raise RefusesAllError(told + hint)

    def _broke(self, index: int, place: Place | None, outcome: NoReply) -> None:
        """Put a request without a reply off, or give it up."""
        self._num_breaks[index] += 1
        if outcome.code == "timeout":  # a second wait of the same length would hold up all others
            self._taker.done(self._requests[index], outcome)
        elif self._num_breaks[index] >= MOST_BREAKS:
            tries = f"{MOST_BREAKS} times, at last with nothing else on its way and the server there"
            self._taker.done(self._requests[index], NoReply(f"{outcome.reason}, {tries}"))
        else:
            self._put_off(index, outcome)
        is_first, self._is_unseen = not self._is_unseen, True  # all others on their way break with it
        if is_first and self._is_one_too_many(place):
            raise UnreachableError(
                f"{outcome.reason}, {MOST_IN_A_ROW} times in a row, though the server is there"
            )

    def _put_off(self, index: int, outcome: NoReply) -> None:
        self._taker.put_off(self._requests[index], outcome)
        self._suspects.append(index)

    def _abandon(self) -> None:
        for index, _ in self._under_way.values():
            self._put_off(index, NoReply("no reply had come when the server went away"))
        self._under_way.clear()

    def _is_one_too_many(self, place: Place | None) -> bool:
        self._num_in_a_row += place is not None  # suspects say nothing of the server
        return self._num_in_a_row >= MOST_IN_A_ROW
