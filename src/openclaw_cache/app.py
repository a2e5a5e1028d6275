"""Composition root: the only place that turns Settings into running objects."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack

import structlog
from blake3 import blake3

from openclaw_cache.api import auth
from openclaw_cache.api.account import Account
from openclaw_cache.api.admin import Admin
from openclaw_cache.api.admission import NamespaceSlots
from openclaw_cache.api.agents.admin import MemoryAdmin
from openclaw_cache.api.analysis.analysis import Analysis
from openclaw_cache.api.analysis.semantic import SemanticAnalysis
from openclaw_cache.api.answering import Answering
from openclaw_cache.api.embedding import Embedding
from openclaw_cache.api.kv import KvAdmin
from openclaw_cache.api.models import Models
from openclaw_cache.api.passthrough import Passthrough
from openclaw_cache.api.requests import Explaining, Prefixes, RecentRequests
from openclaw_cache.api.routes import Routes
from openclaw_cache.api.semantic import SemanticAdmin
from openclaw_cache.api.visit import Door, Limits
from openclaw_cache.api.warm import Warming
from openclaw_cache.canonical import RULE_IDS
from openclaw_cache.embedding.shared import Embedders
from openclaw_cache.engine.pod import EmbeddedPod
from openclaw_cache.errors import ConfigError
from openclaw_cache.gateway.cache_hints import RoutingKeys
from openclaw_cache.gateway.canonical import Canonical
from openclaw_cache.gateway.dispatch import Dispatch
from openclaw_cache.gateway.embeddings import Embeddings
from openclaw_cache.gateway.embeddings.missed import MissedInputs
from openclaw_cache.gateway.gateway import Gateway
from openclaw_cache.gateway.inflight import InFlightBytes
from openclaw_cache.gateway.keys import Keys
from openclaw_cache.gateway.kv_pod import KvPod
from openclaw_cache.gateway.kv_salt import KvSalt
from openclaw_cache.gateway.negative import Failures
from openclaw_cache.gateway.negative_step import NegativeStep
from openclaw_cache.gateway.policy import Policy
from openclaw_cache.gateway.prefix_watch import PrefixWatch
from openclaw_cache.gateway.prompt_ids import PromptIds
from openclaw_cache.gateway.reading import Readings
from openclaw_cache.gateway.session_prompts import SessionHints
from openclaw_cache.gateway.upstream import Upstream
from openclaw_cache.gateway.why_missed import WhyMissed
from openclaw_cache.history_part import HistoryPart
from openclaw_cache.memory_part import MemoryPart
from openclaw_cache.observe.aside import Aside
from openclaw_cache.observe.degraded import effect
from openclaw_cache.observe.metrics import Metrics
from openclaw_cache.observe.prices import Prices
from openclaw_cache.observe.recent import Recent
from openclaw_cache.observe.savings import SavingsBook
from openclaw_cache.prefix.causes import CAUSES
from openclaw_cache.result import secret as fleet_secret
from openclaw_cache.result.cache import ResultCache
from openclaw_cache.result.encryption import EntryCipher, cipher_from_environment
from openclaw_cache.result.entry import EntryCodec
from openclaw_cache.result.key import Keyer
from openclaw_cache.result.memory import MemoryTier
from openclaw_cache.result.screen import Screen
from openclaw_cache.result.versions import Epochs
from openclaw_cache.semantic_part import SemanticPart
from openclaw_cache.settings import Settings, UpstreamSettings
from openclaw_cache.store_part import StorePart
from openclaw_cache.types import Namespace
from openclaw_cache.upstream_part import upstream_of

FLUSH_TIMEOUT_S = 10.0

_log = structlog.get_logger()


class App:
    """A gateway with everything it owns. `start` and `stop` in order; `asgi` between them."""

    def __init__(self, settings: Settings, say: Callable[[str], None], env: Mapping[str, str]) -> None:
        self.settings = settings
        self.metrics = Metrics()
        self.metrics.name_causes(CAUSES)
        self.metrics.name_rules(RULE_IDS)
        self.recent = Recent(settings.observe.requests)
        self.pods: dict[str, EmbeddedPod] = {}
        self._kv_pods: dict[str, KvPod] = {}
        self.draining = False
        self._say = say
        self._env = env
        self._stack = AsyncExitStack()
        self._seen_down: set[str] = set()
        self.gateway: Gateway
        self.asgi: Routes

    async def start(self) -> None:
        """Start the store and the pods (which load in the background) and build the gateway.

        Raises:
            ConfigError: naming the setting at fault.
        """
        server = self.settings.server
        authenticator = auth.authenticator(self.settings, self._env)
        try:
            server.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as e:
            raise ConfigError(f"server.data_dir: cannot create {server.data_dir}: {e}") from None
        secret = fleet_secret.load_or_create(server.secret_file or server.data_dir / "secret")
        prices = Prices.load(self.settings.savings.prices_file)
        prices.check_upstreams([u.name for u in self.settings.upstreams])
        cipher = self._cipher()
        codec = EntryCodec(secret, cipher)
        screen = self._screen()
        embedders = Embedders()
        semantic = SemanticPart(
            self.settings.semantic_cache, server.data_dir, self._env, embedders, self._say
        )
        memory = self._memory(secret, embedders)
        await authenticator.start()
        self._stack.push_async_callback(authenticator.aclose)
        store = StorePart(self.settings.store, server.data_dir, secret, self._seen_down.clear)
        self._stack.push_async_callback(store.aclose)
        await store.start()
        upstreams = [await self._start_upstream(u) for u in self.settings.upstreams]
        inflight = InFlightBytes(server.max_inflight)
        gateway = self._build_gateway(secret, store, codec, screen, upstreams, inflight)
        self.gateway = gateway
        self._stack.push_async_callback(gateway.cache.aclose, FLUSH_TIMEOUT_S)
        history = self._history(secret, cipher, store)
        self._stack.push_async_callback(history.aclose)  # after all that adds to it
        if gateway.prefixes is not None:
            self._stack.push_async_callback(gateway.prefixes.aclose)
        self._stack.push_async_callback(semantic.aclose)
        semantic.start(gateway)
        self._stack.push_async_callback(memory.aclose)
        memory.start()
        self.asgi = self._build_routes(gateway, authenticator, store, prices, semantic, memory, history)

    def _build_routes(
        self,
        gateway: Gateway,
        authenticator: auth.Authenticator,
        store: StorePart,
        prices: Prices,
        semantic: SemanticPart,
        memory: MemoryPart,
        history: HistoryPart,
    ) -> Routes:
        server, upstreams = self.settings.server, gateway.dispatch.upstreams
        kv = KvAdmin(gateway, self._kv_pods, authenticator.namespaces)
        book = SavingsBook()
        semantic_admin = SemanticAdmin(semantic)
        admin = Admin(
            gateway=gateway,
            store=store.store,
            embedded=store.embedded,
            pods=self.pods,
            started_at=time.time(),
            store_fault=lambda: store.fault,
            kv=kv,
            authenticator=authenticator,
            book=book,
            semantic=semantic_admin,
            memory=MemoryAdmin(memory.service),
            rekey_history=history.rekey,
        )
        limits = Limits(server.max_body, server.body_timeout, server.ping_interval)
        door = Door(authenticator, limits, NamespaceSlots(server.namespace_concurrency), gateway.inflight)
        history.start(admin.refresh_gauges)
        self._stack.push_async_callback(history.refresh)  # while the engines can still be asked
        sinks = [self.metrics.add, self.recent.add, history.add]
        account = Account(
            self.metrics, prices, book, sinks, history.durations, Aside("record", self._degraded)
        )
        hints = SessionHints(gateway.dispatch.session_prompts, self._kv_pods)
        return Routes(
            agents=memory.routes(door, hints),
            answering=Answering(gateway, door, account),
            embedding=Embedding(self._embeddings(gateway), gateway.dispatch, door, account),
            passthrough=Passthrough(upstreams, door, account),
            door=door,
            models=Models(upstreams),
            admin=admin,
            warming=Warming(kv, semantic_admin, gateway, self.settings.semantic_cache.max_age),
            views={
                "analyze": Analysis(
                    SemanticAnalysis(semantic), history.history, admin.status, history.refresh
                ).shown,
                "history": history.admin.shown,
                "savings": history.savings.shown,
                "requests": RecentRequests(self.recent).shown,
                "prefixes": Prefixes(gateway.prefixes).shown,
            },
            explaining=Explaining(self.recent, semantic_admin),
            metrics=self.metrics,
            is_ready=self.why_not_ready,
        )

    def _build_gateway(
        self,
        secret: bytes,
        store: StorePart,
        codec: EntryCodec,
        screen: Screen | None,
        upstreams: list[Upstream],
        inflight: InFlightBytes,
    ) -> Gateway:
        rules = self.settings.result_cache
        keyer, exclusive = Keyer(secret), store.embedded is not None
        cache = ResultCache(
            memory=MemoryTier(rules.max_memory),
            store=store.store,
            keyer=keyer,
            codec=codec,
            on_degraded=self._degraded,
            exclusive=exclusive,
            screen=screen,
            on_screened=lambda what, verdict: self.metrics.screened.labels(what, verdict).inc(),
        )
        credential_key = blake3(secret, derive_key_context="openclaw-cache credential namespace v1").digest()
        epochs = Epochs(store.store, exclusive=exclusive)
        policy = Policy(enabled=rules.enabled, sampled=rules.sampled, tools=rules.tools)
        dispatch = Dispatch(
            upstreams,
            KvSalt(secret),
            RoutingKeys(secret),
            lambda token: Namespace(f"credential-{blake3(token, key=credential_key).hexdigest(8)}"),
            canonical=Canonical(Aside("canonical", self._degraded)),
        )
        return Gateway(
            dispatch=dispatch,
            cache=cache,
            keys=Keys(epochs, keyer, self.settings.store.timeout, self._degraded),
            epochs=epochs,
            policy=policy,
            readings=Readings(
                policy, frozenset(rules.ignore), self.settings.server.max_messages, PromptIds(secret)
            ),
            metrics=self.metrics,
            inflight=inflight,
            ttl_s=rules.ttl,
            store_timeout_s=self.settings.store.timeout,
            on_degraded=self._degraded,
            prefixes=PrefixWatch(self._degraded) if self.settings.observe.prefixes else None,
            missed=WhyMissed(aside=Aside("misses", self._degraded)),
            negative=NegativeStep(Failures(rules.negative_ttl if rules.enabled else 0.0), self.metrics),
        )

    def _memory(self, secret: bytes, embedders: Embedders) -> MemoryPart:
        return MemoryPart(
            self.settings.memory,
            self.settings.server.data_dir,
            secret,
            self._env,
            embedders,
            self.metrics,
            self._degraded,
            self._say,
        )

    def _history(self, secret: bytes, cipher: EntryCipher | None, store: StorePart) -> HistoryPart:
        return HistoryPart(
            self.settings.server.data_dir,
            store.store,
            secret,
            cipher,
            self.metrics,
            self.pods,
            is_kept=self.settings.observe.history,
            may_use_store=lambda: store.fault is None,
            on_degraded=self._degraded,
        )

    def _embeddings(self, gateway: Gateway) -> Embeddings:
        embeddings = Embeddings(
            cache=gateway.cache,
            keys=gateway.keys,
            policy=gateway.policy,
            metrics=self.metrics,
            ignore=frozenset(self.settings.result_cache.ignore),
            ttl_s=gateway.ttl_s,
            store_timeout_s=gateway.store_timeout_s,
            on_degraded=self._degraded,
            outdated_at=gateway.outdated_at,
            inflight=gateway.inflight,
            missed=MissedInputs(gateway.readings.prompt_ids),
        )
        gateway.on_invalidate = embeddings.fetches.close
        return embeddings

    def _cipher(self) -> EntryCipher | None:
        name = self.settings.result_cache.encryption_key_env
        return None if name is None else cipher_from_environment(name, self._env)

    def _screen(self) -> Screen | None:
        rules = self.settings.result_cache.screen
        return Screen(rules) if rules else None

    async def stop(self) -> None:
        """Flush pending store writes, then stop what was started, last first."""
        await self._stack.aclose()

    def why_not_ready(self) -> str | None:
        """Why new requests should go elsewhere; None = they may come."""
        if self.draining:
            return "shutting down"
        for name, pod in self.pods.items():
            if pod.state != "ready":
                return f"the embedded model of upstream {name!r}: {pod.state}"
        return None

    async def _start_upstream(self, settings: UpstreamSettings) -> Upstream:
        pod = None
        if settings.kind == "embedded":
            pod = EmbeddedPod(
                model=settings.model or "",
                data_dir=self.settings.server.data_dir,
                threads=settings.threads,
                max_waiting=settings.max_waiting,
                kv=self.settings.kv_cache.for_engine(),
                device=settings.device,
                on_event=lambda line: self._say(f"{settings.name}: {line}"),
            )
            await pod.start()
            self._stack.push_async_callback(pod.stop)
            self.pods[settings.name] = pod
            self._kv_pods[settings.name] = kv_pod = KvPod(settings.name, pod)
            self._stack.push_async_callback(kv_pod.aclose)
        upstream = upstream_of(settings, pod, self.settings.server.request_timeout, self.metrics, self._env)
        self._stack.push_async_callback(upstream.aclose)
        upstream.start()
        return upstream

    def _degraded(self, what: str) -> None:
        self.metrics.degraded.labels(what).inc()
        if what not in self._seen_down:
            self._seen_down.add(what)
            _log.warning("degraded", what=what, effect=effect(what))
