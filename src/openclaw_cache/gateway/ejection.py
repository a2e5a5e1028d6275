"""When a pod that fails is left out, for how long, and how it comes back. Pure: the time is a parameter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

MAX_FAILURES = 3
"""Failures in a row that eject. One is enough where no connection could be made."""

FIRST_EJECTION_S = 1.0
MAX_EJECTION_S = 60.0

State = Literal["up", "ejected", "probing"]


@dataclass(slots=True)
class Ejection:
    """The health of one pod.

    Up, it takes every request. Ejected, it takes none until `ends_at`. After that it is on probation: one request
    at a time may try it, or a probe. Each further ejection is twice as long, until a request succeeds.
    """

    num_failures: int = 0
    """Failures in a row."""
    num_ejections: int = 0
    """Ejections since a request last succeeded."""
    ends_at: float | None = None
    """When the ejection ends or ended; None while the pod is up."""
    has_trial: bool = False
    """Whether a request is trying the pod after its ejection."""

    def state(self, now: float) -> State:
        """What the pod is at this time."""
        if self.ends_at is None:
            return "up"
        return "ejected" if now < self.ends_at else "probing"

    def admits(self, now: float) -> bool:
        """Whether a request may go to the pod."""
        return self.ends_at is None or (now >= self.ends_at and not self.has_trial)

    def begin(self, now: float) -> bool:
        """A request goes to the pod. True where it is the trial: then `end_trial` must follow in any case."""
        if self.ends_at is None or not self.admits(now):
            return False
        self.has_trial = True
        return True

    def end_trial(self) -> None:
        """The trial is over, whatever came of it."""
        self.has_trial = False

    def succeed(self) -> None:
        """A request was answered: everything is forgiven."""
        if self.num_failures or self.num_ejections:
            self.num_failures = self.num_ejections = 0
            self.ends_at = None

    def revive(self, now: float) -> None:
        """A probe was answered: the pod is up again, but how often it was ejected is not forgotten.

        A pod may answer probes and fail requests. Within an ejection this changes nothing.
        """
        if self.state(now) == "probing":
            self.num_failures = 0
            self.ends_at = None

    def fail(self, now: float, *, at_once: bool = False) -> None:
        """A request or probe failed. `at_once` ejects at the first failure.

        Within an ejection this adds nothing to it: those requests were on their way before, or had nowhere else
        to go.
        """
        self.num_failures += 1
        state = self.state(now)
        if state == "ejected" or (state == "up" and self.num_failures < MAX_FAILURES and not at_once):
            return
        self.ends_at = now + min(FIRST_EJECTION_S * 2 ** min(self.num_ejections, 10), MAX_EJECTION_S)
        self.num_ejections += 1
