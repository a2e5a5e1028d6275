"""What one API key may use over time: requests, tokens, requests at the same time. Pure: the time is a parameter."""

from __future__ import annotations

from openclaw_cache.api.sliding_count import SlidingCount
from openclaw_cache.errors import RequestError
from openclaw_cache.settings import Budgets

MOST_TOKENS_OF_A_REPLY = 10**12
"""More than any reply has; an upstream that reports nonsense cannot push a count past 64 bits."""


def minute_count() -> SlidingCount:
    """A count over a minute, exact to 1 s."""
    return SlidingCount(60, 60)


def day_count() -> SlidingCount:
    """A count over a day, exact to 15 min."""
    return SlidingCount(86_400, 96)


class Budget:
    """The budgets of one API key and what it has used of them, in at most 9 kB. Times are Unix time.

    A request is admitted while every budget has something left and is never cut off later. So tokens may overshoot
    by what the requests in the air use: with `max_concurrent` N, by the tokens of N requests. Refused requests
    count for nothing.

    Args:
        limits: The budgets.
        tokens_per_day: The count of the day, which its owner may keep across restarts.
    """

    def __init__(self, limits: Budgets, tokens_per_day: SlidingCount) -> None:
        self.limits = limits
        """May be changed at any time: counts go on, and the next request is held against the new ones."""
        self.num_running = 0
        self._requests = minute_count()
        self._tokens = minute_count()
        self._day_tokens = tokens_per_day

    @property
    def counts_tokens(self) -> bool:
        """Whether any of the budgets is one of tokens."""
        return self.limits.tokens_per_minute is not None or self.limits.tokens_per_day is not None

    def admit(self, now: float) -> None:
        """Count one request that begins; `release` has to follow, once, whatever becomes of it.

        Raises:
            RequestError: 429 `budget_exhausted` with the time after which there is something left, or
                `too_many_concurrent`. Nothing was counted then.
        """
        waits = [(count.wait_s(now, limit), name, limit) for name, count, limit in self._counted()]
        wait_s, name, limit = max(waits, default=(0, "", 0))
        if wait_s > 0:
            raise RequestError(
                429,
                f"this API key's budget {name} ({limit}) is used up: try again in {wait_s} s",
                kind="rate_limit_error",
                code="budget_exhausted",
                retry_after_s=wait_s,
            )
        most = self.limits.max_concurrent
        if most is not None and self.num_running >= most:
            raise RequestError(
                429,
                f"this API key's budget max_concurrent ({most}) is used up: "
                "try again when one of its requests has ended",
                kind="rate_limit_error",
                code="too_many_concurrent",
                retry_after_s=1,
            )
        self._requests.add(now, 1)
        self.num_running += 1

    def release(self) -> None:
        """A request that was admitted has ended."""
        self.num_running -= 1

    def spend(self, now: float, num_tokens: int) -> None:
        """Count the tokens that a reply has cost; less than 0 counts as 0."""
        used = min(max(num_tokens, 0), MOST_TOKENS_OF_A_REPLY)
        self._tokens.add(now, used)
        self._day_tokens.add(now, used)

    def state(self, now: float) -> dict[str, dict[str, int]]:
        """Each budget that is set → what is used of it, and its limit."""
        shown = {name: {"used": count.sum(now), "limit": limit} for name, count, limit in self._counted()}
        if self.limits.max_concurrent is not None:
            shown["max_concurrent"] = {"used": self.num_running, "limit": self.limits.max_concurrent}
        return shown

    def _counted(self) -> list[tuple[str, SlidingCount, int]]:
        limits = self.limits
        every = (
            ("requests_per_minute", self._requests, limits.requests_per_minute),
            ("tokens_per_minute", self._tokens, limits.tokens_per_minute),
            ("tokens_per_day", self._day_tokens, limits.tokens_per_day),
        )
        return [(name, count, limit) for name, count, limit in every if limit is not None]
