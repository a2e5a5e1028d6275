"""The prefix cache with a watch: how long look-ups and updates take the engine's thread."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from openclaw_cache.kv.cache import PrefixCache
from openclaw_cache.observe.histogram import LATENCY_BUCKETS, Seconds

if TYPE_CHECKING:
    from openclaw_cache.kv.hold import Hold
    from openclaw_cache.kv.node import Int32s
    from openclaw_cache.types import Json


class TimedCache(PrefixCache):
    """Measures the look-ups that count, each once, and the commits that put something into the tree."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._lookup_seconds = Seconds(LATENCY_BUCKETS)
        self._update_seconds = Seconds(LATENCY_BUCKETS)

    def acquire(
        self,
        salt: bytes,
        tokens: Int32s,
        *,
        most_cached: int,
        is_volatile: bool = False,
        keeps_reserve: bool = False,
        counts: bool = True,
    ) -> Hold | None:
        """See `PrefixCache.acquire`."""
        began = time.perf_counter()
        hold = super().acquire(
            salt,
            tokens,
            most_cached=most_cached,
            is_volatile=is_volatile,
            keeps_reserve=keeps_reserve,
            counts=counts,
        )
        if hold is not None and counts:
            self._lookup_seconds.observe(time.perf_counter() - began)
        return hold

    def commit(self, hold: Hold, tokens: Int32s) -> None:
        """See `PrefixCache.commit`."""
        began, num_before = time.perf_counter(), hold.num_committed
        super().commit(hold, tokens)
        if hold.num_committed > num_before:
            self._update_seconds.observe(time.perf_counter() - began)

    def figures(self) -> dict[str, Json]:
        """How long both took: how many in each of `LATENCY_BUCKETS`, and the sum of seconds."""
        shown: dict[str, Json] = {}
        for name, seconds in (("lookup_s", self._lookup_seconds), ("update_s", self._update_seconds)):
            nums, sum_s = seconds.counts()
            shown[name] = {"nums": nums, "sum": sum_s}
        return shown
