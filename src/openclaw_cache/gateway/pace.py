"""How fast the tokens of a streamed reply come: ITL, the seconds from one to the next."""

from __future__ import annotations

import time
from collections.abc import Callable

from openclaw_cache.observe.histogram import Seconds


class Pace:
    """Seconds between the events of one stream that bring something of the reply, as its upstream sends them.

    Several of them that come in one read share the time since the read before. The first read's have no time before
    them: what passed until then is the TTFT. So `num` is the events after the first read, and `sum_s` is the time from
    the first read to the last one. A flight is read as fast as its fastest reader takes it; one that stops reading
    stops the clock for nobody.

    Args:
        intervals: Takes every interval.
        clock: Seconds that never go back.
    """

    __slots__ = ("_clock", "_intervals", "_last_at", "_num_seen", "num", "sum_s")

    def __init__(
        self, intervals: Seconds | None = None, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._intervals = intervals
        self._clock = clock
        self._num_seen = 0
        self._last_at = 0.0
        self.num = 0
        self.sum_s = 0.0

    def note(self, num_pieces: int) -> None:
        """A read has ended, and so many events have brought something since the stream began."""
        num_new = num_pieces - self._num_seen
        if num_new <= 0:
            return
        now = self._clock()
        if self._num_seen:
            took_s = now - self._last_at
            self.num += num_new
            self.sum_s += took_s
            if self._intervals is not None:
                self._intervals.observe(took_s / num_new, num_new)
        self._num_seen, self._last_at = num_pieces, now
