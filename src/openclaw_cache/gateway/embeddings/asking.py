"""One call to an upstream for embeddings, and what becomes of its reply."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from openclaw_cache.dialects import embeddings as dialect
from openclaw_cache.dialects.embeddings import Input, Vector
from openclaw_cache.errors import MergeError, RequestError
from openclaw_cache.gateway import headers as header_rules
from openclaw_cache.gateway.call import Call
from openclaw_cache.gateway.embeddings.aside import aside
from openclaw_cache.gateway.embeddings.fetch import Fetched
from openclaw_cache.gateway.embeddings.reading import Reading
from openclaw_cache.gateway.flight import MAX_HELD_BYTES, Source
from openclaw_cache.gateway.inflight import InFlightBytes, overloaded
from openclaw_cache.gateway.upstream import Upstream
from openclaw_cache.gateway.upstream_reply import with_body
from openclaw_cache.observe.metrics import Metrics
from openclaw_cache.result.cache import ResultCache
from openclaw_cache.types import CacheKey, Entry, Namespace

MAX_REPLY_BYTES: Final = 256 * 2**20
"""2,048 vectors of 3,072 numbers are about 140 MB."""

NUM_PUTS_AT_ONCE: Final = 64
"""Puts between which other requests get their turn: one of a long text takes 0.1 ms."""

_OF_THE_WHOLE_BODY: Final = frozenset(
    {"idempotency-key", "content-digest", "content-md5", "digest", "repr-digest"}
)
"""Headers that belong to the body as the client sent it: not sent with another one."""


@dataclass(frozen=True, slots=True)
class Asking:
    """Asks an upstream on behalf of one request.

    Args:
        cache: where vectors go; None = this request stores nothing.
        outdated_at: when replies of a model were invalidated (monotonic seconds); what began before is not stored.
        wall: unix seconds.
    """

    call: Call
    reading: Reading
    upstream: Upstream
    namespace: Namespace
    cache: ResultCache | None
    metrics: Metrics
    ttl_s: float
    wall: Callable[[], float]
    outdated_at: Mapping[str, float]
    inflight: InFlightBytes

    async def ask(self, keys: Sequence[CacheKey], inputs: Sequence[Input], raw: bytes) -> Fetched:
        """Send `raw`, which asks for `inputs`, and store what comes back where it is certain whose it is.

        Raises:
            RequestError: the call failed without a reply.
        """
        asked_at, began_at, is_same_model = self.wall(), time.monotonic(), self.upstream.identity_check()
        call = self.call
        sent = header_rules.outgoing(
            call.headers, with_credentials=not call.keyed and self.upstream.api_key is None
        )
        if raw is not call.raw:
            sent = [(name, value) for name, value in sent if name not in _OF_THE_WHOLE_BODY]
        sent.append(("x-request-id", call.request_id))
        query = call.query.decode("latin-1")
        source = with_body(await self.upstream.send("POST", call.path, query, sent, raw), self.upstream.name)
        body = await _read(source, self.inflight)
        status, headers = source.status, header_rules.returned(source.headers)
        if status != 200 or source.is_encoded:  # what is in an encoding that nobody here knows is not read
            return Fetched(status, headers, body)
        vectors, prompt_tokens = await aside(len(body), lambda: self._take_apart(body, inputs))
        self.metrics.prompt_tokens_from["computed"].inc(prompt_tokens or 0)
        if not vectors:
            return Fetched(status, headers, body, prompt_tokens)
        stored = False
        if self.cache is not None:
            entries = self._entries(keys, inputs, vectors)

            def is_current() -> bool:
                model = vectors[0].model or self.reading.request.model
                return is_same_model() and self.outdated_at.get(model, 0.0) < began_at

            stored = await _put(self.cache, entries, asked_at, is_current)
        return Fetched(status, headers, body, prompt_tokens, dict(zip(keys, vectors, strict=True)), stored)

    def _take_apart(self, body: bytes, inputs: Sequence[Input]) -> tuple[list[Vector], int | None]:
        """The vectors (none where there is no telling whose is whose) and the prompt's tokens."""
        try:
            vectors = dialect.take_apart(body, inputs, is_float32=self.reading.request.is_float32)
        except MergeError:
            vectors = []
        return vectors, dialect.prompt_tokens(body)

    def _entries(
        self, keys: Sequence[CacheKey], inputs: Sequence[Input], vectors: Sequence[Vector]
    ) -> Mapping[CacheKey, Entry]:
        return {key: self._entry(one, vector) for key, one, vector in zip(keys, inputs, vectors, strict=True)}

    def _entry(self, one: Input, vector: Vector) -> Entry:
        now, requested = self.wall(), self.reading.request.model
        return Entry(
            reply=vector.reply,
            model=vector.model or requested,
            upstream=self.upstream.name,
            namespace=self.namespace,
            created_at=now,
            expires_at=now + self.ttl_s,
            prompt_tokens=vector.prompt_tokens,
            completion_tokens=None,
            has_usage=True,
            prompt=dialect.input_text(one),
            requested_model=requested,
        )


async def _put(
    cache: ResultCache,
    entries: Mapping[CacheKey, Entry],
    asked_at: float,
    is_current: Callable[[], bool],
) -> bool:
    """Keep what nobody has replaced or outdated in the meantime. Returns whether any was kept."""
    stored = False
    for i, (key, entry) in enumerate(entries.items()):
        if i % NUM_PUTS_AT_ONCE == 0:
            if i:
                await asyncio.sleep(0)
            if not is_current():
                break
        newer = cache.peek(key, entry.created_at)
        if newer is None or newer.created_at <= asked_at:
            stored = cache.put(key, entry) or stored
    return stored


async def _read(source: Source, inflight: InFlightBytes) -> bytes:
    """A whole reply, counted while it comes. Raises RequestError where it breaks off, or is too long to be held."""
    body = bytearray()
    try:
        while part := await source.read():
            body += part
            inflight.add(len(part))
            _check_length(len(body))
            if len(body) > MAX_HELD_BYTES and inflight.is_full:
                raise overloaded("too much is in flight for these embeddings")
        source.finish()
    except (RequestError, asyncio.CancelledError):
        source.close()
        raise
    finally:
        inflight.give(len(body))
    return bytes(body)


def _check_length(num_bytes: int) -> None:
    if num_bytes > MAX_REPLY_BYTES:
        raise RequestError(
            502,
            f"the upstream's reply is longer than {MAX_REPLY_BYTES >> 20} MiB: ask for fewer inputs at a time",
            kind="api_error",
            code="upstream_too_long",
        )
