"""A bounded first-come-first-served line in front of one worker thread."""

from __future__ import annotations

import asyncio
import math
import threading
from collections import deque
from contextlib import closing
from typing import TYPE_CHECKING, Generic, TypeVar

from openclaw_cache.errors import OpenClawCacheError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Generator

Work = TypeVar("Work")
Event = TypeVar("Event")

_LONGEST_RETRY_S = 60


class LineFullError(OpenClawCacheError):
    """No place in the line. `retry_after_s` is when one is likely."""

    def __init__(self, num_waiting: int, retry_after_s: int) -> None:
        super().__init__(f"{num_waiting} requests are waiting already")
        self.retry_after_s = retry_after_s


class Line(Generic[Work]):
    """Who is served next. Pure; not thread-safe.

    One item is served at a time, and up to `max_waiting` more wait. Items are compared by identity.
    """

    def __init__(self, max_waiting: int) -> None:
        self._max_waiting = max_waiting
        self._waiting: deque[Work] = deque()
        self._is_busy = False
        self._mean_s = 0.0

    @property
    def num_waiting(self) -> int:
        """Items that are not being served yet."""
        return len(self._waiting)

    def join(self, item: Work) -> None:
        """Add an item at the end.

        Raises:
            LineFullError: `max_waiting` items wait already.
        """
        ahead = len(self._waiting) + self._is_busy
        if ahead > self._max_waiting:
            wait_s = math.ceil(self._mean_s * ahead)
            raise LineFullError(len(self._waiting), max(1, min(wait_s, _LONGEST_RETRY_S)))
        self._waiting.append(item)

    def leave(self, item: Work) -> None:
        """Take an item out if it is still waiting. Linear in the line's length."""
        self._waiting = deque(other for other in self._waiting if other is not item)

    def serve_next(self) -> Work | None:
        """Begin to serve the first item; None if nobody waits."""
        if not self._waiting:
            return None
        self._is_busy = True
        return self._waiting.popleft()

    def served(self, took_s: float) -> None:
        """The item being served is done after `took_s`; the mean of recent ones estimates the wait."""
        self._is_busy = False
        self._mean_s = took_s if self._mean_s == 0 else 0.8 * self._mean_s + 0.2 * took_s


class Ticket(Generic[Work, Event]):
    """One submitted piece of work; iterate over it once for its events, then `close` it.

    Closing it before the end stops the work before its next event.
    """

    def __init__(self, scheduler: Scheduler[Work, Event], work: Work) -> None:
        self.work = work
        self.is_closed = False
        self._scheduler = scheduler
        self._loop = asyncio.get_running_loop()
        self._events: asyncio.Queue[Event | BaseException | None] = asyncio.Queue()

    async def __aiter__(self) -> AsyncIterator[Event]:
        """Yield events as they come; raises what the work raised."""
        while (event := await self._events.get()) is not None:
            if isinstance(event, BaseException):
                raise event
            yield event

    def close(self) -> None:
        """Give up the place in the line or stop the work. Returns at once; harmless when all is done."""
        self.is_closed = True
        self._scheduler.forget(self)

    def put(self, event: Event | BaseException | None) -> None:
        """Hand over an event from the worker thread; None is the end."""
        if self.is_closed:
            return
        try:
            self._loop.call_soon_threadsafe(self._events.put_nowait, event)
        except RuntimeError:  # the loop is closed: nobody is left to tell
            self.is_closed = True


class Scheduler(Generic[Work, Event]):
    """Runs one piece of work at a time on its own thread, in the order of arrival.

    Args:
        run: Does one piece of work, yielding events; closed early when its ticket is.
        max_waiting: How many may wait besides the one that runs.
        clock: Monotonic seconds, for the estimate in `LineFullError`.
    """

    def __init__(
        self, run: Callable[[Work], Generator[Event]], *, max_waiting: int, clock: Callable[[], float]
    ) -> None:
        self._run = run
        self._clock = clock
        self._line: Line[Ticket[Work, Event]] = Line(max_waiting)
        self._changed = threading.Condition()
        self._is_closed = False
        # A daemon: a step of the model cannot be interrupted, and must not keep a stopped process alive.
        self._thread = threading.Thread(target=self._serve, name="engine-worker", daemon=True)
        self._thread.start()

    def submit(self, work: Work) -> Ticket[Work, Event]:
        """Join the line, from the event loop's thread.

        Raises:
            LineFullError: The line is full.
        """
        ticket = Ticket(self, work)
        with self._changed:
            if self._is_closed:
                ticket.put(None)
            else:
                self._line.join(ticket)
                self._changed.notify()
        return ticket

    def forget(self, ticket: Ticket[Work, Event]) -> None:
        """Free the place of a ticket that still waits."""
        with self._changed:
            self._line.leave(ticket)

    def close(self) -> None:
        """Start no further work and let the thread end after the present step; open tickets just end."""
        with self._changed:
            self._is_closed = True
            while (ticket := self._line.serve_next()) is not None:
                ticket.put(None)
            self._changed.notify()

    def _next(self) -> Ticket[Work, Event] | None:
        with self._changed:
            while not self._is_closed:
                ticket = self._line.serve_next()
                if ticket is not None:
                    return ticket
                self._changed.wait()
        return None

    def _serve(self) -> None:
        while (ticket := self._next()) is not None:
            began_at = self._clock()
            try:
                with closing(self._run(ticket.work)) as events:
                    for event in events:
                        if ticket.is_closed or self._is_closed:
                            break
                        ticket.put(event)
            except Exception as exc:  # noqa: BLE001 - whatever failed belongs to the requester, not to the thread
                ticket.put(exc)
            ticket.put(None)
            with self._changed:
                self._line.served(self._clock() - began_at)
