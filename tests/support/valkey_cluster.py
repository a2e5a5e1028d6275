"""A real Valkey cluster on loopback: primaries with all slots between them, and replicas where wanted."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from openclaw_cache.errors import StoreError
from openclaw_cache.store.address import Address
from openclaw_cache.store.dial import dial
from openclaw_cache.store.pipeline import encode
from openclaw_cache.testing import start_valkey, until_answering

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator, Sequence
    from pathlib import Path

NUM_SLOTS = 16384


@dataclass
class Node:
    """One server of the cluster."""

    address: Address
    bus_port: int
    folder: Path
    options: tuple[str, ...]
    process: subprocess.Popen[bytes]

    @property
    def port(self) -> int:
        return self.address.port

    @property
    def url(self) -> str:
        return f"redis+cluster://127.0.0.1:{self.port}"

    async def order(self, *words: bytes | str | int) -> Any:
        """Send one command on a connection of its own."""
        link = await dial(self.address, timeout_s=20.0)
        try:
            return await link.send(encode(*(w if isinstance(w, bytes) else str(w).encode() for w in words)))
        finally:
            link.close()

    async def node_id(self) -> str:
        name: bytes = await self.order("CLUSTER", "MYID")
        return name.decode()

    async def view(self) -> frozenset[tuple[bytes, ...]]:
        """Of each node of the cluster, as this one knows it: its name, its configuration epoch, and its slots."""
        lines = (await self.order("CLUSTER", "NODES")).splitlines()
        fields = [[field for field in line.split() if not field.startswith(b"[")] for line in lines]
        return frozenset((name, epoch, *slots) for name, _, _, _, _, _, epoch, _, *slots in fields)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    async def restart(self) -> None:
        self.process = start_valkey(self.folder, *self.options)
        await until_answering(self.address, self.process)


@dataclass
class Cluster:
    """Its servers: the primaries, in the order of their slots, then one replica of each where there are any."""

    nodes: list[Node]

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    async def owner(self, slot: int) -> Node:
        """The primary that serves a slot, as the first node that runs knows it."""
        asked = next(node for node in self.nodes if node.process.poll() is None)
        for first, last, primary, *_ in await asked.order("CLUSTER", "SLOTS"):
            if first <= slot <= last:
                return next(node for node in self.nodes if node.port == primary[1])
        raise LookupError(f"slot {slot} is served by nobody")

    async def flush(self) -> None:
        """Remove every key, at once."""
        for node in self.nodes:
            await node.order("FLUSHALL", "SYNC")

    async def begin_move(self, slot: int, source: Node, target: Node) -> None:
        """From here on, what the source does not have is asked of the target (-ASK)."""
        await target.order("CLUSTER", "SETSLOT", slot, "IMPORTING", await source.node_id())
        await source.order("CLUSTER", "SETSLOT", slot, "MIGRATING", await target.node_id())

    async def move(self, slot: int, target: Node) -> None:
        """Move a slot and all it has."""
        source = await self.owner(slot)
        await self.begin_move(slot, source, target)
        await self.move_keys(slot, source, target)
        await self.end_move(slot, target)

    async def move_keys(self, slot: int, source: Node, target: Node, most: int = 10_000) -> int:
        """Move what the slot has; the source still answers for it."""
        keys = await source.order("CLUSTER", "GETKEYSINSLOT", slot, most)
        if keys:
            await source.order("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys)
        return len(keys)

    async def end_move(self, slot: int, target: Node) -> None:
        """From here on, the target answers for the slot (-MOVED elsewhere), and all nodes agree on it.

        A node that has not heard of the target's new configuration epoch would take the same one in its own next move:
        then an old heartbeat can undo that move.
        """
        name = await target.node_id()
        for node in [target, *(node for node in self.nodes if node is not target)]:
            await node.order("CLUSTER", "SETSLOT", slot, "NODE", name)
        async with asyncio.timeout(60):
            while len({await node.view() for node in self.nodes}) > 1:
                await asyncio.sleep(0.02)


@contextlib.contextmanager
def running_cluster(
    folder: Path,
    *options: str,
    num_primaries: int = 3,
    with_replicas: bool = False,
    idle: int = 0,
    client_ports: Sequence[int] = (),
    password: str | None = None,
) -> Iterator[Cluster]:
    """Run a cluster; takes about three seconds.

    `idle` more primaries have no slots. `client_ports` are what the nodes tell clients instead of their own.
    """
    num_nodes = num_primaries * (2 if with_replicas else 1) + idle
    ports = free_ports(2 * num_nodes)
    nodes = []
    try:
        for number, (port, bus_port) in enumerate(zip(ports[::2], ports[1::2], strict=True)):
            place = folder / str(port)
            place.mkdir()
            own = (
                *("--port", str(port), "--bind", "127.0.0.1", "--cluster-port", str(bus_port)),
                *("--cluster-enabled", "yes", *options),
            )
            if client_ports:
                own += ("--cluster-announce-client-port", str(client_ports[number]))
            if password:
                own += ("--requirepass", password, "--primaryauth", password)
            process = start_valkey(place, *own)
            address = Address("127.0.0.1", port, password=password)
            nodes.append(Node(address, bus_port, place, own, process))
        asyncio.run(_join(nodes, num_primaries, with_replicas=with_replicas))
        yield Cluster(nodes)
    finally:
        for node in nodes:
            node.kill()


async def _join(nodes: list[Node], num_primaries: int, *, with_replicas: bool) -> None:
    for number, node in enumerate(nodes):
        await until_answering(node.address, node.process)
        if number:
            await node.order("CLUSTER", "MEET", "127.0.0.1", nodes[0].port, nodes[0].bus_port)
        if number < num_primaries:
            first = NUM_SLOTS * number // num_primaries
            last = NUM_SLOTS * (number + 1) // num_primaries - 1
            await node.order("CLUSTER", "ADDSLOTSRANGE", first, last)
    await _until(nodes, f"cluster_known_nodes:{len(nodes)}", "cluster_state:ok")
    if with_replicas:
        for primary, replica in zip(nodes[:num_primaries], nodes[num_primaries:], strict=False):
            name = await primary.node_id()
            while True:  # it must have heard of the primary's slots first
                with contextlib.suppress(StoreError):
                    await replica.order("CLUSTER", "REPLICATE", name)
                    break
                await asyncio.sleep(0.05)
        for replica in nodes[num_primaries : 2 * num_primaries]:
            while b"master_link_status:up" not in await replica.order("INFO", "replication"):
                await asyncio.sleep(0.05)
        for node in nodes:
            while any(len(span) < 4 for span in await node.order("CLUSTER", "SLOTS")):
                await asyncio.sleep(0.05)


async def _until(nodes: list[Node], *facts: str) -> None:
    async with asyncio.timeout(60):
        for node in nodes:
            while True:
                lines = (await node.order("CLUSTER", "INFO")).decode().splitlines()
                spans = await node.order("CLUSTER", "SLOTS")
                served = sum(last - first + 1 for first, last, *_ in spans)
                if all(fact in lines for fact in facts) and served == NUM_SLOTS:
                    break
                await asyncio.sleep(0.05)


def free_ports(number: int) -> list[int]:
    """TCP ports on loopback that nothing listened on a moment ago, all different."""
    with contextlib.ExitStack() as stack:
        listeners = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(number)]
        return [listener.getsockname()[1] for listener in listeners]
