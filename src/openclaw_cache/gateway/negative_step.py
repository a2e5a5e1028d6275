"""A request to an upstream that has just failed it: answered with that failure again, or sent and watched."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from blake3 import blake3

from openclaw_cache.errors import RequestError
from openclaw_cache.gateway import headers as header_rules
from openclaw_cache.gateway.call import CACHE_NAME, Call, Outcome
from openclaw_cache.gateway.flight import Source
from openclaw_cache.gateway.negative import MOST_BODY_BYTES, STATUSES, UNREACHABLE, Failure, Failures
from openclaw_cache.gateway.policy import Control
from openclaw_cache.observe.metrics import Metrics
from openclaw_cache.types import Headers, Namespace

Send = Callable[[], Awaitable[Source]]


@dataclass(slots=True)
class NegativeStep:
    """Stands between a flight and the call to its upstream.

    Args:
        failures: What failed a moment ago.
        metrics: Where repeated failures are counted.
        clock: Monotonic seconds.
        wall: Unix seconds.
    """

    failures: Failures
    metrics: Metrics
    clock: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time

    def guarded(
        self, call: Call, name: Callable[[], bytes], outcome: Outcome, sender: Callable[[bool], Send]
    ) -> Send:
        """What a flight is to call: its upstream, or what repeats the failure that this request had a moment ago.

        Args:
            call: the request.
            name: what tells it from all others (`request_name`), asked for only where something fails.
            outcome: told where a failure is repeated.
            sender: makes the call to the upstream; told whether that may repeat a refused call by itself, which is
                not done where the client does so already.
        """
        failures = self.failures
        if not failures.is_on:
            return sender(True)
        now, control = self.clock(), Control.parse(call.headers)
        failure = failures.known(name(), now) if len(failures) else None
        may_answer = failure is not None and call.may_read and not control.no_cache
        if failure is not None and may_answer and _is_fresh(failure, now, control):
            self.metrics.negative_hits.inc()
            outcome.detail, outcome.age_s = "negative", int(now - failure.failed_at)
            outcome.cache_status = f"{CACHE_NAME}; hit; detail=negative"
            return _repeating(failure, now)
        send = sender(failure is None)
        return self._watched(send, name, keeps=call.may_write and not control.no_store)

    def _watched(self, send: Send, name: Callable[[], bytes], *, keeps: bool) -> Send:
        async def watched() -> Source:
            try:
                source = await send()
            except RequestError as e:
                if keeps and e.code == UNREACHABLE:
                    self.failures.unreached(name(), e, self.clock())
                raise
            if source.status not in STATUSES:
                if len(self.failures):
                    self.failures.forget(name())
                return source
            return _Watched(source, self._kept(name(), source)) if keeps else source

        return watched

    def _kept(self, name: bytes, source: Source) -> Callable[[bytes], None]:
        """Keeps a failure once its body is whole; its time counts from now, as its head has come."""
        now, wall_at = self.clock(), self.wall()
        return lambda body: self.failures.replied(name, source.status, source.headers, body, now, wall_at)


def request_name(client: Namespace, upstream: str, call: Call, body_hash: bytes, *more: bytes) -> bytes:
    """What tells a request from all others, and its client too. Only while this process lives, so without a secret.

    Args:
        client: who asks, by all that it shows (`Dispatch.client`).
        upstream: who is asked.
        call: the request.
        body_hash: BLAKE3 of its canonical body; empty where it has none, then its bytes count.
        more: what else must be equal.
    """
    hasher = blake3(b"openclaw-cache request name v1")
    body = body_hash or blake3(call.raw).digest()
    fields = [
        client.encode(),
        upstream.encode(),
        call.path.encode(),
        call.query,
        body,
        b"%d" % len(more),
        *more,
    ]
    for header in header_rules.keyed(call.headers):
        fields += header
    for one in fields:
        hasher.update(b"%d:" % len(one)).update(one)
    return hasher.digest()


def _is_fresh(failure: Failure, now: float, control: Control) -> bool:
    left_s = failure.expires_at - now
    return left_s > 0 and control.accepts(now - failure.failed_at, left_s)


def _repeating(failure: Failure, now: float) -> Send:
    async def repeat() -> Source:
        error = failure.error
        if error is not None:  # a new one: an exception remembers who raised it
            raise RequestError(
                error.status, error.message, kind=error.kind, code=error.code, param=error.param
            )
        return _Repeated(failure, now)

    return repeat


class _Repeated:
    """An upstream's failure as if it came again (`flight.Source`)."""

    is_ok = False
    is_event_stream = False

    def __init__(self, failure: Failure, now: float) -> None:
        self.status = failure.status
        self.headers: Headers = failure.headers_at(now)
        self.is_encoded = any(name == b"content-encoding" for name, _ in self.headers)
        self._body = failure.body

    async def read(self) -> bytes:
        """The body, then nothing."""
        body, self._body = self._body, b""
        return body

    def finish(self) -> None:
        """Nothing to do."""

    def close(self) -> None:
        """Nothing to do."""


class _Watched:
    """An upstream's failure on its way (`flight.Source`), kept once it is whole."""

    def __init__(self, source: Source, keep: Callable[[bytes], None]) -> None:
        self.status = source.status
        self.headers = source.headers
        self.is_ok = source.is_ok
        self.is_event_stream = source.is_event_stream
        self.is_encoded = source.is_encoded
        self._source = source
        self._keep = keep
        self._body = bytearray()

    async def read(self) -> bytes:
        """The next bytes; b"" at the end. Raises RequestError."""
        part = await self._source.read()
        if len(self._body) <= MOST_BODY_BYTES:
            self._body += part
        if not part and len(self._body) <= MOST_BODY_BYTES:
            self._keep(bytes(self._body))
        return part

    def finish(self) -> None:
        """Nothing more is wanted; the connection may be reused."""
        self._source.finish()

    def close(self) -> None:
        """Drop the connection."""
        self._source.close()
