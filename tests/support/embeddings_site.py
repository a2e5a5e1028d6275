"""Embeddings over a real result cache, a real Valkey and a scripted upstream, without the HTTP surface before them."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openclaw_cache.dialects.openai import ChatDialect
from openclaw_cache.gateway.call import Call
from openclaw_cache.gateway.embeddings import Embeddings, EmbeddingsReply
from openclaw_cache.gateway.keys import Keys
from openclaw_cache.gateway.policy import Control, Policy
from openclaw_cache.gateway.upstream import Upstream
from openclaw_cache.observe.metrics import Metrics
from openclaw_cache.result.cache import ResultCache
from openclaw_cache.result.entry import EntryCodec
from openclaw_cache.result.key import Keyer
from openclaw_cache.result.memory import MemoryTier
from openclaw_cache.result.versions import Epochs
from openclaw_cache.store.valkey import ValkeyStore
from openclaw_cache.testing import running_valkey
from openclaw_cache.types import Headers, Namespace
from support.scripted_upstream import Exchange, ScriptedUpstream

Json = Any
SECRET = b"s" * 32
HIT = "openclaw-cache; hit; detail=exact"
MISS = "openclaw-cache; fwd=miss"
STORED = "openclaw-cache; fwd=miss; stored"
COLLAPSED = "openclaw-cache; fwd=miss; collapsed"


def vector_text(one: Json, fields: Json) -> str:
    """The vector of one input as this upstream writes it: no two inputs or requests have the same digits."""
    digest = hashlib.sha256(json.dumps([one, fields], sort_keys=True).encode()).digest()
    # Written in ways that a parser would not give back: a trailing zero, an exponent, a space.
    return f"[0.{digest[0]:03d}0, -{digest[1]}.5e-3,{digest[2]},0.{int.from_bytes(digest[3:9])}]"


def inputs_of(body: Json) -> list[Json]:
    """The inputs that a request asks for."""
    asked = body["input"]
    is_one = isinstance(asked, str) or (asked and isinstance(asked[0], int))
    return [asked] if is_one else asked


def tokens_of(one: Json) -> int:
    """What an input costs here: two tokens, and one for each character or token."""
    return 2 + len(one)


def reply_to(body: Json, *, model: str = "embedder-1") -> bytes:
    """The reply of a good upstream, spaced as Python's writer does."""
    fields = {name: value for name, value in body.items() if name != "input"}
    items = [
        f'{{"object": "embedding", "index": {i}, "embedding": {vector_text(one, fields)}}}'
        for i, one in enumerate(inputs_of(body))
    ]
    total = sum(map(tokens_of, inputs_of(body)))
    usage = f'{{"prompt_tokens": {total}, "total_tokens": {total}}}'
    text = f'{{"object": "list", "data": [{", ".join(items)}], "model": "{model}", "usage": {usage}}}'
    return text.encode()


async def embed(exchange: Exchange) -> None:
    """What a good upstream does."""
    headers = {"content-type": "application/json", "x-ratelimit-remaining-requests": str(exchange.number)}
    await exchange.whole(reply_to(exchange.call.json()), headers=headers)


def vectors_in(body: bytes) -> list[str]:
    """The text of every vector of a reply, as it stands there, in order."""
    return re.findall(r'"embedding": ?(\[[^\]]*\])', body.decode())


def vectors_for(body: Json) -> list[str]:
    """The vectors that a request must get; `body` lacks the model."""
    fields = {"model": "m"} | {name: value for name, value in body.items() if name != "input"}
    return [vector_text(one, fields) for one in inputs_of(body)]


@dataclass(slots=True)
class Site:
    """Everything but the HTTP surface."""

    embeddings: Embeddings
    upstream: Upstream
    pod: ScriptedUpstream
    store: ValkeyStore
    metrics: Metrics
    degraded: list[str] = field(default_factory=list)
    now: float = 1_000_000.0

    async def ask(
        self,
        body: Json = None,
        *,
        raw: bytes | None = None,
        headers: Headers | None = None,
        namespace: str = "default",
        may_read: bool = True,
        may_write: bool = True,
    ) -> EmbeddingsReply:
        """One request; `body` lacks the model."""
        content = raw if raw is not None else json.dumps({"model": "m", **body}).encode()
        sent = [(b"content-type", b"application/json"), *(headers or [])]
        call = Call(
            dialect=ChatDialect(),
            path="/v1/embeddings",
            query=b"",
            headers=sent,
            raw=content,
            namespace=Namespace(namespace),
            keyed=True,
            request_id="r-1",
        )
        return await self.embeddings.answer(
            call,
            await self.embeddings.read(content),
            self.upstream,
            Namespace(namespace),
            Control.parse(sent),
            may_read=may_read,
            may_write=may_write,
        )

    @property
    def asked(self) -> list[Json]:
        """The `input` of every call that came upstream."""
        return [call.json()["input"] for call in self.pod.calls]

    def forget_memory(self) -> None:
        """Empty the memory tier, so that the next look-up goes to Valkey."""
        memory = self.embeddings.cache._memory
        for key, _, _ in memory.items():
            memory.remove(key)


@contextlib.asynccontextmanager
async def running_site(folder: Path, pod: ScriptedUpstream, **policy: Any) -> AsyncIterator[Site]:
    """Run a Valkey and put a site over it."""
    async with running_valkey(folder) as (url, _):
        store = ValkeyStore(url, timeout_s=5.0)
        await store.start()
        async with site_over(store, pod, **policy) as site:
            yield site
        await store.aclose()


@contextlib.asynccontextmanager
async def site_over(store: ValkeyStore, pod: ScriptedUpstream, **policy: Any) -> AsyncIterator[Site]:
    """A site over a store that runs: two of them are two nodes of a fleet."""
    degraded: list[str] = []
    metrics, keyer = Metrics(), Keyer(SECRET)
    upstream = Upstream(name="pods", urls=[pod.url], retries=0)

    def wall() -> float:
        return site.now

    cache = ResultCache(
        MemoryTier(64_000_000), store, keyer, EntryCodec(SECRET), on_degraded=degraded.append, clock=wall
    )
    embeddings = Embeddings(
        cache=cache,
        keys=Keys(Epochs(store, exclusive=True), keyer, 5.0, degraded.append),
        policy=Policy(**policy),
        metrics=metrics,
        ttl_s=600.0,
        store_timeout_s=5.0,
        on_degraded=degraded.append,
        wall=wall,
    )
    site = Site(embeddings, upstream, pod, store, metrics, degraded)
    yield site
    await cache.aclose(5.0)
    await upstream.aclose()
