"""Whether a tier may be used: it is left alone for a while after it failed. Pure."""

from __future__ import annotations

from typing import Final

_NUM_FAILURES: Final = 3
_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 60.0


class Health:
    """A circuit breaker.

    Three failures in a row, or one hang, turn the tier off for a second. After the pause it is on trial: the
    next failure turns it off again for twice as long (up to a minute), the next success ends the trial.
    """

    def __init__(self) -> None:
        self._num_in_a_row = 0
        self._pause_s = _FIRST_PAUSE_S
        self._off_until = float("-inf")

    def is_alive(self, now: float) -> bool:
        """Whether the tier may be asked now."""
        return now >= self._off_until

    def succeed(self) -> None:
        """The tier did what was asked."""
        self._num_in_a_row = 0
        self._pause_s = _FIRST_PAUSE_S
        self._off_until = float("-inf")

    def fail(self, now: float) -> bool:
        """The tier failed. Returns whether that turned it off."""
        self._num_in_a_row += 1
        return self._num_in_a_row >= _NUM_FAILURES and self._turn_off(now)

    def hang(self, now: float) -> bool:
        """The tier did not answer in time. Returns whether that turned it off."""
        self._num_in_a_row = _NUM_FAILURES
        return self._turn_off(now)

    def _turn_off(self, now: float) -> bool:
        if not self.is_alive(now):  # it failed at what had been asked before
            return False
        self._off_until = now + self._pause_s
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
        return True
