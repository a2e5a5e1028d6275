"""The one order of steps between a request and its reply.

decode → plan → result cache → semantic cache → single flight → upstream → (complete replies only) result cache.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from openclaw_cache.dialects.dialect import Dialect
from openclaw_cache.dialects.usage import Usage
from openclaw_cache.errors import CorruptEntryError, RequestError, StoreError
from openclaw_cache.gateway.call import CACHE_NAME, Call, Following, Invalidation, Outcome, Ready
from openclaw_cache.gateway.dispatch import Dispatch, is_free
from openclaw_cache.gateway.flight import Flight, Source, Transcript
from openclaw_cache.gateway.flights import Flights
from openclaw_cache.gateway.identity import identify
from openclaw_cache.gateway.inflight import InFlightBytes
from openclaw_cache.gateway.keys import Keys
from openclaw_cache.gateway.negative_step import NegativeStep, request_name
from openclaw_cache.gateway.pace import Pace
from openclaw_cache.gateway.passage import Passage
from openclaw_cache.gateway.policy import Bypass, Cacheable, Control, Policy, Reason, plan, restricted
from openclaw_cache.gateway.prefix_watch import PrefixWatch
from openclaw_cache.gateway.reading import Readings
from openclaw_cache.gateway.recorder import Recorder
from openclaw_cache.gateway.refusals import ambiguous, not_cached
from openclaw_cache.gateway.same_run import run_of
from openclaw_cache.gateway.semantic.look import Asking, Look
from openclaw_cache.gateway.transcript import EventTranscript, PlainTranscript
from openclaw_cache.gateway.why_missed import WhyMissed
from openclaw_cache.observe.metrics import Metrics
from openclaw_cache.result.cache import ResultCache
from openclaw_cache.result.versions import Epochs
from openclaw_cache.types import CacheKey, Entry, Namespace

if TYPE_CHECKING:
    from openclaw_cache.gateway.semantic.step import SemanticStep


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
    prefixes: PrefixWatch | None = None
    """Compares prompts with the earlier ones of their sessions, where it is on."""
    missed: WhyMissed = field(default_factory=WhyMissed)
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
        passage = await self._begin(call)
        key, planned = passage.key, passage.planned
        if key is not None and planned.reads:
            found = await self._lookup(passage, key)
            if found is not None:
                return self._hit(passage, *found)
        look = Look() if key is None else await self._by_meaning(passage, key)
        if look.entry is not None and (body := passage.wire_form(look.entry)) is not None:
            self._verify(passage, look)
            self.missed.settled(passage, None)
            return self._hit(passage, look.entry, body, look)
        if passage.control.only_if_cached:
            raise not_cached()
        return self._follow(passage, look)

    async def _begin(self, call: Call) -> Passage:
        """Read a request, find who may answer it, decide what may be done with it, and name its reply."""
        began = time.perf_counter()
        client = self.dispatch.client(call)
        reading, value = await self.readings.read(call.raw, client, call.dialect)
        read_at = time.perf_counter()
        request = reading.request
        identity = identify(call.headers, reading.labels)
        if call.strict and reading.ambiguity:
            raise ambiguous(reading.ambiguity)
        call.check(request.model, identity)
        upstreams = self.dispatch.candidates(request.model, call.dialect.name, call.dialect.vendor, call)
        upstream = upstreams[0]
        namespace = self.dispatch.namespace(call, client, upstream)
        control = Control.parse(call.headers)
        planned = restricted(
            plan(request, reading.reason, control), may_read=call.may_read, may_write=call.may_write
        )
        outcome = Outcome(
            "miss",
            f"{CACHE_NAME}; fwd=miss",
            request.model,
            upstream.name,
            namespace,
            request.stream,
            identity,
            prompt_id=reading.prompt_id,
        )
        call.outcome = outcome
        passage = Passage(call, reading, value, upstreams, control, planned, None, None, outcome)
        if planned.reads or planned.writes:
            model_identity = await upstream.model_identity()
            passage.asked_at = time.perf_counter()
            make_key = await self.keys.maker(call, upstream, namespace, request.model, model_identity)
            if make_key is not None:
                passage.make_key, passage.key = make_key, make_key(reading.body_hash)
        if isinstance(planned, Bypass):
            outcome.bypass(planned.reason)
        elif passage.key is None:
            outcome.bypass(Reason.DEGRADED)
        passage.note("read", "known" if value is None else "new", read_at - began)
        what = f"bypass ({outcome.detail})" if outcome.detail else "cacheable"
        passage.note("plan", what, (passage.asked_at or time.perf_counter()) - read_at)
        return passage

    async def _by_meaning(self, passage: Passage, key: CacheKey) -> Look:
        """Look for the reply to a question that means the same; not where the very same is in the air already."""
        planned, make_key = passage.planned, passage.make_key
        is_in_the_air = planned.joinable and self.flights.find(key) is not None
        if self.semantic is None or make_key is None or is_in_the_air:
            return Look()
        began = time.perf_counter()
        asking = Asking(
            passage.call,
            passage.request,
            passage.outcome.namespace,
            key,
            passage.control,
            passage.value,
            make_key,
            reads=planned.reads,
            writes=planned.writes,
        )
        look = await self.semantic.look(asking)
        if look.decision is not None:
            passage.outcome.semantic_id = look.decision.id
        if look.decision is not None or look.understanding is not None:
            said = "no vector" if look.decision is None else look.decision.outcome
            passage.note("semantic", said, time.perf_counter() - began)
        return look

    def _verify(self, passage: Passage, look: Look) -> None:
        """Have some of the replies that are given by meaning checked by the model, behind the client's back."""
        semantic = self.semantic
        if semantic is None or not semantic.verifier.takes(
            look, is_free=is_free(passage.call, passage.upstream)
        ):
            return
        behind = msgspec.structs.replace(
            passage,
            upstreams=passage.upstreams[:1],
            outcome=msgspec.structs.replace(passage.outcome, steps=[]),
            is_behind=True,
        )
        semantic.verifier.verify(self._follow(behind, look), look)

    async def _lookup(self, passage: Passage, key: CacheKey) -> tuple[Entry, bytes] | None:
        """The stored reply, and as this request wants it; None, with the reason on its outcome, where there is none."""
        now, outcome = self.wall(), passage.outcome
        entry, unread = self.cache.peek(key, now), ""
        if entry is None:
            # While the store was asked, the flight of an identical request may have landed in memory.
            left_s = self.store_timeout_s - (time.perf_counter() - passage.asked_at)
            fetched, unread = await self._from_store(outcome.namespace, key, left_s)
            entry = fetched or self.cache.peek(key, now)
            if fetched is not None:
                self.missed.found(passage, fetched.expires_at)
        took_s = time.perf_counter() - passage.asked_at
        body: bytes | None = None
        if entry is None:
            outcome.miss = unread or self.missed.why(passage, now)
        else:
            body = passage.wire_form(entry) if passage.accepts(entry, now) else None
            outcome.miss = "" if body is not None else "control"
        self.metrics.result_lookup_seconds.observe(took_s)
        self.metrics.hit_window.add(time.monotonic(), hit=body is not None)
        passage.note("result", f"miss ({outcome.miss})" if outcome.miss else "hit", took_s)
        return None if entry is None or body is None else (entry, body)

    async def _from_store(
        self, namespace: Namespace, key: CacheKey, left_s: float
    ) -> tuple[Entry | None, str]:
        """What the store says within what is left of the request's one budget, and why that cannot be known, if so."""
        try:
            async with asyncio.timeout(left_s):
                return await self.cache.find(namespace, key), ""
        except CorruptEntryError:
            return None, "corrupt"
        except (TimeoutError, StoreError):
            self.on_degraded("store_unavailable")
            return None, "store"

    def _hit(self, passage: Passage, entry: Entry, body: bytes, look: Look | None = None) -> Ready:
        outcome = passage.outcome
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

    def _follow(self, passage: Passage, look: Look) -> Following:
        """Join the flight of an identical request, or start one."""
        call, upstream, request, outcome = passage.call, passage.upstream, passage.request, passage.outcome
        dialect = call.dialect
        air_key = self._air_key(passage)
        joined = self.flights.find(air_key) if air_key is not None else None
        if joined is not None and joined.tells_usage_to(request):
            outcome.outcome = "collapsed"
            outcome.cache_status += "; collapsed"
            passage.note("flight", "joined")
            return Following(outcome, joined.join(), request, dialect)

        asks_usage = (
            request.stream and not request.include_usage and upstream.ask_usage and passage.planned.writes
        )
        recorder = self._recorder(passage, look, asks_usage or request.include_usage)

        def sender(waits: bool) -> Callable[[], Awaitable[Source]]:
            return self.dispatch.sender(
                call,
                passage.upstreams,
                outcome,
                body=passage.body,
                raw=dialect.ask_usage(call.raw, passage.body()) if asks_usage else call.raw,
                is_repeatable=not request.state,
                answered_by=recorder.answered_by,
                waits=waits,
            )

        @functools.cache
        def name() -> bytes:
            return request_name(self.dispatch.client(call), upstream.name, call, passage.reading.body_hash)

        passage.note("flight", "alone" if air_key is None else "leads")
        self.missed.asked(passage)
        send = self._watched(passage, self.negative.guarded(call, name, outcome, sender))
        flight = self._launch(passage, send, recorder, air_key)
        return Following(outcome, flight.join(), request, dialect)

    def _watched(
        self, passage: Passage, send: Callable[[], Awaitable[Source]]
    ) -> Callable[[], Awaitable[Source]]:
        """The same call, noted as a step; its prompt is compared with earlier ones while the upstream works."""
        outcome = passage.outcome
        is_repeated = outcome.detail == "negative"  # no upstream is asked

        async def sent() -> Source:
            began = time.perf_counter()
            if not is_repeated and not passage.is_behind and self.prefixes is not None:
                outcome.watched = self.prefixes.watch(passage)
            said = "left"
            try:
                source = await send()
                said = f"{source.status}, repeated" if is_repeated else str(source.status)
                return source
            except RequestError as e:
                said = e.code or e.kind
                raise
            finally:
                passage.note("upstream", said, time.perf_counter() - began)

        return sent

    def _recorder(self, passage: Passage, look: Look, has_usage_event: bool) -> Recorder:
        """What a flight's reply is judged and kept by."""
        call, upstream = passage.call, passage.upstream
        return Recorder(
            cache=self.cache if passage.planned.writes else None,
            key=passage.key,
            namespace=passage.outcome.namespace,
            upstream=upstream.name,
            dialect=call.dialect,
            request=passage.request,
            prompt=lambda: call.dialect.prompt_text(passage.body()),
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
            note=passage.note,
        )

    def _air_key(self, passage: Passage) -> CacheKey | None:
        """Under which this request may lead or follow a flight; None where it must have one of its own."""
        call, reading, planned = passage.call, passage.reading, passage.planned
        if isinstance(planned, Cacheable):
            return passage.key if planned.joinable else None
        run = run_of(call, reading, planned, passage.outcome.identity)
        if not run:
            return None
        # The reply of such a flight is not put together, so its bytes must be equal, not only its value.
        return CacheKey(request_name(self.dispatch.client(call), passage.upstream.name, call, b"", *run))

    def _learning(self, look: Look, dialect: Dialect) -> Callable[[bytes], None]:
        """What is learnt from a reply to a question that something stored was near to."""
        semantic = self.semantic
        if semantic is None or look.stored is None:
            return lambda _reply: None
        return functools.partial(semantic.verifier.compare, look, dialect)

    def _launch(
        self,
        passage: Passage,
        send: Callable[[], Awaitable[Source]],
        recorder: Recorder,
        key: CacheKey | None,
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
                self.missed.settled(passage, recorder.stored_until)
                if key is not None:
                    self.flights.remove(key, flight)

        flight = Flight(
            send,
            understand,
            ended,
            recorder=recorder,
            streamed=passage.request.stream,
            budget=self.inflight,
            pace=Pace(self.metrics.itl_seconds.all),
        )
        if key is not None:
            self.flights.add(key, flight)
        return flight
