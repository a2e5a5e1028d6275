"""The one order of steps between a request and its reply.

decode → plan → result cache → single flight → upstream → (complete replies only) result cache.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import orjson

from openclaw_cache.dialects import openai
from openclaw_cache.dialects.openai import ChatRequest
from openclaw_cache.errors import RequestError
from openclaw_cache.gateway import headers as header_rules
from openclaw_cache.gateway.flight import Flight, Reader, Source, Transcript
from openclaw_cache.gateway.flights import Flights
from openclaw_cache.gateway.identity import identify
from openclaw_cache.gateway.kv_salt import HEADER as SALT_HEADER
from openclaw_cache.gateway.kv_salt import KvSalt
from openclaw_cache.gateway.policy import Bypass, Cacheable, Control, Policy, Reason, plan
from openclaw_cache.gateway.reading import Reading, Readings
from openclaw_cache.gateway.recorder import Recorder
from openclaw_cache.gateway.transcript import EventTranscript, PlainTranscript
from openclaw_cache.gateway.upstream import Upstream
from openclaw_cache.observe.metrics import Metrics
from openclaw_cache.result.cache import ResultCache
from openclaw_cache.result.key import Keyer, decode
from openclaw_cache.result.versions import Epochs
from openclaw_cache.types import CacheKey, Entry, Headers, Identity, Json, Namespace

CACHE_NAME = "openclaw-cache"
T = TypeVar("T")


@dataclass(slots=True)
class Call:
    """One request as it came in."""

    path: str
    query: bytes
    headers: Headers
    raw: bytes
    namespace: Namespace
    keyed: bool
    """Whether a configured key vouches for the client; then its credential stays here."""
    request_id: str
    strict: bool = False
    """Whether the body must read one way only: of two `model` members the upstream may take the other one."""
    check: Callable[[str, Identity], None] = lambda _model, _identity: None
    """Raises RequestError where the client may not use this model or be this agent."""


@dataclass(slots=True)
class Outcome:
    """What happened to a request: for headers, metrics and its log line."""

    outcome: str
    cache_status: str
    model: str
    upstream: str
    namespace: Namespace
    stream: bool
    identity: Identity
    detail: str = ""
    age_s: int | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


@dataclass(slots=True)
class Ready:
    """A reply that is here: a hit."""

    outcome: Outcome
    body: bytes


@dataclass(slots=True)
class Following:
    """A reply on its way: this request reads a flight. `reader.leave()` must be called in the end."""

    outcome: Outcome
    reader: Reader
    request: ChatRequest


@dataclass(frozen=True, slots=True)
class Invalidation:
    """What `invalidate` did: the names whose epochs changed, and whether that survives a crash."""

    names: list[str]
    served: bool
    durable: bool


@dataclass(slots=True)
class Gateway:
    """Answers chat requests. Owns no I/O itself: upstreams and the result cache do."""

    upstreams: Sequence[Upstream]
    cache: ResultCache
    epochs: Epochs
    keyer: Keyer
    policy: Policy
    readings: Readings
    metrics: Metrics
    kv_salt: KvSalt
    ttl_s: float = 86400.0
    store_timeout_s: float = 0.05
    """The most that the store may cost one request, all questions to it together."""
    on_degraded: Callable[[str], None] = lambda _what: None
    """Told of each failure that became a miss; counts it and logs the first."""
    credential_namespace: Callable[[bytes], Namespace] = lambda _: Namespace("default")
    wall: Callable[[], float] = time.time
    flights: Flights = field(default_factory=Flights)
    outdated_at: dict[str, float] = field(default_factory=dict)
    """When (monotonic seconds) replies of a model were last invalidated here."""

    async def answer(self, call: Call) -> Ready | Following:
        """Answer one `POST /v1/chat/completions`.

        Raises:
            RequestError: what the client did wrong, or 504 for an unmet `only-if-cached`.
        """
        reading, value = await self.readings.read(call.raw, call.namespace)
        request = reading.request
        identity = identify(call.headers, reading.labels)
        if call.strict and reading.ambiguity:
            raise RequestError(
                400,
                "this API key is limited to certain models, and the body can be read in two ways "
                f"({reading.ambiguity})",
                code="ambiguous_body",
            )
        call.check(request.model, identity)
        upstream = self.upstream_for(request.model)
        namespace = self._namespace(call, upstream)
        control = Control.parse(call.headers)
        planned = plan(request, reading.reason, control)
        uses_cache = planned.reads or planned.writes
        model_identity = await upstream.model_identity() if uses_cache else ""
        began = time.perf_counter()
        key = await self._key(call, upstream, namespace, reading, model_identity) if uses_cache else None
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
            outcome.outcome, outcome.detail = "bypass", planned.reason
            outcome.cache_status = f"{CACHE_NAME}; fwd=bypass; detail={planned.reason}"
        elif key is None:
            outcome.outcome, outcome.detail = "bypass", Reason.DEGRADED
            outcome.cache_status = f"{CACHE_NAME}; fwd=bypass; detail={Reason.DEGRADED}"

        if key is not None and planned.reads:
            entry = await self._lookup(namespace, key, control, request, began)
            if entry is not None and (body_out := _wire_form(entry, request)) is not None:
                return self._hit(entry, body_out, outcome)
        if control.only_if_cached:
            raise RequestError(
                504,
                "only-if-cached: no stored reply can answer this request",
                kind="api_error",
                code="not_cached",
            )
        return self._follow(call, upstream, request, value, key, planned, outcome)

    def upstream_for(self, model: str) -> Upstream:
        """The first upstream that serves `model`. Raises RequestError (404) naming those there are."""
        for upstream in self.upstreams:
            if upstream.serves(model):
                return upstream
        names = [n for u in self.upstreams for n in (u.pod.model_ids if u.pod else u.models)]
        raise RequestError(
            404,
            f"no upstream serves the model {model!r}; served here: {', '.join(names) or 'none'}",
            code="model_not_found",
            param="model",
        )

    def _namespace(self, call: Call, upstream: Upstream) -> Namespace:
        if call.keyed or upstream.api_key is not None:
            return call.namespace
        credentials = header_rules.credentials(call.headers)
        if credentials is None:
            return call.namespace
        # The client's own credentials go upstream, so they decide who shares replies.
        return Namespace(f"{self.credential_namespace(credentials)}/{call.namespace}")

    async def _key(
        self, call: Call, upstream: Upstream, namespace: Namespace, reading: Reading, model_identity: str
    ) -> CacheKey | None:
        model = upstream.canonical_model(reading.request.model)
        epoch = self.epochs.held(model)
        if epoch is None:
            epoch = await self._from_store(self.epochs.current(model), self.store_timeout_s)
        if epoch is None:
            self.on_degraded("epoch_unknown")
            return None
        return self.keyer.key(
            namespace=namespace,
            path=call.path,
            query=call.query,
            upstream=upstream.name,
            model_identity=model_identity,
            epoch=epoch,
            headers=header_rules.keyed(call.headers),
            body=reading.body_hash,
        )

    async def _lookup(
        self, namespace: Namespace, key: CacheKey, control: Control, request: ChatRequest, began: float
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

    def _hit(self, entry: Entry, body: bytes, outcome: Outcome) -> Ready:
        outcome.outcome, outcome.detail = "exact", ""
        outcome.cache_status = f"{CACHE_NAME}; hit; detail=exact"
        outcome.age_s = max(0, int(self.wall() - entry.created_at))
        outcome.prompt_tokens, outcome.completion_tokens = entry.prompt_tokens, entry.completion_tokens
        self.metrics.result_saved_tokens.inc((entry.prompt_tokens or 0) + (entry.completion_tokens or 0))
        return Ready(outcome, body)

    async def invalidate(self, model: str) -> Invalidation:
        """Make every reply that `model` gave unreachable, whatever name it was asked for by.

        Cost: reads every stored entry once, to find the names. Raises StoreError; then nothing may be claimed.
        """
        serving = [u for u in self.upstreams if u.serves(model)]
        names = {u.canonical_model(model) for u in serving} or {model}
        # A reply that is on its way now is older than this order: it must not be stored, not even while the names
        # are looked up, and nobody may join it, since the model that will have answered is not known yet.
        self.outdated_at[model] = time.monotonic()
        self.flights.close()
        names |= await self.cache.requested_as(model)
        durable = True
        for name in sorted(names):
            durable = (await self.epochs.bump(name)).durable and durable
        self.metrics.invalidations.labels("model").inc()
        return Invalidation(names=sorted(names), served=bool(serving), durable=durable)

    def _follow(
        self,
        call: Call,
        upstream: Upstream,
        request: ChatRequest,
        value: dict[str, Json] | None,
        key: CacheKey | None,
        planned: Cacheable | Bypass,
        outcome: Outcome,
    ) -> Following:
        """Join the flight of an identical request, or start one."""
        joinable = key is not None and isinstance(planned, Cacheable) and planned.joinable
        joined = self.flights.find(key) if joinable and key is not None else None
        if joined is not None and _tells_usage_to(joined, request):
            outcome.outcome = "collapsed"
            outcome.cache_status = f"{CACHE_NAME}; fwd=miss; collapsed"
            return Following(outcome, joined.join(), request)

        def body() -> dict[str, Json]:
            # Bytes that were read before were not decoded again, and most requests never need it.
            return value if value is not None else decode(call.raw).value

        asks_usage = request.stream and not request.include_usage and upstream.ask_usage and planned.writes
        recorder = Recorder(
            cache=self.cache if planned.writes else None,
            key=key,
            namespace=outcome.namespace,
            upstream=upstream.name,
            request=request,
            prompt=lambda: openai.prompt_text(body()),
            ttl_s=self.ttl_s,
            wall=self.wall,
            asked_at=self.wall(),
            metrics=self.metrics,
            has_usage_event=asks_usage or request.include_usage,
            own_engine=upstream.pod is not None,
            outdated_at=self.outdated_at,
            is_same_model=upstream.identity_check(),
        )
        sent = header_rules.outgoing(
            call.headers, with_credentials=not call.keyed and upstream.api_key is None
        )
        sent.append(("x-request-id", call.request_id))
        if upstream.pod is not None:
            sent.append((SALT_HEADER, self.kv_salt.of(outcome.namespace)))
        raw = openai.ask_usage(call.raw, body()) if asks_usage else call.raw
        send = functools.partial(upstream.send, "POST", call.path, call.query.decode("latin-1"), sent, raw)
        flight = self._launch(send, recorder, key if joinable else None, streamed=request.stream)
        return Following(outcome, flight.join(), request)

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
            return EventTranscript() if source.is_event_stream else PlainTranscript()

        def ended(_: Flight, error: RequestError | None) -> None:
            try:
                if error is None:
                    recorder.record(flight)
            finally:
                if key is not None:
                    self.flights.remove(key, flight)

        flight = Flight(send, understand, ended, recorder=recorder, streamed=streamed)
        if key is not None:
            self.flights.add(key, flight)
        return flight


def _tells_usage_to(flight: Flight, request: ChatRequest) -> bool:
    """Whether the flight's reply will have the usage that `request` wants, if it wants any."""
    return not request.wants_usage or not flight.streamed or flight.recorder.has_usage_event


def _wire_form(entry: Entry, request: ChatRequest) -> bytes | None:
    """A stored reply as this request wants it; None where it cannot be replayed as a stream."""
    if not request.stream:
        return entry.reply
    try:
        return openai.split(orjson.loads(entry.reply), include_usage=request.include_usage)
    except (ValueError, TypeError):  # TypeError: nested too deeply to be written again
        return None
