"""Failures of upstreams, remembered for a moment, so that a client that asks again and again does not reach them.

A client that retries sends the very same request. What is remembered is the upstream's own reply to it, for as long as
that said (`Retry-After`), or else, from the second failure in a row on, for a moment that doubles with each. Pure: time
is a parameter.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass, replace
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final

from openclaw_cache.errors import RequestError
from openclaw_cache.types import Headers

STATUSES: Final = frozenset({429, 500, 502, 503, 504, 529})
"""What an upstream answers that cannot, or may not, now. What a client did wrong it learns anew each time."""

UNREACHABLE: Final = "upstream_unreachable"

SECOND_TTL_S: Final = 0.5
"""How long a second failure is repeated; each further one twice as long. A first one never is: most failures are over
at once, and the pauses of clients that back off as usual (0.5 s, 1 s, 2 s, …) are never cut short.
"""

MOST_RETRY_AFTER_S: Final = 60.0
"""An upstream's own word counts for no longer: it may have recovered before."""

MEMORY_S: Final = 60.0
"""How long after its failure a request is still known to have failed."""

MOST_BODY_BYTES: Final = 64 * 2**10
"""An error that is longer is passed on and not kept."""

_OWN_BYTES: Final = 512
_RETRY_AFTER: Final = b"retry-after"
_RETRY_AFTER_MS: Final = b"retry-after-ms"


@dataclass(frozen=True, slots=True)
class Failure:
    """How an upstream failed: its reply, or why it could not be reached. Times are of one clock, in seconds."""

    failed_at: float
    expires_at: float
    num_failures: int
    status: int = 0
    headers: Headers | None = None
    body: bytes = b""
    error: RequestError | None = None

    @property
    def num_bytes(self) -> int:
        """What it takes of memory, about."""
        return _OWN_BYTES + len(self.body) + sum(len(n) + len(v) for n, v in self.headers or ())

    def headers_at(self, now: float) -> Headers:
        """Its headers; a time to wait is what is left of it."""
        return [(n, _left(n, v, now - self.failed_at)) for n, v in self.headers or ()]


class Failures:
    """The last failure of each request that failed a moment ago, by the request's name.

    Args:
        most_ttl_s: The longest that one is repeated where the upstream did not say how long; 0 = nothing is kept.
        most: How many are kept. The oldest goes first.
        most_bytes: What all of them may take.
    """

    def __init__(self, most_ttl_s: float, *, most: int = 4096, most_bytes: int = 8 * 2**20) -> None:
        self._most_ttl_s = most_ttl_s
        self._most = most
        self._most_bytes = most_bytes
        self._by_name: OrderedDict[bytes, Failure] = OrderedDict()
        self.num_bytes = 0

    def __len__(self) -> int:
        return len(self._by_name)

    @property
    def is_on(self) -> bool:
        """Whether anything is kept."""
        return self._most_ttl_s > 0

    def known(self, name: bytes, now: float) -> Failure | None:
        """How this request failed last, if that was not long ago. It may answer only until it expires."""
        failure = self._by_name.get(name)
        if failure is not None and now >= _forgotten_at(failure):
            self.forget(name)
            return None
        return failure

    def replied(
        self, name: bytes, status: int, headers: Headers, body: bytes, now: float, wall_at: float
    ) -> None:
        """Keep an upstream's reply with one of `STATUSES`, which came at `now`, in unix seconds `wall_at`."""
        asked_s = retry_after_s(headers, wall_at)
        self._keep(name, Failure(now, now, 0, status, headers, body), asked_s)

    def unreached(self, name: bytes, error: RequestError, now: float) -> None:
        """Keep that the upstream could not be reached."""
        self._keep(name, Failure(now, now, 0, error.status, error=error), error.retry_after_s)

    def forget(self, name: bytes) -> None:
        """The request did not fail, or failed in another way."""
        failure = self._by_name.pop(name, None)
        if failure is not None:
            self.num_bytes -= failure.num_bytes

    def clear(self) -> None:
        """Forget all."""
        self._by_name.clear()
        self.num_bytes = 0

    def _keep(self, name: bytes, failure: Failure, asked_s: float | None) -> None:
        if not self.is_on:
            return
        now = failure.failed_at
        before = self.known(name, now)
        num_failures = 1 + (before.num_failures if before is not None else 0)
        ttl_s = self._ttl_s(num_failures) if asked_s is None else min(asked_s, MOST_RETRY_AFTER_S)
        self.forget(name)
        kept = replace(failure, num_failures=num_failures, expires_at=now + ttl_s)
        self._by_name[name] = kept
        self.num_bytes += kept.num_bytes
        while len(self._by_name) > self._most or self.num_bytes > self._most_bytes:
            self.forget(next(iter(self._by_name)))

    def _ttl_s(self, num_failures: int) -> float:
        if num_failures < 2:
            return 0.0
        return min(SECOND_TTL_S * 2.0 ** min(num_failures - 2, 16), self._most_ttl_s)


def _forgotten_at(failure: Failure) -> float:
    return max(failure.expires_at, failure.failed_at + MEMORY_S)


def retry_after_s(headers: Headers, wall_at: float) -> float | None:
    """How long an upstream asks to be left alone (RFC 9110 §10.2.3); None where it does not say, or nothing sensible.

    `retry-after-ms`, which OpenAI and Azure send too, is the more exact one. A date counts from the reply's own `Date`
    where it has one, so that two clocks need not agree.

    Args:
        headers: those of its reply.
        wall_at: when that came, in unix seconds.
    """
    told = dict(reversed(headers))  # of a repeated header the first counts
    exact_ms = _seconds(told.get(_RETRY_AFTER_MS, b""))
    if exact_ms is not None:
        return exact_ms / 1e3
    value = told.get(_RETRY_AFTER)
    if value is None:
        return None
    seconds = _seconds(value)
    if seconds is not None:
        return seconds
    until_at, sent_at = _date(value), _date(told.get(b"date", b""))
    return None if until_at is None else max(0.0, until_at - (wall_at if sent_at is None else sent_at))


def _seconds(value: bytes) -> float | None:
    try:
        seconds = float(value)
    except ValueError:
        return None
    return seconds if 0 <= seconds < math.inf else None


def _date(value: bytes) -> float | None:
    try:
        at = parsedate_to_datetime(value.decode("latin-1"))
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()  # HTTP knows no other zone
    except (ValueError, OverflowError):
        return None


def _left(name: bytes, value: bytes, elapsed_s: float) -> bytes:
    """A header after so long: what is left of a time to wait, all else as it came. A date stays right by itself."""
    if name not in (_RETRY_AFTER, _RETRY_AFTER_MS):
        return value
    told = _seconds(value)
    if told is None:
        return value
    elapsed = elapsed_s * (1e3 if name == _RETRY_AFTER_MS else 1)
    return b"%d" % math.ceil(max(0.0, told - elapsed))
