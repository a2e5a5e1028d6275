"""The one order of steps between a request and its reply.

decode → plan → result cache → semantic cache → single flight → upstream → (complete replies only) result cache.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

import orjson

from openclaw_cache.dialects.dialect import Dialect
from openclaw_cache.dialects.request import Request
from openclaw_cache.dialects.usage import Usage
from openclaw_cache.errors import RequestError
from openclaw_cache.gateway.call import CACHE_NAME, Call, Following, Invalidation, Outcome, Ready
from openclaw_cache.gateway.dispatch import Dispatch, is_free
from openclaw_cache.gateway.flight import Flight, Source, Transcript
from openclaw_cache.gateway.flights import Flights
from openclaw_cache.gateway.identity import identify
from openclaw_cache.gateway.inflight import InFlightBytes
from openclaw_cache.gateway.keys import Keys
from openclaw_cache.gateway.negative_step import NegativeStep, request_name
from openclaw_cache.gateway.policy import Bypass, Cacheable, Control, Policy, Reason, plan, restricted
from openclaw_cache.gateway.reading import Reading, Readings
from openclaw_cache.gateway.recorder import Recorder
from openclaw_cache.gateway.same_run import run_of
from openclaw_cache.gateway.semantic.look import Asking, Look
from openclaw_cache.gateway.transcript import EventTranscript, PlainTranscript
from openclaw_cache.gateway.upstream import Upstream
from openclaw_cache.observe.metrics import Metrics
from openclaw_cache.result.cache import ResultCache
from openclaw_cache.result.key import decode
from openclaw_cache.result.versions import Epochs
from openclaw_cache.types import CacheKey, Entry, Identity, Json, Namespace

if TYPE_CHECKING:
    from openclaw_cache.gateway.semantic.step import SemanticStep

T = TypeVar("T")


@dataclass(slots=True)
class Gateway:
    """Answers requests. Owns no I/O itself: upstreams and the result cache do."""

    dispatch: Dispatch
    cache: ResultCache
    keys: Keys
    epochs: Epochs
    policy: Policy
    readings: Readings
    metrics: Metrics
    inflight: InFlightBytes
    negative: NegativeStep
    ttl_s: float = 86400.0
    store_timeout_s: float = 0.05
    """The most that the store may cost one request, all questions to it together."""
    on_degraded: Callable[[str], None] = lambda _what: None
    """Told of each failure that became a miss; counts it and logs the first."""
    wall: Callable[[], float] = time.time
    semantic: SemanticStep | None = None
    flights: Flights = field(default_factory=Flights)
    on_invalidate: Callable[[], None] = lambda: None
    """Closes what else is shared by requests in the air."""
    outdated_at: dict[str, float] = field(default_factory=dict)
    """When (monotonic seconds) replies of a model were last invalidated here."""

    async def answer(self, call: Call) -> Ready | Following:
        """Answer one request.

        Raises:
            RequestError: what the client did wrong, or 504 for an unmet `only-if-cached`.
        """
        reading, value = await self.readings.read(call.raw, self.dispatch.client(call), call.dialect)
        request = reading.request
        identity = identify(call.headers, reading.labels)
        if call.strict and reading.ambiguity:
            raise ambiguous(reading.ambiguity)
        call.check(request.model, identity)
        upstreams = self.dispatch.candidates(request.model, call.dialect.name, call.dialect.vendor, call)
        upstream = upstreams[0]
        namespace = self.dispatch.namespace(call, upstream)
        control = Control.parse(call.headers)
        planned = restricted(
            plan(request, reading.reason, control), may_read=call.may_read, may_write=call.may_write
        )
        uses_cache = planned.reads or planned.writes
        model_identity = await upstream.model_identity() if uses_cache else ""
        began = time.perf_counter()
        make_key = None
        if uses_cache:
            make_key = await self.keys.maker(call, upstream, namespace, request.model, model_identity)
        key = None if make_key is None else make_key(reading.body_hash)
        outcome = Outcome(
            "miss",
            f"{CACHE_NAME}; fwd=miss",
            request.model,
            upstream.name,
            namespace,
            request.stream,
            identity,
        )
        if isinstance(planned, Bypass):
            outcome.bypass(planned.reason)
        elif key is None:
            outcome.bypass(Reason.DEGRADED)

        if key is not None and planned.reads:
            entry = await self._lookup(namespace, key, control, request, began)
            if entry is not None and (body_out := _wire_form(entry, request, call.dialect)) is not None:
                return self._hit(entry, body_out, outcome)
        look = Look()
        if key is not None and make_key is not None:
            asking = Asking(
                call, request, namespace, control, value, make_key, reads=planned.reads, writes=planned.writes
            )
            look = await self._by_meaning(asking, key, is_joinable=planned.joinable)
        if look.entry is not None and (body_out := _wire_form(look.entry, request, call.dialect)) is not None:
            self._verify(call, upstreams, reading, value, key, planned, outcome, look)
            return self._hit(look.entry, body_out, outcome, look)
        if control.only_if_cached:
            raise _not_cached()
        return self._follow(call, upstreams, reading, value, key, planned, outcome, look)

    async def _by_meaning(self, asking: Asking, key: CacheKey, *, is_joinable: bool) -> Look:
        """Look for the reply to a question that means the same; not where the very same is in the air already."""
        if self.semantic is None or (is_joinable and self.flights.find(key) is not None):
            return Look()
        return await self.semantic.look(asking)

    def _verify(
        self,
        call: Call,
        upstreams: Sequence[Upstream],
        reading: Reading,
        value: dict[str, Json] | None,
        key: CacheKey | None,
        planned: Cacheable | Bypass,
        outcome: Outcome,
        look: Look,
    ) -> None:
        """Have some of the replies that are given by meaning checked by the model, behind the client's back."""
        semantic = self.semantic
        if semantic is None or not semantic.verifier.takes(look, is_free=is_free(call, upstreams[0])):
            return
        following = self._follow(call, upstreams[:1], reading, value, key, planned, replace(outcome), look)
        semantic.verifier.verify(following, look)

    async def _lookup(
        self, namespace: Namespace, key: CacheKey, control: Control, request: Request, began: float
    ) -> Entry | None:
        now = self.wall()
        entry = self.cache.peek(key, now)
        if entry is None:
            # While the store was asked, the flight of an identical request may have landed in memory.
            left_s = self.store_timeout_s - (time.perf_counter() - began)
            fetched = await self._from_store(self.cache.fetch(namespace, key), left_s)
            entry = fetched or self.cache.peek(key, now)
        if entry is not None and (
            not control.accepts(now - entry.created_at, entry.expires_at - now)
            or (request.wants_usage and not entry.has_usage)
        ):
            entry = None
        self.metrics.result_lookup_seconds.observe(time.perf_counter() - began)
        self.metrics.hit_window.add(time.monotonic(), hit=entry is not None)
        return entry

    async def _from_store(self, asking: Awaitable[T | None], left_s: float) -> T | None:
        """What the store says, if it does within what is left of the request's one budget; else None, counted."""
        try:
            async with asyncio.timeout(left_s):
                return await asking
        except TimeoutError:
            self.on_degraded("store_unavailable")
            return None

    def _hit(self, entry: Entry, body: bytes, outcome: Outcome, look: Look | None = None) -> Ready:
        outcome.outcome, outcome.detail = "exact", ""
        outcome.cache_status = f"{CACHE_NAME}; hit; detail=exact"
        if look is not None and look.decision is not None:
            outcome.outcome = "semantic"
            outcome.cache_status = f"{CACHE_NAME}; hit; detail=semantic; key={look.decision.id}"
        outcome.age_s = max(0, int(self.wall() - entry.created_at))
        outcome.usage = Usage(
            entry.prompt_tokens, entry.completion_tokens, entry.cached_tokens, entry.cache_write_tokens
        )
        return Ready(outcome, body)

    async def invalidate(self, model: str) -> Invalidation:
        """Make every reply that `model` gave unreachable, whatever name it was asked for by.

        Cost: reads every stored entry once, to find the names. Raises StoreError; then nothing may be claimed.
        """
        serving = [u for u in self.dispatch.upstreams if u.serves(model)]
        names = {u.canonical_model(model) for u in serving} or {model}
        # A reply that is on its way now is older than this order: it must not be stored, not even while the names
        # are looked up, and nobody may join it, since the model that will have answered is not known yet.
        self.outdated_at[model] = time.monotonic()
        self.flights.close()
        self.negative.failures.clear()
        self.on_invalidate()
        names |= await self.cache.requested_as(model)
        durable = True
        for name in sorted(names):
            durable = (await self.epochs.bump(name)).durable and durable
        self.metrics.invalidations.labels("model").inc()
        return Invalidation(names=sorted(names), served=bool(serving), durable=durable)

    def _follow(
        self,
        call: Call,
        upstreams: Sequence[Upstream],
        reading: Reading,
        value: dict[str, Json] | None,
        key: CacheKey | None,
        planned: Cacheable | Bypass,
        outcome: Outcome,
        look: Look,
    ) -> Following:
        """Join the flight of an identical request, or start one."""
        dialect, upstream, request = call.dialect, upstreams[0], reading.request
        air_key = self._air_key(call, upstream, reading, key, planned, outcome.identity)
        joined = self.flights.find(air_key) if air_key is not None else None
        if joined is not None and _tells_usage_to(joined, request):
            outcome.outcome = "collapsed"
            outcome.cache_status += "; collapsed"
            return Following(outcome, joined.join(), request, dialect)

        @functools.cache
        def body() -> dict[str, Json]:
            # Bytes that were read before were not decoded again, and most requests never need it.
            return value if value is not None else decode(call.raw).value

        asks_usage = request.stream and not request.include_usage and upstream.ask_usage and planned.writes
        has_usage = asks_usage or request.include_usage
        recorder = self._recorder(call, upstream, request, key, planned, outcome, look, body, has_usage)

        def sender(waits: bool) -> Callable[[], Awaitable[Source]]:
            return self.dispatch.sender(
                call,
                upstreams,
                outcome,
                body=body,
                raw=dialect.ask_usage(call.raw, body()) if asks_usage else call.raw,
                is_repeatable=not request.state,
                answered_by=recorder.answered_by,
                waits=waits,
            )

        @functools.cache
        def name() -> bytes:
            return request_name(self.dispatch.client(call), upstream.name, call, reading.body_hash)

        send = self.negative.guarded(call, name, outcome, sender)
        flight = self._launch(send, recorder, air_key, streamed=request.stream)
        return Following(outcome, flight.join(), request, dialect)

    def _recorder(
        self,
        call: Call,
        upstream: Upstream,
        request: Request,
        key: CacheKey | None,
        planned: Cacheable | Bypass,
        outcome: Outcome,
        look: Look,
        body: Callable[[], dict[str, Json]],
        has_usage_event: bool,
    ) -> Recorder:
        """What a flight's reply is judged and kept by."""
        return Recorder(
            cache=self.cache if planned.writes else None,
            key=key,
            namespace=outcome.namespace,
            upstream=upstream.name,
            dialect=call.dialect,
            request=request,
            prompt=lambda: call.dialect.prompt_text(body()),
            ttl_s=self.ttl_s,
            wall=self.wall,
            asked_at=self.wall(),
            metrics=self.metrics,
            has_usage_event=has_usage_event,
            request_bytes=len(call.raw),
            own_engine=upstream.pod is not None,
            outdated_at=self.outdated_at,
            is_same_model=upstream.identity_check(),
            look=look,
            on_stored=self._learning(look, call.dialect),
        )

    def _air_key(
        self,
        call: Call,
        upstream: Upstream,
        reading: Reading,
        key: CacheKey | None,
        planned: Cacheable | Bypass,
        identity: Identity,
    ) -> CacheKey | None:
        """Under which this request may lead or follow a flight; None where it must have one of its own."""
        if isinstance(planned, Cacheable):
            return key if planned.joinable else None
        run = run_of(call, reading, planned, identity)
        if not run:
            return None
        # The reply of such a flight is not put together, so its bytes must be equal, not only its value.
        return CacheKey(request_name(self.dispatch.client(call), upstream.name, call, b"", *run))

    def _learning(self, look: Look, dialect: Dialect) -> Callable[[bytes], None]:
        """What is learnt from a reply to a question that something stored was near to."""
        semantic = self.semantic
        if semantic is None or look.stored is None:
            return lambda _reply: None
        return functools.partial(semantic.verifier.compare, look, dialect)

    def _launch(
        self,
        send: Callable[[], Awaitable[Source]],
        recorder: Recorder,
        key: CacheKey | None,
        *,
        streamed: bool,
    ) -> Flight:
        """Make a flight; with a `key` it stands in the table until its reply is complete or has failed."""

        def understand(source: Source) -> Transcript:
            recorder.begin(source)
            if source.status >= 400 and key is not None:
                self.flights.remove(key, flight)
            if source.is_event_stream:
                return EventTranscript(recorder.dialect)
            return PlainTranscript(keeps=not source.is_encoded)

        def ended(_: Flight, error: RequestError | None) -> None:
            try:
                if error is None:
                    recorder.record(flight)
                else:
                    recorder.estimate(flight)
            finally:
                if key is not None:
                    self.flights.remove(key, flight)

        flight = Flight(send, understand, ended, recorder=recorder, streamed=streamed, budget=self.inflight)
        if key is not None:
            self.flights.add(key, flight)
        return flight


def ambiguous(how: str) -> RequestError:
    """What a key that is limited to certain models gets for a body that names its model in two ways."""
    return RequestError(
        400,
        f"this API key is limited to certain models, and the body can be read in two ways ({how})",
        code="ambiguous_body",
    )


def _not_cached() -> RequestError:
    message = "only-if-cached: no stored reply can answer this request"
    return RequestError(504, message, kind="api_error", code="not_cached")


def _tells_usage_to(flight: Flight, request: Request) -> bool:
    """Whether the flight's reply will have the usage that `request` wants, if it wants any."""
    return not request.wants_usage or not flight.streamed or flight.recorder.has_usage_event


def _wire_form(entry: Entry, request: Request, dialect: Dialect) -> bytes | None:
    """A stored reply as this request wants it; None where it cannot be replayed as a stream."""
    if not request.stream:
        return entry.reply
    try:
        return dialect.split(orjson.loads(entry.reply), request)
    except (ValueError, TypeError):  # TypeError: nested too deeply to be written again
        return None
