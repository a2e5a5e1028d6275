"""The nodes of a cluster, and which of them serves which slot: read at start and kept right from then on."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from openclaw_cache.errors import ConfigError, StoreUnavailableError
from openclaw_cache.store.dial import LoginError
from openclaw_cache.store.slots import NUM_SLOTS, SlotRange, node_address
from openclaw_cache.store.survey import survey
from openclaw_cache.store.valkey import ValkeyStore

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Sequence

    from openclaw_cache.store.address import Address
    from openclaw_cache.store.pipeline import RedirectError

_REFRESH_APART_S: Final = 0.5
_GUEST_S: Final = 60.0


class Topology:
    """One `ValkeyStore`, with a circuit of its own, for each primary; and the table of slots.

    What a node says (-MOVED) corrects the table at once. Beyond that it is read anew in the background, one
    reading at a time and at most two a second: after a -MOVED, when a node is lost, and for as long as a node
    is down or a slot is served by nobody, because a replica may take over.

    Args:
        seeds: nodes to ask while no other answers; all nodes share their credentials and TLS.
        tls: the context, for seeds with TLS.
        timeout_s: of each node, as of `ValkeyStore`.
        durable_timeout_s: as of `ValkeyStore`.
        on_change: called with (up, reason) when a node, or the cluster as a whole, is lost or found.
    """

    def __init__(
        self,
        seeds: Sequence[Address],
        *,
        tls: ssl.SSLContext | None,
        timeout_s: float,
        durable_timeout_s: float,
        on_change: Callable[[bool, str], None] | None,
    ) -> None:
        self._seeds = seeds
        self._tls = tls
        self._timeout_s = timeout_s
        self._durable_timeout_s = durable_timeout_s
        self._on_change = on_change
        self._ranges: list[SlotRange] = []
        self._table: list[ValkeyStore | None] = [None] * NUM_SLOTS
        self._moved: dict[int, ValkeyStore] = {}  # what was learnt since the last reading began
        self._nodes: dict[Address, ValkeyStore] = {}
        self._asked_at: dict[Address, float] = {}  # by -ASK: it may not have a slot of its own yet
        self._starts: dict[Address, asyncio.Task[None]] = {}
        self._farewells: set[asyncio.Task[None]] = set()
        self._lost: set[Address] = set()
        self._down_because = "the store has not been started"
        self._wanted = asyncio.Event()
        self._ask_first: Address | None = None
        self._num_readings = 0
        self._reading: asyncio.Task[None] | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._closed = False

    async def start(self) -> None:
        """Read the table and connect to all primaries. A cluster that cannot be reached is no error.

        Raises:
            ConfigError: a server is there and refuses us, is not trusted, or is no cluster.
        """
        try:
            await self._refresh(strict=True)
        except LoginError as error:
            raise ConfigError(f"{error.setting}: {error}") from None
        except StoreUnavailableError as error:
            self._not_found(error)
        except BaseException:  # cancellation too: nobody else would close the nodes
            await self.aclose()
            raise
        self._keeper = asyncio.create_task(self._keep(), name="store-topology")

    async def aclose(self) -> None:
        """Wait for replies in flight on every node, then disconnect. Idempotent."""
        self._closed = True
        tasks = [task for task in (self._keeper, self._reading, *self._starts.values()) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(node.aclose() for node in self._nodes.values()), *self._farewells)
        self._nodes.clear()
        self._table = [None] * NUM_SLOTS
        self._down_because = "the store is closed"

    @property
    def up(self) -> bool:
        """Whether any node is up. O(nodes)."""
        return any(node.up for node in self._nodes.values())

    @property
    def ranges(self) -> Sequence[SlotRange]:
        """The table as it was last read."""
        return self._ranges

    def nodes(self) -> list[ValkeyStore]:
        """All nodes, up or not; raises StoreUnavailableError where none is known."""
        if not self._nodes:
            raise StoreUnavailableError(self._down_because)
        return list(self._nodes.values())

    def node_of(self, slot: int) -> ValkeyStore:
        """The node that serves a slot; raises StoreUnavailableError where there is none."""
        node = self._table[slot]
        if node is None:
            raise StoreUnavailableError(
                f"no node of the cluster serves slot {slot}" if self._nodes else self._down_because
            )
        return node

    async def follow(self, redirect: RedirectError, sent_by: ValkeyStore) -> ValkeyStore:
        """The node that another one sends us to; a new one gets `timeout_s` to be connected."""
        address = node_address(sent_by.address, redirect.host, redirect.port)
        if address not in self._nodes:
            self._add(address)
        node = self._nodes[address]
        if redirect.asking:
            self._asked_at[address] = asyncio.get_running_loop().time()
        else:
            self._table[redirect.slot] = self._moved[redirect.slot] = node
            self._ask_first = address  # it knows what others may not have heard yet
            self._wanted.set()
        if (start := self._starts.get(address)) is not None:
            await asyncio.wait({start}, timeout=self._timeout_s)
        return node

    def suspect(self) -> None:
        """Have the table read anew soon."""
        self._wanted.set()

    async def refresh(self) -> None:
        """Read the table, or wait for the reading that is under way. Raises StoreUnavailableError."""
        if self._closed:
            raise StoreUnavailableError(self._down_because)
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._refresh(), name="store-slots")
        reading = self._reading
        await asyncio.wait({reading})
        if reading.cancelled():
            raise StoreUnavailableError("the store is closed")
        reading.result()

    # internals

    async def _keep(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            try:
                await self.refresh()
            except StoreUnavailableError as error:
                self._not_found(error)
            if self._lost or None in self._table:
                self._wanted.set()
            await asyncio.sleep(_REFRESH_APART_S)

    def _not_found(self, error: StoreUnavailableError) -> None:
        is_news = not self._nodes and self._keeper is None  # later on, the circuits of the nodes tell
        self._down_because = str(error)
        self._wanted.set()
        if is_news:
            self._tell(False, self._down_because)

    async def _refresh(self, *, strict: bool = False) -> None:
        self._moved.clear()
        self._num_readings += 1
        ranges = await survey(
            self._in_turn(), self._seeds, tls=self._tls, timeout_s=max(self._timeout_s, 1.0)
        )
        was_known = bool(self._nodes)
        primaries = dict.fromkeys(span.primary for span in ranges)
        starts = [self._add(address, strict=strict) for address in primaries if address not in self._nodes]
        for outcome in await asyncio.gather(*starts, return_exceptions=True):
            if outcome is not None:
                raise outcome
        table: list[ValkeyStore | None] = [None] * NUM_SLOTS
        for span in ranges:
            table[span.first : span.last + 1] = [self._nodes[span.primary]] * (span.last + 1 - span.first)
        for slot, node in self._moved.items():
            table[slot] = node
        self._ranges, self._table = ranges, table
        long_ago = asyncio.get_running_loop().time() - _GUEST_S
        self._asked_at = {address: at for address, at in self._asked_at.items() if at > long_ago}
        stay = primaries.keys() | self._asked_at.keys() | {node.address for node in self._moved.values()}
        for address in self._nodes.keys() - stay:
            self._part_with(address)
        if not (was_known or strict):
            self._tell(True, "the cluster answers")

    def _in_turn(self) -> list[ValkeyStore]:
        """The nodes, another one first each time: one that is cut off from the others would know old things."""
        nodes = list(self._nodes.values())
        first = self._num_readings % len(nodes) if nodes else 0
        nodes = nodes[first:] + nodes[:first]
        if self._ask_first is not None:
            nodes.sort(key=lambda node: node.address != self._ask_first)
            self._ask_first = None
        return nodes

    def _add(self, address: Address, *, strict: bool = False) -> asyncio.Task[None]:
        """Begin to connect to a node."""

        def changed(up: bool, reason: str) -> None:
            if up:
                self._lost.discard(address)
            else:
                self._lost.add(address)
                self._wanted.set()
            self._tell(up, reason)

        node = self._nodes[address] = ValkeyStore(
            address,
            tls=self._tls,
            timeout_s=self._timeout_s,
            durable_timeout_s=self._durable_timeout_s,
            on_change=changed,
        )
        start = self._starts[address] = asyncio.create_task(node.start(strict=strict), name="store-node")
        start.add_done_callback(lambda _: self._starts.pop(address, None))
        return start

    def _part_with(self, address: Address) -> None:
        """Let go of a node that is no primary any more."""
        node, start = self._nodes.pop(address), self._starts.pop(address, None)

        async def close() -> None:
            if start is not None:
                start.cancel()
                await asyncio.wait({start})
            await node.aclose()

        farewell = asyncio.create_task(close(), name="store-node-close")
        self._farewells.add(farewell)
        farewell.add_done_callback(self._farewells.discard)
        if address in self._lost:
            self._lost.discard(address)
            self._tell(True, f"{address} is no primary any more; others serve its keys")

    def _tell(self, up: bool, reason: str) -> None:
        if self._on_change is not None and not self._closed:
            self._on_change(up, reason)
