"""The byte store: what the gateway asks of a shared place for small values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence


@dataclass(frozen=True, slots=True)
class StoreInfo:
    """What a server says about itself, for `status`.

    `max_bytes` is None where the server sets no bound. `durable` tells whether it keeps an
    append-only file, so that `Store.make_durable` can succeed.
    """

    version: str
    uptime_s: float
    used_bytes: int
    max_bytes: int | None
    num_keys: int
    num_evictions: int
    durable: bool


class Store(Protocol):
    """Bytes by key, shared by all gateways of a fleet; any value may vanish at any time.

    Every method raises `StoreUnavailableError` at once while the store is down, and within the
    implementation's time bound when it goes down meanwhile; a write that raised may still take
    effect later. Writes raise `StoreFullError` when the server refuses them for want of memory or disk.
    """

    @property
    def up(self) -> bool:
        """Whether the next call has a chance; never waits."""
        ...

    async def get(self, key: bytes) -> bytes | None:
        """Return the value, or None when absent or expired."""
        ...

    async def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return one value or None for each key, in order. O(number of keys)."""
        ...

    async def put(self, key: bytes, value: bytes, ttl_s: float | None = None) -> None:
        """Store the value, replacing an older one and its expiry; without `ttl_s` it stays."""
        ...

    async def add(self, key: bytes, value: bytes) -> bytes:
        """Store the value if the key is absent, atomically; return the value that is now stored."""
        ...

    async def delete(self, *keys: bytes) -> int:
        """Remove the keys; return how many existed. O(number of keys)."""
        ...

    def scan(self, prefix: bytes) -> AsyncIterator[bytes]:
        """Yield each key that begins with exactly these bytes.

        Keys present from start to end come at least once (rarely twice); keys that come or go
        meanwhile may or may not. O(all keys of the server), in short steps that let others in.
        """
        ...

    async def make_durable(self) -> bool:
        """Wait until every write answered before this call has been fsynced on the server.

        Returns False where the server cannot promise that (no append-only file). May take seconds;
        it does not hold up other calls.
        """
        ...

    async def info(self) -> StoreInfo:
        """Ask the server about itself: also the quick way to learn whether it answers."""
        ...

    async def aclose(self) -> None:
        """Wait for calls in flight, within the time bound, and let go of the server. Idempotent."""
        ...
