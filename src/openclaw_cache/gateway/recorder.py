"""What becomes of a finished reply: counted, and stored where it may be."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import orjson

from openclaw_cache.dialects import openai
from openclaw_cache.dialects.openai import ChatRequest
from openclaw_cache.errors import MergeError
from openclaw_cache.gateway.flight import Flight, Source
from openclaw_cache.gateway.prompt_tokens import PromptTokens, count, from_header, from_usage
from openclaw_cache.gateway.transcript import EventTranscript, PlainTranscript
from openclaw_cache.observe.metrics import Metrics
from openclaw_cache.result.cache import ResultCache
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
    request: ChatRequest
    prompt: Callable[[], str]
    ttl_s: float
    wall: Callable[[], float]
    metrics: Metrics
    has_usage_event: bool
    own_engine: bool
    """Whether our own engine answers: then the tokens that it did not compute are our cache's hits."""
    outdated_at: Mapping[str, float]
    """When replies of a model were invalidated; what began before is not stored."""
    is_same_model: Callable[[], bool]
    """Whether the model is still the one that the key names."""
    asked_at: float
    """When the call began, in unix seconds."""
    began_at: float = field(default_factory=time.monotonic)
    stored: bool = False
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    _prompt_counted: bool = field(default=False, init=False)

    def begin(self, source: Source) -> None:
        """Count the prompt's tokens where the reply's head tells of them: they are spent, come what may."""
        if self.own_engine and source.is_ok and (tokens := from_header(source.headers)) is not None:
            self.prompt_tokens = tokens.computed + tokens.num_cached
            self._count_prompt(tokens)

    def record(self, flight: Flight) -> None:
        """Count the reply's tokens, keep its non-streaming form on the flight, and store it if it may be."""
        source = flight.source
        if source is None or not source.is_ok or flight.oversize:
            return
        transcript = flight.transcript
        if self.cache is None and flight.streamed and isinstance(transcript, EventTranscript):
            self._count_last(transcript.events)
            return
        if isinstance(transcript, EventTranscript) and transcript.progress.has_error:
            return
        reply: Json
        try:
            if isinstance(transcript, EventTranscript):
                reply = openai.merge(transcript.events)
                flight.reply = orjson.dumps(reply)
            elif isinstance(transcript, PlainTranscript):
                flight.reply = transcript.body()
                reply = orjson.loads(flight.reply)
            else:
                return
        except (MergeError, orjson.JSONDecodeError, orjson.JSONEncodeError, RecursionError):
            return
        if not isinstance(reply, dict):
            return
        usage = reply.get("usage")
        if isinstance(usage, dict):
            self._count(usage)
        if self.cache is not None and self.key is not None:
            is_whole = isinstance(transcript, PlainTranscript)
            self._store(self.cache, self.key, flight.reply, reply, is_whole=is_whole)

    def _count_last(self, events: list[bytes]) -> None:
        """Count the usage that stands in one of the last events, without merging a reply nobody stores."""
        for event in reversed(events[-4:]):
            if b'"usage":' not in event:
                continue
            try:
                chunk = orjson.loads(event)
            except orjson.JSONDecodeError:
                continue
            usage = chunk.get("usage") if isinstance(chunk, dict) else None
            if isinstance(usage, dict):
                self._count(usage)
                return

    def _count(self, usage: dict[str, Json]) -> None:
        self.prompt_tokens = count(usage.get("prompt_tokens"))
        self.completion_tokens = count(usage.get("completion_tokens"))
        if not self._prompt_counted and (tokens := from_usage(usage)) is not None:
            self._count_prompt(tokens)

    def _count_prompt(self, tokens: PromptTokens) -> None:
        self._prompt_counted = True
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
        if openai.refusal_to_store(reply, self.request) is not None:
            return
        model = str(reply.get("model") or self.request.model)
        if self.outdated_at.get(model, 0.0) >= self.began_at or not self.is_same_model():
            return
        now = self.wall()
        newer = cache.peek(key, now)
        if newer is not None and newer.created_at > self.asked_at:
            return  # a `no-cache` request has replaced the entry in the meantime
        entry = Entry(
            reply=body,
            model=model,
            upstream=self.upstream,
            namespace=self.namespace,
            created_at=now,
            expires_at=now + self.ttl_s,
            prompt_tokens=self.prompt_tokens,
            completion_tokens=self.completion_tokens,
            # An upstream that was asked and told no counts has none: only where nobody asked may they be missing.
            has_usage=self.has_usage_event or is_whole or isinstance(reply.get("usage"), dict),
            prompt=self.prompt(),
            requested_model=self.request.model,
        )
        began = time.perf_counter()
        cache.put(key, entry)
        self.metrics.result_update_seconds.observe(time.perf_counter() - began)
        self.stored = True
