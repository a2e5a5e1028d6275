"""Ask a cluster for its slots: the nodes that we are connected to first, then the seeds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from openclaw_cache.errors import StoreError, StoreUnavailableError
from openclaw_cache.store.dial import LoginError, dial, explain
from openclaw_cache.store.pipeline import RefusedError, encode
from openclaw_cache.store.slots import SlotRange, read_slots

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterable

    from openclaw_cache.store.address import Address
    from openclaw_cache.store.pipeline import Reply
    from openclaw_cache.store.valkey import ValkeyStore

# Of all versions, and it gives the port that fits the connection, with TLS or without.
_CLUSTER_SLOTS: Final = encode(b"CLUSTER", b"SLOTS")


async def survey(
    nodes: Iterable[ValkeyStore], seeds: Iterable[Address], *, tls: ssl.SSLContext | None, timeout_s: float
) -> list[SlotRange]:
    """Return the first slot map that somebody gives. Dead seeds cost up to a second each.

    Raises:
        LoginError: nobody gives one, and one of the seeds refuses us, is not trusted, or is no cluster.
        StoreUnavailableError: nobody gives one.
    """
    refusal: LoginError | None = None
    reasons: list[str] = []
    for node in nodes:
        if node.up:
            try:
                return _read(await node.send(_CLUSTER_SLOTS), node.address)
            except StoreError as error:
                reasons.append(str(error))
    for seed in seeds:
        try:
            return _read(await _ask(seed, tls, timeout_s), seed)
        except LoginError as error:
            refusal = refusal or error
        except StoreError as error:
            reasons.append(str(error))
    raise refusal or StoreUnavailableError("; ".join(reasons))


async def _ask(seed: Address, tls: ssl.SSLContext | None, timeout_s: float) -> Reply:
    link = await dial(seed, tls=tls, timeout_s=timeout_s)
    try:
        return await link.send(_CLUSTER_SLOTS)
    except RefusedError as error:
        if "cluster support disabled" in str(error):
            scheme = "rediss" if seed.tls else "redis"
            raise LoginError(f"{seed} is a single server: write {scheme}:// without +cluster") from None
        raise explain(error, seed) from None
    finally:
        link.close()


def _read(reply: Reply, asked: Address) -> list[SlotRange]:
    try:
        ranges = read_slots(reply, asked)
    except ValueError as error:
        raise StoreUnavailableError(f"{asked}: CLUSTER SLOTS gave {error}") from None
    if not ranges:
        raise StoreUnavailableError(f"{asked}: the cluster has no slots assigned")
    return ranges
