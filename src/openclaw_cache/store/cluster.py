"""A Store on a Valkey or Redis cluster: each key on the primary that serves its slot."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Final, TypeVar

from openclaw_cache.errors import StoreError, StoreUnavailableError
from openclaw_cache.store.pipeline import RedirectError, RefusedError, encode
from openclaw_cache.store.slots import slot_of
from openclaw_cache.store.store import StoreInfo
from openclaw_cache.store.topology import Topology
from openclaw_cache.store.valkey import FENCE_KEY, ValkeyStore, get_command, set_command

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence

    from openclaw_cache.store.address import Address
    from openclaw_cache.store.pipeline import Reply

T = TypeVar("T")

_ASKING: Final = encode(b"ASKING")
_CLUSTER_NODES: Final = encode(b"CLUSTER", b"NODES")
_LEAVING_SLOT: Final = b"->-"  # how a node's own line in CLUSTER NODES marks a slot that it gives away
_MAX_REDIRECTS: Final = 5
_MAX_ROUNDS: Final = 3


class ClusterStore:
    """Store on a cluster; see `Store` for what each method means, and `Topology` for how nodes are found.

    Each primary has its own connection and circuit: while one is down, keys of the others are served, and
    its own fail at once. Methods that concern all nodes fail when one of them does: half an answer would
    pass for a whole one.

    Args:
        seeds: nodes to ask for all others; the first that answers is enough.
        tls: the context, for seeds with TLS.
        timeout_s: the most a frozen node can cost a call.
        durable_timeout_s: how long `make_durable` waits for each node.
        on_change: called with (up, reason) when a node, or the whole cluster at start, is lost or found.
    """

    def __init__(
        self,
        seeds: Sequence[Address],
        *,
        tls: ssl.SSLContext | None = None,
        timeout_s: float = 0.050,
        durable_timeout_s: float = 5.0,
        on_change: Callable[[bool, str], None] | None = None,
    ) -> None:
        self._seeds = seeds
        self._topology = Topology(
            seeds, tls=tls, timeout_s=timeout_s, durable_timeout_s=durable_timeout_s, on_change=on_change
        )

    def __repr__(self) -> str:
        return f"ClusterStore({', '.join(map(str, self._seeds))}, up={self.up})"

    async def start(self) -> None:
        """Find the nodes and connect. A cluster that cannot be reached is no error: it is looked for on.

        Raises:
            ConfigError: a server is there and refuses us, is not trusted, or is no cluster.
        """
        await self._topology.start()

    @property
    def up(self) -> bool:
        """Whether any node is up: calls for its keys have a chance."""
        return self._topology.up

    async def get(self, key: bytes) -> bytes | None:
        """Return the value or None."""
        value: bytes | None = await self._run(key, get_command(key))
        return value

    async def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return one value or None for each key, by one GET each (MGET takes keys of one slot only)."""
        self._topology.nodes()
        return await _all(self._run(key, get_command(key)) for key in keys)

    async def put(self, key: bytes, value: bytes, ttl_s: float | None = None) -> None:
        """Store the value; a `ttl_s` below one millisecond counts as one."""
        await self._run(key, set_command(key, value, ttl_s))

    async def add(self, key: bytes, value: bytes) -> bytes:
        """Store the value if absent; return the stored one. One round trip where it is present."""
        while True:
            stored = await self.get(key)
            if stored is not None:
                return stored
            if await self._run(key, encode(b"SETNX", key, value)):
                return value

    async def delete(self, *keys: bytes) -> int:
        """Remove the keys, by one UNLINK each. When it raises, those on nodes that answer are gone."""
        self._topology.nodes()
        return sum(await _all(self._run(key, encode(b"UNLINK", key)) for key in keys))

    async def scan(self, prefix: bytes) -> AsyncIterator[bytes]:
        """Yield the keys of one node after the other.

        A key that moves to a node already scanned would be missed; so when slots moved meanwhile all is
        scanned again, up to three times, and if they still move, it fails. Also when it fails, keys of
        the nodes that answer have been yielded.
        """
        await self._topology.refresh()
        for _ in range(_MAX_ROUNDS):
            before = await self._settled()
            failure: StoreError | None = None
            for node in self._topology.nodes():
                try:
                    async for key in node.scan(prefix):
                        yield key
                except StoreError as error:
                    failure = error
            if failure is not None:
                raise failure
            await self._topology.refresh()
            if before is not None and await self._settled() == before:
                return
        raise StoreUnavailableError("the cluster is moving slots: not every key could be seen")

    async def make_durable(self) -> bool:
        """Wait for the disks of all primaries, and for their replicas to have received everything.

        A replica that lacks a write loses it when it takes over.
        """
        for turn in range(_MAX_ROUNDS):
            await self._topology.refresh()  # replicas that have failed are no longer waited for
            try:
                return all(await _all(self._fence(node, turn) for node in self._topology.nodes()))
            except RedirectError:  # the fence's slot has moved
                continue
        raise StoreUnavailableError("the cluster is moving slots: not every write could be confirmed")

    async def info(self) -> StoreInfo:
        """Read INFO and DBSIZE of every primary: sums, the shortest uptime, all versions."""
        infos = await _all(node.info() for node in self._topology.nodes())
        bounds = [info.max_bytes for info in infos]
        return StoreInfo(
            version=", ".join(sorted({info.version for info in infos})),
            uptime_s=min(info.uptime_s for info in infos),
            used_bytes=sum(info.used_bytes for info in infos),
            max_bytes=None if None in bounds else sum(bound or 0 for bound in bounds),
            num_keys=sum(info.num_keys for info in infos),
            num_evictions=sum(info.num_evictions for info in infos),
            durable=all(info.durable for info in infos),
        )

    async def aclose(self) -> None:
        """Wait for replies in flight, then disconnect. Idempotent."""
        await self._topology.aclose()

    # internals

    async def _run(self, key: bytes, command: bytes) -> Reply:
        node = self._topology.node_of(slot_of(key))
        try:
            return await node.send(command)
        except RefusedError as refusal:
            return await self._follow(refusal, node, command)

    async def _follow(self, refusal: RefusedError, node: ValkeyStore, command: bytes) -> Reply:
        for _ in range(_MAX_REDIRECTS):
            if not isinstance(refusal, RedirectError):
                self._topology.suspect()  # -CLUSTERDOWN, among others
                raise refusal
            node = await self._topology.follow(refusal, node)
            try:
                if not refusal.asking:
                    return await node.send(command)
                # Sent in one turn, so that no other command comes between the two.
                _, reply = await asyncio.gather(node.send(_ASKING), node.send(command))
            except RefusedError as again:
                refusal = again
            else:
                return reply
        raise StoreUnavailableError("the nodes of the cluster send us to each other in circles")

    async def _settled(self) -> Sequence[object] | None:
        """The table of slots, None while a node gives one away."""
        lines = await _all(_send(node, _CLUSTER_NODES) for node in self._topology.nodes() if node.up)
        return None if any(_LEAVING_SLOT in text for text in lines) else self._topology.ranges

    async def _fence(self, node: ValkeyStore, turn: int) -> bool:
        spans = [span for span in self._topology.ranges if span.primary == node.address]
        if not spans:
            raise StoreUnavailableError(f"{node.address} is being given its first slots")
        # Any key will do that the node serves; each turn tries others, in case one's slot is on the move.
        slots = {slot for span in spans for slot in range(span.first, span.last + 1)}
        keys = (b"%b:%d" % (FENCE_KEY, number) for number in itertools.count(turn << 20))
        key = next(key for key in keys if slot_of(key) in slots)
        return await node.fence(key, num_replicas=max(span.num_replicas for span in spans))


async def _send(node: ValkeyStore, command: bytes) -> Reply:
    return await node.send(command)


async def _all(calls: Iterable[Awaitable[T]]) -> list[T]:
    """The results of all calls, which run together; when some fail, the first failure after all have ended."""
    results = []
    for outcome in await asyncio.gather(*calls, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome
        results.append(outcome)
    return results
