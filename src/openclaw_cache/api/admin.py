"""Operations over HTTP: status, evict, invalidate, tree. The CLI is a client of this."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Annotated, Literal

import msgspec
from prometheus_client import Metric

from openclaw_cache import __version__
from openclaw_cache.api.agents.admin import MemoryAdmin
from openclaw_cache.api.auth import Authenticator
from openclaw_cache.api.kv import KvAdmin
from openclaw_cache.api.order import decode_order
from openclaw_cache.api.semantic import SemanticAdmin
from openclaw_cache.engine.pod import EmbeddedPod
from openclaw_cache.errors import RequestError, StoreError
from openclaw_cache.gateway.gateway import Gateway
from openclaw_cache.observe.metrics import LAYERS, OUTCOMES
from openclaw_cache.observe.savings import SavingsBook
from openclaw_cache.result.rekey import RekeyReport
from openclaw_cache.store.embedded import EmbeddedValkey
from openclaw_cache.store.remote import RemoteStore
from openclaw_cache.types import Json, Namespace


class EvictOrder(msgspec.Struct, forbid_unknown_fields=True):
    """Body of `POST /admin/evict`."""

    pattern: Annotated[str, msgspec.Meta(max_length=4096)]
    """Bounded, because it is compiled beside the event loop's other work."""
    type: Literal["result", "semantic", "kv", "memory", "all"] = "result"
    """`all` are the caches: what agents remember goes with `memory` only."""
    namespace: str | None = None
    agent: str | None = None
    """Only of this agent's memory."""
    dry_run: bool = False
    pinned: bool = False
    """Whether pins of matching prefixes end too."""


class InvalidateOrder(msgspec.Struct, forbid_unknown_fields=True):
    """Body of `POST /admin/invalidate`."""

    model: str


class RekeyOrder(msgspec.Struct, forbid_unknown_fields=True):
    """Body of `POST /admin/rekey`: nothing needs to be said."""


class Admin:
    """What an operator may see and do."""

    def __init__(
        self,
        *,
        gateway: Gateway,
        store: RemoteStore,
        embedded: EmbeddedValkey | None,
        pods: Mapping[str, EmbeddedPod],
        started_at: float,
        store_fault: Callable[[], str | None],
        kv: KvAdmin,
        authenticator: Authenticator,
        book: SavingsBook,
        semantic: SemanticAdmin,
        memory: MemoryAdmin,
        rekey_history: Callable[[], Awaitable[RekeyReport]],
    ) -> None:
        self._semantic = semantic
        self._memory = memory
        self._rekey_history = rekey_history
        self._gateway = gateway
        self._store = store
        self._embedded = embedded
        self._pods = pods
        self._started_at = started_at
        self._store_fault = store_fault
        self._kv = kv
        self._authenticator = authenticator
        self._book = book
        self._num_evictions_seen = 0

    async def serve(self, what: str, query: bytes, raw: bytes) -> Json:
        """Carry out one order. Raises RequestError."""
        if what == "evict":
            return await self._evict(decode_order(raw, EvictOrder))
        if what == "invalidate":
            return await self._invalidate(decode_order(raw, InvalidateOrder))
        if what == "rekey":
            return await self._rekey(decode_order(raw or b"{}", RekeyOrder))
        if what == "feedback" or what.startswith("explain/"):
            return await self._semantic.serve(what, raw)
        if what == "tree":
            return await self._kv.tree(query)
        return await self.status()

    async def refresh_gauges(self) -> None:
        """Bring what nobody updates on the way up to date; called before it is read. At most 0.5 s, never fails."""
        await self._kv.refresh_figures()
        stats, metrics = self._gateway.cache.stats(), self._gateway.metrics
        metrics.bytes.labels("result", "memory").set(stats.memory_bytes)
        metrics.capacity_bytes.labels("result", "memory").set(stats.capacity_bytes)
        new = stats.num_evictions - self._num_evictions_seen
        self._num_evictions_seen = stats.num_evictions
        metrics.evictions.labels("result", "space").inc(new)
        self._semantic.refresh_gauges(metrics)
        self._memory.refresh_gauges(metrics)
        for upstream in self._gateway.dispatch.upstreams:
            pod = self._pods.get(upstream.name)
            is_up = upstream.is_up if pod is None else pod.is_ready
            metrics.upstream_up.labels(upstream.name).set(is_up)

    async def _evict(self, order: EvictOrder) -> Json:
        if not order.pattern:
            raise RequestError(
                400, 'pattern: an empty one matches nothing; "*" is everything', param="pattern"
            )
        if order.type == "semantic":
            self._semantic.require()
        if order.pinned and order.type not in ("kv", "all"):
            raise RequestError(
                400, "pinned: only KV can be pinned: use it with type kv or all", param="pinned"
            )
        if order.agent is not None and order.type != "memory":
            raise RequestError(
                400, "agent: only memory is an agent's: use it with type memory", param="agent"
            )
        report: dict[str, Json] = {"type": order.type, "dry_run": order.dry_run}
        if order.type == "memory":
            return report | await self._memory.evict(
                order.pattern, order.namespace, order.agent, dry_run=order.dry_run
            )
        if order.type == "kv":
            self._kv.require_any()
        elif (fault := self._store_fault()) is not None:
            raise RequestError(
                503, f"evict: {fault}", kind="api_error", code="store_unchecked", retry_after_s=2
            )
        if order.type in ("kv", "all"):  # first: where an engine cannot, no reply has been removed yet
            report["kv"] = await self._kv.evict(
                order.pattern, order.namespace, dry_run=order.dry_run, pinned=order.pinned
            )
        return report if order.type == "kv" else report | await self._evict_replies(order)

    async def _evict_replies(self, order: EvictOrder) -> dict[str, Json]:
        namespace = Namespace(order.namespace) if order.namespace is not None else None
        try:
            report = await self._gateway.cache.evict(
                order.pattern,
                namespace=namespace,
                dry_run=order.dry_run,
                only_likeness=order.type == "semantic",
            )
        except StoreError as e:
            raise _store_failed(e, "memory was searched, the store was not, or not to its end") from None
        if not order.dry_run:
            layer = "semantic" if order.type == "semantic" else "result"
            self._gateway.metrics.evictions.labels(layer, "pattern").inc(report.num_matched)
        return {
            "num_matched": report.num_matched,
            "num_corrupt": report.num_corrupt,
            "memory_bytes": report.memory_bytes,
            "store_bytes": report.store_bytes,
            "num_by_model": dict(report.num_by_model),
            "sample": [msgspec.to_builtins(s) for s in report.sample],
        }

    async def _invalidate(self, order: InvalidateOrder) -> Json:
        if not order.model:
            raise RequestError(400, "model: name the model whose replies are outdated", param="model")
        try:
            done = await self._gateway.invalidate(order.model)
        except StoreError as e:
            raise _store_failed(e, f"{order.model!r} may not be invalidated: repeat the command") from None
        return {"model": order.model, "names": done.names, "served": done.served, "durable": done.durable}

    async def _rekey(self, _order: RekeyOrder) -> Json:
        if not self._gateway.cache.is_encrypted:
            raise RequestError(
                409, "rekey: nothing is encrypted here: set result_cache.encryption_key_env, and start anew"
            )
        if (fault := self._store_fault()) is not None:
            raise RequestError(
                503, f"rekey: {fault}", kind="api_error", code="store_unchecked", retry_after_s=2
            )
        try:
            by_kind = {"result": await self._gateway.cache.rekey(), "history": await self._rekey_history()}
        except StoreError as e:
            raise _store_failed(e, "some of it was rewritten: repeat the command") from None
        total = sum(by_kind.values(), RekeyReport())
        return {**msgspec.to_builtins(total), "by_kind": msgspec.to_builtins(by_kind)}

    async def status(self) -> Json:
        """All that is known now, for `status`, the dashboard and `analyze`."""
        gateway, metrics = self._gateway, self._gateway.metrics
        stats = gateway.cache.stats()
        hits, lookups = metrics.hit_window.counts(time.monotonic())
        kv = await self._kv.statuses()
        return {
            "version": __version__,
            "pid": os.getpid(),
            "started_at": self._started_at,
            "uptime_s": round(time.time() - self._started_at, 3),
            "upstreams": [self._upstream_status(u.name, kv) for u in gateway.dispatch.upstreams],
            "requests": {o: int(sum(by[o]._value.get() for by in metrics.requests_by.values())) for o in OUTCOMES},
            "requests_by_api": {
                api: {o: int(child._value.get()) for o, child in by.items()} for api, by in metrics.requests_by.items()
            },
            "savings": self._book.summary(),
            "keys": self._authenticator.status(),
            "inflight": {"held_bytes": gateway.inflight.held_bytes, "limit_bytes": gateway.inflight.limit_bytes},
            "hit_ratio": {"window_s": 900, "num_hits": hits, "num_lookups": lookups,
                          "ratio": round(hits / lookups, 4) if lookups else None},
            "saved_tokens": {
                layer: int(metrics.saved_tokens.labels(layer)._value.get()) for layer in LAYERS
            },
            "degraded": _counts(metrics.degraded.collect()),
            "flights": len(gateway.flights),
            "result_cache": {
                "enabled": gateway.policy.enabled,
                "ttl_s": gateway.ttl_s,
                "sampled": gateway.policy.sampled,
                "tools": gateway.policy.tools,
                "is_encrypted": gateway.cache.is_encrypted,
                "is_screened": gateway.cache.is_screened,
                "memory": msgspec.to_builtins(stats),
            },
            "semantic_cache": self._semantic.status(),
            "memory": self._memory.status(),
            "store": await self._store_status(),
        }  # fmt: skip

    def _upstream_status(self, name: str, kv: Mapping[str, Json]) -> Json:
        upstream = next(u for u in self._gateway.dispatch.upstreams if u.name == name)
        pod = self._pods.get(name)
        if pod is None:
            return {
                "name": name,
                "kind": upstream.kind,
                "is_up": upstream.is_up,
                "urls": upstream.urls,
                "models": upstream.models,
                "pods": upstream.status(),
            }
        return {
            "name": name,
            "kind": "embedded",
            "state": pod.state,
            "reason": pod.reason,
            "url": pod.url,
            "pid": pod.pid,
            "models": pod.model_ids,
            "fingerprint": pod.fingerprint,
            "kv": kv[name],
        }

    async def _store_status(self) -> Json:
        shown: dict[str, Json] = {
            "kind": "embedded" if self._embedded else "remote",
            "up": self._store.up,
        }
        if self._embedded is not None:
            shown |= {"pid": self._embedded.pid, "restarts": self._embedded.restarts}
        if (fault := self._store_fault()) is not None:
            shown["fault"] = fault
        try:
            shown["server"] = msgspec.to_builtins(await self._store.info())
        except StoreError as e:
            shown["reason"] = str(e)
        return shown


def _store_failed(error: StoreError, effect: str) -> RequestError:
    return RequestError(
        503,
        f"the store failed ({error}): {effect}",
        kind="api_error",
        code="store_unavailable",
        retry_after_s=2,
    )


def _counts(families: Iterable[Metric]) -> dict[str, int]:
    return {
        sample.labels["what"]: int(sample.value)
        for family in families
        for sample in family.samples
        if sample.name.endswith("_total")
    }
