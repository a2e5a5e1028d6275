"""One upstream, out of its settings."""

from __future__ import annotations

from collections.abc import Mapping

from openclaw_cache.api.key_rules import from_env
from openclaw_cache.gateway.pod import Pod
from openclaw_cache.gateway.upstream import Upstream
from openclaw_cache.observe.metrics import Metrics
from openclaw_cache.settings import UpstreamSettings


def upstream_of(
    settings: UpstreamSettings,
    pod: Pod | None,
    request_timeout_s: float,
    metrics: Metrics,
    env: Mapping[str, str],
) -> Upstream:
    """Make an upstream that is not started yet. Raises ConfigError where its key or its `ca_file` is not there."""
    return Upstream(
        name=settings.name,
        kind=settings.kind,
        urls=[u.url for u in settings.urls],
        weights=[u.weight for u in settings.urls],
        pod=pod,
        models=settings.models,
        relay=settings.relay,
        cache_hints=settings.cache_hints,
        canonical=settings.canonical,
        canonical_without=frozenset(settings.canonical_without),
        ca_file=settings.ca_file,
        probe_path=settings.probe_path,
        probe_interval_s=settings.probe_interval,
        api_key=from_env(env, f"upstreams.{settings.name}.api_key_env", settings.api_key_env),
        connect_timeout_s=settings.connect_timeout,
        idle_timeout_s=settings.idle_timeout,
        request_timeout_s=request_timeout_s,
        retries=settings.retries,
        ask_usage=settings.ask_usage,
        on_retry=metrics.upstream_retries.inc,
        on_reply=metrics.replies_of(settings.name),
    )
