"""A Store on one Valkey or Redis server, over one pipelined connection behind a circuit breaker."""

from __future__ import annotations

import asyncio
import contextlib
import re
from typing import TYPE_CHECKING, Final

from openclaw_cache.errors import ConfigError, StoreError, StoreUnavailableError
from openclaw_cache.store.address import Address, parse_url
from openclaw_cache.store.dial import LoginError, dial
from openclaw_cache.store.pipeline import Pipeline, RefusedError, encode
from openclaw_cache.store.store import StoreInfo
from openclaw_cache.store.tls import client_context

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Callable, Sequence

    from openclaw_cache.store.pipeline import Reply

_GLOB: Final = re.compile(rb"([*?\[\]\\^-])")
_SCAN_COUNT: Final = b"512"
FENCE_KEY: Final = b"openclaw-cache:fence"
_MAX_BACKOFF_S: Final = 2.0
_STEADY_S: Final = 2.0  # a connection that lived this long has earned an immediate reconnect


def get_command(key: bytes) -> bytes:
    """Encode GET."""
    return b"*2\r\n$3\r\nGET\r\n$%d\r\n%b\r\n" % (len(key), key)


def set_command(key: bytes, value: bytes, ttl_s: float | None) -> bytes:
    """Encode SET; a `ttl_s` below one millisecond counts as one."""
    if ttl_s is None:
        return encode(b"SET", key, value)
    return encode(b"SET", key, value, b"PX", b"%d" % max(1, round(ttl_s * 1000)))


class ValkeyStore:
    """Store on a Redis-protocol server; see `Store` for what each method means.

    A server that is silent for `timeout_s` while a reply is due opens the circuit: what is in flight
    fails, later calls fail without waiting, and one background task reconnects (0.1 s apart, doubling
    to 2 s) and closes the circuit once PING is answered within `timeout_s`.

    Args:
        place: an address, or a URL for `address.parse_url`.
        tls: of an address with TLS; without it the system's certificate authorities are trusted.
        timeout_s: the most a frozen server can cost a call; large transfers that progress may take longer.
        max_pending_bytes: above this many unsent bytes, calls fail at once.
        on_change: called with (up, reason) whenever the circuit closes or opens after `start`, and
            when `start` finds the server down.

    Raises:
        ConfigError: the URL is wrong.
    """

    def __init__(
        self,
        place: str | Address,
        *,
        tls: ssl.SSLContext | None = None,
        timeout_s: float = 0.050,
        durable_timeout_s: float = 5.0,
        max_pending_bytes: int = 64 << 20,
        on_change: Callable[[bool, str], None] | None = None,
    ) -> None:
        self._address = parse_url(place) if isinstance(place, str) else place
        self._tls = client_context() if self._address.tls and tls is None else tls
        self._timeout_s = timeout_s
        self._durable_timeout_s = durable_timeout_s
        self._max_pending_bytes = max_pending_bytes
        self._on_change = on_change
        self._link: Pipeline | None = None
        self._down_because = "the store has not been started"
        self._backoff_s = 0.0
        self._up_since = 0.0
        self._recovery: asyncio.Task[None] | None = None
        self._closed = False

    def __repr__(self) -> str:
        return f"ValkeyStore({str(self._address)!r}, up={self.up})"

    async def start(self, *, strict: bool = True) -> None:
        """Connect. A server that cannot be reached is no error: the circuit starts open.

        Raises:
            ConfigError: the server is there and refuses our credentials or database, or its certificate is
                not trusted. Unless `strict`, that opens the circuit like any other failure.
        """
        try:
            self._close_circuit(await self._dial())
        except StoreUnavailableError as error:
            if strict and isinstance(error, LoginError):
                raise ConfigError(f"{error.setting}: {error}") from None
            self._open_circuit(str(error))

    @property
    def address(self) -> Address:
        """The server's address."""
        return self._address

    @property
    def up(self) -> bool:
        """Whether the circuit is closed."""
        return self._link is not None

    def send(self, command: bytes) -> asyncio.Future[Reply]:
        """Queue an encoded command, as `Pipeline.send`. Raises StoreUnavailableError while the circuit is open."""
        return self._live().send(command)

    async def get(self, key: bytes) -> bytes | None:
        """Return the value or None."""
        value: bytes | None = await self._live().send(get_command(key))
        return value

    async def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return one value or None for each key, by one MGET."""
        link = self._live()
        if not keys:
            return []
        values: list[bytes | None] = await link.send(encode(b"MGET", *keys))
        return values

    async def put(self, key: bytes, value: bytes, ttl_s: float | None = None) -> None:
        """Store the value; a `ttl_s` below one millisecond counts as one."""
        await self._live().send(set_command(key, value, ttl_s))

    async def add(self, key: bytes, value: bytes) -> bytes:
        """Store the value if absent; return the stored one. One round trip where it is present."""
        while True:
            stored = await self.get(key)
            if stored is not None:
                return stored
            if await self._live().send(encode(b"SETNX", key, value)):
                return value

    async def delete(self, *keys: bytes) -> int:
        """Remove the keys, freed in the server's background."""
        link = self._live()
        if not keys:
            return 0
        num_deleted: int = await link.send(encode(b"UNLINK", *keys))
        return num_deleted

    async def scan(self, prefix: bytes) -> AsyncIterator[bytes]:
        """Yield keys by SCAN, about 512 looked at in each step."""
        pattern = _GLOB.sub(rb"\\\1", prefix) + b"*"
        cursor = b"0"
        link = self._live()  # one for the whole scan: after a restart a cursor means other keys
        while True:
            command = encode(b"SCAN", cursor, b"MATCH", pattern, b"COUNT", _SCAN_COUNT)
            cursor, keys = await link.send(command)
            for key in keys:
                yield key
            if cursor == b"0":
                return

    async def make_durable(self) -> bool:
        """See `fence`."""
        return await self.fence(FENCE_KEY)

    async def fence(self, key: bytes, *, num_replicas: int = 0) -> bool:
        """Write a short-lived key and wait for its fsync (WAITAOF), on a connection of its own.

        WAITAOF holds up its connection until the server's next fsync (up to about a second under
        `appendfsync everysec`), so it must not share the one that serves requests; and it waits only
        for writes of its own connection, hence the fence. Servers before 7.2 do not know it: False.

        Args:
            key: the key to write: in a cluster, one that the node serves.
            num_replicas: so many replicas must have received everything too (WAIT): what one of them
                lacks is lost when it takes over.
        """
        self._live()
        wait_ms = b"%d" % round(self._durable_timeout_s * 1000)
        link = await dial(self._address, tls=self._tls, timeout_s=self._durable_timeout_s + 1)
        try:
            await link.send(encode(b"SET", key, b"", b"PX", b"1000"))
            num_local, _ = await link.send(encode(b"WAITAOF", b"1", b"0", wait_ms))
            if num_replicas and num_local:
                num_received = await link.send(encode(b"WAIT", b"%d" % num_replicas, wait_ms))
                if num_received < num_replicas:
                    raise StoreUnavailableError(
                        f"{self._address}: a replica did not follow within {self._durable_timeout_s:g} s"
                    )
        except RefusedError as error:
            if "appendonly" in str(error) or "unknown command" in str(error):
                return False
            raise
        finally:
            link.close()
        if not num_local:
            raise StoreUnavailableError(f"the store did not fsync within {self._durable_timeout_s:g} s")
        return True

    async def info(self) -> StoreInfo:
        """Read INFO and DBSIZE."""
        text: bytes = await self._live().send(encode(b"INFO"))
        num_keys: int = await self._live().send(encode(b"DBSIZE"))
        pairs = (line.partition(":") for line in text.decode("utf-8", "replace").splitlines())
        fields = {name: value for name, _, value in pairs}
        return StoreInfo(
            version=fields.get("valkey_version") or fields.get("redis_version", "unknown"),
            uptime_s=float(fields.get("uptime_in_seconds", 0)),
            used_bytes=int(fields.get("used_memory", 0)),
            max_bytes=int(fields.get("maxmemory", 0)) or None,
            num_keys=num_keys,
            num_evictions=int(fields.get("evicted_keys", 0)),
            durable=fields.get("aof_enabled") == "1",
        )

    async def aclose(self) -> None:
        """Wait for replies in flight, then disconnect."""
        self._closed = True
        if self._recovery is not None:
            self._recovery.cancel()
            await asyncio.wait({self._recovery})
            self._recovery = None
        link, self._down_because = self._link, "the store is closed"
        if link is not None:
            with contextlib.suppress(StoreError):
                await link.send(encode(b"PING"))  # replies come in order: this one is the last
            self._link = None
            link.close()

    # the circuit

    def _live(self) -> Pipeline:
        if self._link is None:
            raise StoreUnavailableError(self._down_because)
        return self._link

    async def _dial(self) -> Pipeline:
        return await dial(
            self._address,
            tls=self._tls,
            timeout_s=self._timeout_s,
            max_pending_bytes=self._max_pending_bytes,
            on_lost=self._on_lost,
        )

    def _on_lost(self, link: Pipeline, reason: str) -> None:
        if link is self._link:  # not one that failed while it introduced itself
            if asyncio.get_running_loop().time() - self._up_since >= _STEADY_S:
                self._backoff_s = 0.0
            else:
                self._back_off()
            self._open_circuit(f"{self._address}: {reason}")

    def _open_circuit(self, reason: str) -> None:
        self._link = None
        self._down_because = reason
        if self._closed:
            return
        self._recovery = asyncio.create_task(self._recover(), name="store-recovery")
        if self._on_change is not None:
            self._on_change(False, reason)

    def _close_circuit(self, link: Pipeline) -> None:
        self._link = link
        self._up_since = asyncio.get_running_loop().time()

    async def _recover(self) -> None:
        while True:
            await asyncio.sleep(self._backoff_s)
            try:
                link = await self._dial()
            except StoreError as error:
                self._down_because = str(error)
                self._back_off()
            else:
                self._close_circuit(link)
                if self._on_change is not None:
                    self._on_change(True, f"{self._address} answers again")
                return

    def _back_off(self) -> None:
        self._backoff_s = min(_MAX_BACKOFF_S, max(0.1, self._backoff_s * 2))
