"""The two ends of one piece of work: the engine's thread puts events in, the event loop takes them out."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from openclaw_cache.engine.chat import Event, Work


class WorkTicket:
    """One submitted piece of work. Made on the event loop's thread; iterate over it once, then `close` it.

    Closing it before the end stops the work before its next event.

    Args:
        work: What is asked for.
        on_close: Told that nobody waits for it any more.
    """

    def __init__(self, work: Work, on_close: Callable[[WorkTicket], None]) -> None:
        self.work = work
        self.is_closed = False
        self._on_close = on_close
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
        self._on_close(self)

    def put(self, event: Event | BaseException | None) -> None:
        """Hand over an event from the engine's thread; None is the end."""
        if self.is_closed:
            return
        try:
            self._loop.call_soon_threadsafe(self._events.put_nowait, event)
        except RuntimeError:  # the loop is closed: nobody is left to tell
            self.is_closed = True
