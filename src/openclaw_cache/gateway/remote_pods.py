"""The pods behind an upstream's urls: which of them takes the next request. Pure: the time is a parameter."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from openclaw_cache.gateway.ejection import Ejection
from openclaw_cache.types import Json

DEFAULT_BUSY_S = 1.0
MAX_BUSY_S = 60.0
FAILED_STATUSES = frozenset({502, 503, 504})
"""What a proxy or a dying server says: the request was not served, and it is not the request's fault."""


@dataclass(slots=True, eq=False)
class RemotePod:
    """One url of an upstream."""

    url: str
    weight: int = 1
    ejection: Ejection = field(default_factory=Ejection)
    busy_until: float = 0.0
    """The pod asked not to be called before: others go first, but it is not ejected."""
    last_error: str | None = None
    """What went wrong last, an error's class or a status; None after a success."""
    credit: int = 0
    """Its standing in the smooth weighted round robin."""

    def answered(self, status: int, retry_after: str | None, now: float) -> None:
        """Take note of a reply's head. A 503 with Retry-After says busy, which is no failure.

        A 429 is no news about the pod: it is most often about one client's credential.
        """
        if status not in FAILED_STATUSES:
            self.ejection.succeed()
            self.last_error = None
        elif status == 503 and retry_after is not None:
            self.ejection.succeed()
            self.last_error = str(status)
            self.busy_until = now + _busy_s(retry_after)
        else:
            self.failed(str(status), now)

    def failed(self, error: str, now: float, *, at_once: bool = False) -> None:
        """Take note of a failed request or probe."""
        self.last_error = error
        self.ejection.fail(now, at_once=at_once)

    def status(self, now: float) -> dict[str, Json]:
        """What an operator sees."""
        ends_at = self.ejection.ends_at
        return {
            "url": self.url,
            "weight": self.weight,
            "state": self.ejection.state(now),
            "num_failures": self.ejection.num_failures,
            "ejected_for_s": 0.0 if ends_at is None else round(max(0.0, ends_at - now), 3),
            "last_error": self.last_error,
        }


class RemotePods:
    """All pods of one upstream."""

    def __init__(self, pods: Iterable[RemotePod]) -> None:
        self.pods = list(pods)

    def __len__(self) -> int:
        return len(self.pods)

    def choose(self, now: float, tried: Collection[RemotePod] = ()) -> RemotePod:
        """The pod for the next request, by smooth weighted round robin. O(number of pods).

        Pods that `tried` names come last, before them those that are ejected, before those the ones that are busy.
        Where all are ejected, the one whose ejection ends first is tried all the same.
        """
        if len(self.pods) == 1:
            return self.pods[0]
        untried = [pod for pod in self.pods if pod not in tried] or self.pods
        able = [pod for pod in untried if pod.ejection.admits(now)]
        if not able:
            return min(untried, key=lambda pod: pod.ejection.ends_at or now)
        return _next_by_weight([pod for pod in able if pod.busy_until <= now] or able)

    def has_other(self, now: float, tried: Collection[RemotePod]) -> bool:
        """Whether a pod that is neither tried nor ejected is left."""
        return any(pod not in tried and pod.ejection.admits(now) for pod in self.pods)

    def admits(self, now: float) -> bool:
        """Whether any pod may take a request."""
        return any(pod.ejection.admits(now) for pod in self.pods)

    def to_probe(self, now: float) -> list[RemotePod]:
        """The pods whose health is worth asking for.

        Not those within their ejection; and of an upstream's only pod requests tell enough while it is up.
        """
        states = ("probing",) if len(self.pods) == 1 else ("up", "probing")
        return [pod for pod in self.pods if pod.ejection.state(now) in states]


def _next_by_weight(pods: list[RemotePod]) -> RemotePod:
    """Weights 5, 1, 1 give a a b a c a a, never five in a row (the way of nginx)."""
    for pod in pods:
        pod.credit += pod.weight
    chosen = max(pods, key=lambda pod: pod.credit)
    chosen.credit -= sum(pod.weight for pod in pods)
    return chosen


def _busy_s(retry_after: str) -> float:
    try:
        asked_s = float(retry_after)
    except ValueError:  # a date: how far the clocks are apart nobody knows
        return DEFAULT_BUSY_S
    return min(asked_s, MAX_BUSY_S) if asked_s >= 0 else DEFAULT_BUSY_S
