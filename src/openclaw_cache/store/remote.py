"""The store behind `store.url`, whatever its form."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openclaw_cache.errors import ConfigError
from openclaw_cache.store.address import is_cluster, parse_seeds, parse_url
from openclaw_cache.store.cluster import ClusterStore
from openclaw_cache.store.tls import TlsFiles, client_context
from openclaw_cache.store.valkey import ValkeyStore

if TYPE_CHECKING:
    from collections.abc import Callable

RemoteStore = ValkeyStore | ClusterStore


def open_store(
    url: str,
    *,
    tls: TlsFiles | None = None,
    timeout_s: float = 0.050,
    durable_timeout_s: float = 5.0,
    on_change: Callable[[bool, str], None] | None = None,
) -> RemoteStore:
    """Make the store of this URL; nothing is connected before its `start`.

    Args:
        url: `redis://`, `rediss://`, `unix://`, `redis+cluster://` or `rediss+cluster://`; see `address`.
        tls: files for the forms with TLS.
        timeout_s: the most a frozen server can cost a call.
        durable_timeout_s: how long `make_durable` waits for a server's disk.
        on_change: called with (up, reason) when a server is lost or found again.

    Raises:
        ConfigError: the URL or a file is wrong, or there are files though the URL has no TLS.
    """
    seeds = parse_seeds(url) if is_cluster(url) else (parse_url(url),)
    if tls and not seeds[0].tls:
        setting = next(name for name in ("ca_file", "cert_file", "key_file") if getattr(tls, name))
        raise ConfigError(f"store.{setting}: store.url has no TLS: write rediss:// or rediss+cluster://")
    context = client_context(tls) if seeds[0].tls else None
    if is_cluster(url):
        return ClusterStore(
            seeds, tls=context, timeout_s=timeout_s, durable_timeout_s=durable_timeout_s, on_change=on_change
        )
    return ValkeyStore(
        seeds[0], tls=context, timeout_s=timeout_s, durable_timeout_s=durable_timeout_s, on_change=on_change
    )
