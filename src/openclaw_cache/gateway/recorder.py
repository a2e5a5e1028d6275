"""What becomes of a finished reply: counted, and stored where it may be."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec
import orjson

from openclaw_cache.dialects.dialect import Dialect
from openclaw_cache.dialects.request import Request
from openclaw_cache.dialects.usage import Usage
from openclaw_cache.errors import MergeError, RequestError
from openclaw_cache.gateway.flight import Flight, Source
from openclaw_cache.gateway.prompt_tokens import PromptTokens, from_header, from_usage
from openclaw_cache.gateway.semantic.look import Look
from openclaw_cache.gateway.transcript import EventTranscript, PlainTranscript
from openclaw_cache.observe.metrics import Metrics
from openclaw_cache.result.cache import ResultCache
from openclaw_cache.result.key import decode
from openclaw_cache.types import CacheKey, Entry, Json, Namespace


@dataclass(slots=True)
class Recorder:
    """Reads the finished reply of one flight, once.

    Args:
        cache: Where a reply that may be stored goes; None = this request stores nothing.
        has_usage_event: The upstream was asked to end the stream with a usage event, by the client or by us
            on its behalf; readers that did not ask for it must not see it.
    """

    cache: ResultCache | None
    key: CacheKey | None
    namespace: Namespace
    upstream: str
    dialect: Dialect
    request: Request
    prompt: Callable[[], str]
    ttl_s: float
    wall: Callable[[], float]
    metrics: Metrics
    has_usage_event: bool
    request_bytes: int
    """Size of the request, for an estimate where nothing better comes."""
    own_engine: bool
    """Whether our own engine answers: then the tokens that it did not compute are our cache's hits."""
    outdated_at: Mapping[str, float]
    """When replies of a model were invalidated; what began before is not stored."""
    is_same_model: Callable[[], bool]
    """Whether the model is still the one that the key names."""
    asked_at: float
    """When the call began, in unix seconds."""
    look: Look = field(default_factory=Look)
    """What the question is to be found by, and what was found that is like it."""
    on_stored: Callable[[bytes], None] = lambda _reply: None
    """Called with each reply that is stored."""
    note: Callable[[str, str, float], None] = lambda _name, _result, _took_s: None
    """Told of each step: its name, what came of it, and the seconds it took."""
    began_at: float = field(default_factory=time.monotonic)
    stored: bool = False
    """Whether the reply is in the cache already."""
    stored_until: float | None = None
    """Unix seconds; None where it is not stored, and will not be."""
    prompt_tokens: PromptTokens | None = None
    """Where the KV of the prompt came from, once that is known."""
    usage: Usage | None = None
    reply: dict[str, Json] | None = None
    """The reply as one JSON object; None where it is none, or was not put together."""

    def begin(self, source: Source) -> None:
        """Count the prompt's tokens where the reply's head tells of them: they are spent, come what may."""
        if self.own_engine and source.is_ok and (tokens := from_header(source.headers)) is not None:
            num_prompt = tokens.computed + tokens.num_cached
            self.usage = Usage(prompt_tokens=num_prompt, cached_tokens=tokens.num_cached)
            self._count_prompt(tokens)
            self.note("kv", f"{tokens.num_cached} of {num_prompt} tokens", 0.0)

    def answered_by(self, upstream: str) -> None:
        """Note which upstream answers. Another one than the key names: its reply is not stored."""
        if upstream != self.upstream:
            self.cache = None
            self.own_engine = False

    def estimate(self, flight: Flight) -> None:
        """Guess the tokens of a reply whose usage did not come: they are spent all the same.

        Four bytes of the request count as a token, and so do each event that came, or four bytes of a reply that is
        no stream. Where the client left before the reply's head, its prompt counts: a reply that is not streamed has
        no head before it is computed.
        """
        source, transcript = flight.source, flight.transcript
        if self.dialect.name == "count_tokens":
            return  # costs none
        has_left = flight.error is None or flight.error.code == "client_gone"
        if not (has_left if source is None else source.is_ok):
            return
        usage = self.usage or Usage(prompt_tokens=self.request_bytes // 4)
        num_tokens = usage.completion_tokens
        if isinstance(transcript, EventTranscript):
            num_tokens = transcript.num_events
        elif isinstance(transcript, PlainTranscript):
            num_tokens = transcript.num_bytes // 4
        self.usage = msgspec.structs.replace(usage, completion_tokens=num_tokens, is_estimate=True)

    def record(self, flight: Flight) -> None:
        """Count the reply's tokens, keep its non-streaming form on the flight, and store it if it may be."""
        self._read(flight)
        if self.usage is None and self._has_cost(flight):
            self.estimate(flight)

    def _has_cost(self, flight: Flight) -> bool:
        """Whether something was computed, as far as anybody can know, though its usage was not told."""
        if isinstance(flight.transcript, EventTranscript) or flight.oversize:
            return True
        is_encoded = flight.source is not None and flight.source.is_encoded
        return is_encoded if self.reply is None else not self.reply.get("error")

    def _read(self, flight: Flight) -> None:
        source, transcript = flight.source, flight.transcript
        if source is None or not source.is_ok or flight.oversize:
            return
        if isinstance(transcript, EventTranscript):
            if transcript.progress.has_error:
                return
            if self.cache is None and flight.streamed:
                self._count(self.dialect.stream_usage(transcript.events))
                return
        is_exact = True
        try:
            if isinstance(transcript, EventTranscript):
                reply = self.dialect.merge(transcript.events)
                flight.reply = orjson.dumps(reply)
            elif isinstance(transcript, PlainTranscript):
                flight.reply = transcript.body()
                decoded = decode(flight.reply)  # what two readers may read differently is not stored
                reply, is_exact = decoded.value, decoded.keyable
            else:
                return
        except (MergeError, RequestError, orjson.JSONEncodeError, RecursionError):
            if isinstance(transcript, EventTranscript):
                self._count(self.dialect.stream_usage(transcript.events))
            return
        self.reply = reply
        self._count(self.dialect.usage(reply))
        if self.cache is not None and self.key is not None and is_exact:
            is_whole = isinstance(transcript, PlainTranscript)
            self._store(self.cache, self.key, flight.reply, reply, is_whole=is_whole)

    def _count(self, usage: Usage | None) -> None:
        if usage is None:
            return
        self.usage = usage
        if self.prompt_tokens is None and (tokens := from_usage(usage)) is not None:
            self._count_prompt(tokens)

    def _count_prompt(self, tokens: PromptTokens) -> None:
        self.prompt_tokens = tokens
        for source, child in self.metrics.prompt_tokens_from.items():
            child.inc(getattr(tokens, source))
        if self.own_engine:
            self.metrics.kv_saved_tokens.inc(tokens.num_cached)
            self.metrics.kv_window.add_many(
                time.monotonic(), num_hits=tokens.num_cached, num_lookups=tokens.computed + tokens.num_cached
            )

    def _store(
        self, cache: ResultCache, key: CacheKey, body: bytes, reply: dict[str, Json], *, is_whole: bool
    ) -> None:
        began = time.perf_counter()
        refusal = self.dialect.refusal_to_store(reply, self.request)
        model = str(reply.get("model") or self.request.model)
        if refusal is None and (
            self.outdated_at.get(model, 0.0) >= self.began_at or not self.is_same_model()
        ):
            refusal = "outdated"
        now = self.wall()
        newer = cache.peek(key, now)
        if refusal is None and newer is not None and newer.created_at > self.asked_at:
            # A `no-cache` request has replaced the entry in the meantime.
            refusal, self.stored_until = "replaced", newer.expires_at
        if refusal is not None:
            self.note("store", f"refused ({refusal})", time.perf_counter() - began)
            return
        usage = self.usage or Usage()
        entry = Entry(
            reply=body,
            model=model,
            upstream=self.upstream,
            namespace=self.namespace,
            created_at=now,
            expires_at=now + self.ttl_s,
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            # An upstream that was asked and told no counts has none: only where nobody asked may they be missing.
            has_usage=self.has_usage_event or is_whole or isinstance(reply.get("usage"), dict),
            prompt=self.prompt(),
            requested_model=self.request.model,
            cached_tokens=usage.cached_tokens,
            cache_write_tokens=usage.cache_write_tokens,
            # What only calls tools, or was cut at the request's own limit, answers nothing else.
            likeness=self.look.likeness() if self.dialect.answer_text(reply) is not None else None,
        )
        put_at = time.perf_counter()
        self.stored = cache.put(key, entry)
        if self.stored or not cache.is_screened:  # else it may be that it was not fit to be kept
            self.stored_until = entry.expires_at
        self.on_stored(body)
        ended = time.perf_counter()
        self.metrics.result_update_seconds.observe(ended - put_at)
        self.note("store", "stored" if self.stored_until is not None else "screened", ended - began)
