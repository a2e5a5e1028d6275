"""When a call to an upstream is repeated. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

MAX_RETRY_WAIT_S = 2.0
"""A 429 or 503 that asks for a longer pause is the client's to see."""

DEFAULT_RETRY_WAIT_S = 0.25
MIN_ENGINE_RETRIES = 2
"""A dying engine: first its kept connections break, then new ones, then its successor answers."""


class Cause(Enum):
    """Why an attempt got no reply."""

    UNREACHED = auto()
    """No connection could be made: nothing was computed."""
    STALE = auto()
    """A kept connection closed before it answered. That is HTTP's own race, not a sick pod."""
    BROKEN = auto()
    """A new connection broke, or what came is no HTTP reply. Something may have been computed."""
    SLOW = auto()
    """No head within the timeout."""


@dataclass(slots=True)
class Tries:
    """The attempts of one call.

    Args:
        retries: How often the operator lets a call be repeated that an upstream has got.
        num_pods: Each pod may be found out of reach once, whatever `retries` says.
        repeatable: Whether the call leaves nothing behind upstream, so that computing it twice does no harm.
        is_engine: It goes to an embedded engine. What that had computed dies with it.
        waits: Whether a pod that refuses it may be asked again after a pause.
    """

    retries: int
    num_pods: int = 1
    repeatable: bool = True
    is_engine: bool = False
    waits: bool = True
    num_repeats: int = 0
    num_failures: int = 0
    was_stale: bool = False

    def after_failure(self, cause: Cause, *, has_other: bool) -> bool:
        """Whether another attempt may follow one that got no reply."""
        if self.is_engine:
            return cause is not Cause.SLOW and self._may_fail_again(MIN_ENGINE_RETRIES)
        if cause is Cause.UNREACHED:
            return self._may_fail_again(self.num_pods - 1)
        if cause is Cause.STALE:
            was_stale, self.was_stale = self.was_stale, True
            return not was_stale
        return cause is Cause.BROKEN and self.repeatable and has_other and self._may_repeat()

    def after_answer(self, status: int, retry_after: str | None, *, has_other: bool) -> float | None:
        """Seconds to wait before the next attempt; None where this reply is the client's.

        429 and 503 refuse a call: nothing was computed. 502 and 504 may come from a proxy whose pod goes on.
        """
        if status in (429, 503):
            pause_s = 0.0 if has_other else _asked_pause_s(retry_after) if self.waits else None
        elif status in (502, 504) and self.repeatable and has_other:
            pause_s = 0.0
        else:
            return None
        return pause_s if pause_s is not None and self._may_repeat() else None

    def _may_repeat(self) -> bool:
        self.num_repeats += 1
        return self.num_repeats <= self.retries

    def _may_fail_again(self, at_least: int) -> bool:
        self.num_failures += 1
        return self.num_failures <= max(self.retries, at_least)


def _asked_pause_s(retry_after: str | None) -> float | None:
    try:
        pause_s = DEFAULT_RETRY_WAIT_S if retry_after is None else float(retry_after)
    except ValueError:
        return None
    return pause_s if 0 <= pause_s <= MAX_RETRY_WAIT_S else None
