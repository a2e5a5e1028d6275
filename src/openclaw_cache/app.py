"""Composition root: the only place that turns Settings into running objects."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack

import structlog
from blake3 import blake3

from openclaw_cache.api.admin import Admin
from openclaw_cache.api.auth import Authenticator, Principal, is_loopback
from openclaw_cache.api.kv import KvAdmin
from openclaw_cache.api.models import Models
from openclaw_cache.api.routes import Limits, Routes
from openclaw_cache.engine.pod import EmbeddedPod
from openclaw_cache.errors import ConfigError, StoreError
from openclaw_cache.gateway.gateway import Gateway
from openclaw_cache.gateway.kv_pod import KvPod
from openclaw_cache.gateway.kv_salt import KvSalt
from openclaw_cache.gateway.policy import Policy
from openclaw_cache.gateway.reading import Readings
from openclaw_cache.gateway.upstream import Upstream
from openclaw_cache.observe.metrics import Metrics
from openclaw_cache.result import secret as fleet_secret
from openclaw_cache.result.cache import ResultCache
from openclaw_cache.result.entry import EntryCodec
from openclaw_cache.result.key import Keyer
from openclaw_cache.result.memory import MemoryTier
from openclaw_cache.result.versions import Epochs, check_secret
from openclaw_cache.settings import ApiKey, Settings, UpstreamSettings
from openclaw_cache.store.embedded import EmbeddedValkey
from openclaw_cache.store.valkey import ValkeyStore
from openclaw_cache.types import Namespace

FLUSH_TIMEOUT_S = 10.0

_WEAK_KEYS = frozenset({
    "sk-1234", "sk-12345", "sk-xxx", "changeme", "change-me", "password", "secret", "admin", "test", "key",
    "1234", "12345", "123456", "token", "default", "example", "master", "masterkey",
})  # fmt: skip
"""Keys that stand in tutorials and so are tried first."""

_log = structlog.get_logger()


class App:
    """A gateway with everything it owns. `start` and `stop` in order; `asgi` between them."""

    def __init__(self, settings: Settings, say: Callable[[str], None], env: Mapping[str, str]) -> None:
        self.settings = settings
        self.metrics = Metrics()
        self.pods: dict[str, EmbeddedPod] = {}
        self.draining = False
        self._say = say
        self._env = env
        self._stack = AsyncExitStack()
        self._seen_down: set[str] = set()
        self._store_fault: str | None = None
        self._check_again: Callable[[], None] = lambda: None
        self._checking: asyncio.Task[None] | None = None
        self.asgi: Routes

    async def start(self) -> None:
        """Start the store and the pods (which load in the background) and build the gateway.

        Raises:
            ConfigError: naming the setting at fault.
        """
        server = self.settings.server
        authenticator = _authenticator(self.settings, self._env)
        try:
            server.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as e:
            raise ConfigError(f"server.data_dir: cannot create {server.data_dir}: {e}") from None
        secret = fleet_secret.load_or_create(server.secret_file or server.data_dir / "secret")
        embedded, store = await self._start_store()
        await self._check_store(store, secret)
        upstreams = [await self._start_upstream(u) for u in self.settings.upstreams]
        rules = self.settings.result_cache
        epochs = Epochs(store, exclusive=embedded is not None)
        keyer = Keyer(secret)
        cache = ResultCache(
            memory=MemoryTier(rules.max_memory),
            store=store,
            keyer=keyer,
            codec=EntryCodec(secret),
            on_degraded=self._degraded,
            exclusive=embedded is not None,
        )
        self._stack.push_async_callback(cache.aclose, FLUSH_TIMEOUT_S)
        credential_key = blake3(secret, derive_key_context="openclaw-cache credential namespace v1").digest()
        kv_salt = KvSalt(secret)
        policy = Policy(enabled=rules.enabled, sampled=rules.sampled, tools=rules.tools)
        gateway = Gateway(
            upstreams=upstreams,
            cache=cache,
            epochs=epochs,
            keyer=keyer,
            policy=policy,
            readings=Readings(policy, frozenset(rules.ignore)),
            metrics=self.metrics,
            kv_salt=kv_salt,
            ttl_s=rules.ttl,
            store_timeout_s=self.settings.store.timeout,
            on_degraded=self._degraded,
            credential_namespace=lambda token: Namespace(
                f"credential-{blake3(token, key=credential_key).hexdigest(8)}"
            ),
        )
        kv_pods = {name: KvPod(name, pod) for name, pod in self.pods.items()}
        for kv_pod in kv_pods.values():
            self._stack.push_async_callback(kv_pod.aclose)
        kv = KvAdmin(gateway, kv_pods, {"default", *(key.namespace for key in server.keys)})
        admin = Admin(
            gateway=gateway,
            store=store,
            embedded=embedded,
            pods=self.pods,
            started_at=time.time(),
            store_fault=lambda: self._store_fault,
            kv=kv,
        )
        limits = Limits(server.max_body, server.body_timeout, server.ping_interval)
        self.asgi = Routes(
            gateway=gateway,
            authenticator=authenticator,
            models=Models(upstreams),
            admin=admin,
            kv=kv,
            limits=limits,
            is_ready=self.why_not_ready,
        )

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

    async def _start_store(self) -> tuple[EmbeddedValkey | None, ValkeyStore]:
        settings = self.settings.store
        embedded, url = None, settings.url
        if url == "embedded":
            embedded = EmbeddedValkey(
                self.settings.server.data_dir, max_bytes=settings.max_memory, on_event=self._store_event
            )
            self._stack.push_async_callback(embedded.stop)  # first: a start that is cut off leaves a process
            url = await embedded.start()
        store = ValkeyStore(url, timeout_s=settings.timeout, on_change=self._store_changed)
        await store.start()
        self._stack.push_async_callback(store.aclose)
        return embedded, store

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
        upstream = Upstream(
            name=settings.name,
            urls=settings.urls,
            pod=pod,
            models=settings.models,
            api_key=_from_env(self._env, f"upstreams.{settings.name}.api_key_env", settings.api_key_env),
            connect_timeout_s=settings.connect_timeout,
            idle_timeout_s=settings.idle_timeout,
            request_timeout_s=self.settings.server.request_timeout,
            retries=settings.retries,
            ask_usage=settings.ask_usage,
            on_retry=self.metrics.upstream_retries.inc,
        )
        self._stack.push_async_callback(upstream.aclose)
        return upstream

    async def _check_store(self, store: ValkeyStore, secret: bytes) -> None:
        """Make sure that the store is our fleet's; where it is down, check when it comes up.

        Until then only misses can follow, since another fleet has other keys and checksums, but evict would
        take its entries for corrupt ones.
        """
        try:
            await check_secret(store, secret)
        except StoreError as e:
            self._store_fault = f"the store has not been reached yet, so it may be another fleet's ({e})"
            self._check_again = lambda: self._start_check(store, secret)

    def _start_check(self, store: ValkeyStore, secret: bytes) -> None:
        async def check() -> None:
            self._store_fault, self._check_again = None, lambda: None
            try:
                await self._check_store(store, secret)
            except ConfigError as e:
                self._store_fault = str(e)
                _log.error("the store belongs to another fleet", reason=str(e))

        self._checking = asyncio.get_running_loop().create_task(check())

    def _degraded(self, what: str) -> None:
        self.metrics.degraded.labels(what).inc()
        if what not in self._seen_down:
            self._seen_down.add(what)
            _log.warning("degraded", what=what, effect="counted as misses until it recovers")

    def _store_event(self, event: str) -> None:
        _log.warning("store", what=event)

    def _store_changed(self, up: bool, reason: str) -> None:
        if up:
            self._seen_down.clear()
            self._check_again()
            _log.info("store is back")
        else:
            _log.warning("store is down", reason=reason, effect="requests go on without it")


def _authenticator(settings: Settings, env: Mapping[str, str]) -> Authenticator:
    """Keys from the settings; refuses an open door.

    Raises:
        ConfigError: the server would answer other machines without both keys, or with a tutorial's key.
    """
    server = settings.server
    admin_key = _from_env(env, "server.admin_key_env", server.admin_key_env)
    keys: dict[bytes, Principal] = {}
    plain = [admin_key] if admin_key else []
    for i, key in enumerate(server.keys):
        text = key.key or _from_env(env, f"server.keys.{i}.key_env", key.key_env)
        if text:
            plain.append(text)
        digest = hashlib.sha256(text.encode()).digest() if text else bytes.fromhex(key.key_sha256 or "")
        if digest in keys:
            raise ConfigError(f"server.keys.{i}: the same key stands there twice")
        keys[digest] = _principal(key)
    if not is_loopback(server.host):
        missing = [
            n for n, given in (("server.keys", keys), ("server.admin_key_env", admin_key)) if not given
        ]
        if missing:
            raise ConfigError(
                f"server.host: {server.host} is open to other machines: set {' and '.join(missing)} too, "
                "or listen on 127.0.0.1"
            )
        weak_digests = {hashlib.sha256(k.encode()).digest() for k in _WEAK_KEYS}
        if any(k.lower() in _WEAK_KEYS for k in plain) or not weak_digests.isdisjoint(keys):
            raise ConfigError("server.keys: a key that everybody knows protects nothing: make a random one")
    return Authenticator(keys, admin_key)


def _principal(key: ApiKey) -> Principal:
    return Principal(Namespace(key.namespace), True, tuple(key.agents), tuple(key.models))


def _from_env(env: Mapping[str, str], field: str, name: str | None) -> str | None:
    if name is None:
        return None
    value = env.get(name)
    if not value:
        raise ConfigError(f"{field}: the environment variable {name} is not set")
    return value
