"""A whole small prefix cache, whose KV is a function of the tokens before it, so that any block can be judged."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from blake3 import blake3
from numpy.typing import NDArray

from openclaw_cache.engine.arena import Arena
from openclaw_cache.kv.block import NOWHERE, BlockPool, Tier
from openclaw_cache.kv.cache import PrefixCache
from openclaw_cache.kv.codec import Codec, Kind
from openclaw_cache.kv.disk import DiskStore
from openclaw_cache.kv.eviction import POLICIES
from openclaw_cache.kv.hashing import ModelIdentity
from openclaw_cache.kv.hold import Hold
from openclaw_cache.kv.lower import LowerTiers, Write
from openclaw_cache.kv.movement import Movement
from openclaw_cache.kv.node import Node
from openclaw_cache.kv.radix import RadixTree
from openclaw_cache.kv.tiers import TierStore
from support.kv_gates import LAYOUT, RECORDS, WAIT_S, B, Clock, Gate, GatedDisk, GatedHost

SALT = b"one"
SHIFT = 0.5
"""By so much differs what is computed on a prefix that is not exact: far more than a codec's own error."""
INT8_ERROR = 0.13
"""Half a step of int8 is 16 / 127 / 2 at most, here with the rounding of its scale, and twice over."""

Tokens = tuple[int, ...]


def array(tokens: Sequence[int]) -> NDArray[np.int32]:
    return np.array(tokens, np.int32)


@lru_cache(maxsize=50_000)
def exact(salt: bytes, tokens: Tokens) -> torch.Tensor:
    """The KV of these tokens [layers, 2, tokens, 1, 4], each from all before it; eighths below 16, exact in fp16."""
    if not tokens:
        return torch.empty((2, 2, 0, 1, 4))
    raw = blake3(salt + b"/" + array(tokens).tobytes()).digest(length=16)
    last = torch.frombuffer(bytearray(raw), dtype=torch.int8).float().div(8).view(2, 2, 1, 1, 4)
    return torch.cat([exact(salt, tokens[:-1]), last], dim=2)


@dataclass(eq=False)
class Run:
    """A sequence as an engine has it: all its tokens, and how many of them are computed."""

    salt: bytes
    tokens: Tokens
    hold: Hold
    is_volatile: bool
    num_computed: int

    @property
    def computed(self) -> NDArray[np.int32]:
        return array(self.tokens[: self.num_computed])


class KvSite:
    """The parts of the KV cache put together as the engine does it, with room for few blocks.

    Args:
        folder: of the disk tier.
        kind: of codec.
        write: see `LowerTiers`.
        policy: of eviction.
        device, host, disk: blocks of each tier; 0 leaves a lower one out.
        reserve: blocks kept for those who run.
        is_enabled: see `PrefixCache`.
        deadline_s: of a transfer.
        weights: another text is another model.
    """

    def __init__(
        self,
        folder: Path,
        *,
        kind: Kind = "fp16",
        write: Write = "through",
        policy: str = "lru",
        device: int = 24,
        host: int = 16,
        disk: int = 32,
        reserve: int = 0,
        is_enabled: bool = True,
        deadline_s: float = 5.0,
        weights: str = "f00d",
    ) -> None:
        self.clock = Clock()
        self.events: list[str] = []
        self.codec = Codec(kind, LAYOUT)
        self.gates = {Tier.HOST: Gate(), Tier.DISK: Gate()}
        self.identity = ModelIdentity(fingerprint=weights, kv_dtype=kind, layout="lkv", rope="10000")
        self.arena = Arena(LAYOUT, device, torch.float32, "cpu")
        stores: dict[Tier, TierStore] = {}
        if host:
            self.host = stores[Tier.HOST] = GatedHost(host, self.codec, self.gates[Tier.HOST])
        if disk:
            max_bytes = disk * (self.codec.block_bytes + RECORDS.record_bytes)
            opened = GatedDisk.open(folder, self.codec, self.identity, max_bytes)
            assert isinstance(opened, GatedDisk)
            opened.gate = self.gates[Tier.DISK]
            self.disk = stores[Tier.DISK] = opened
        self.movement = Movement(
            self.arena, self.codec, stores,
            deadline_s=deadline_s, clock=self.clock, on_event=self.events.append,
        )  # fmt: skip
        self.tree = RadixTree(B)
        self.device = BlockPool(device, 8)
        sizes = {tier: store.num_slots for tier, store in stores.items()}
        self.lower = LowerTiers(
            self.tree, self.device, self.movement, sizes, self.identity, POLICIES[policy](), write
        )
        self.num_restored = 0
        if disk:
            found = self.disk.recover()
            orphans = self.lower.restore(found)
            self.num_restored = len(found) - len(orphans)
            if len(orphans):
                DiskStore.forget(self.disk, orphans)
        self.cache = PrefixCache(
            self.tree, self.device, self.lower, self.movement, self.arena, self.codec,
            is_enabled=is_enabled, reserve_blocks=reserve,
        )  # fmt: skip
        self.cache.poll(self.clock())

    # -- what an engine does

    def start(
        self,
        tokens: Sequence[int],
        salt: bytes = SALT,
        *,
        is_volatile: bool = False,
        keeps_reserve: bool = False,
        most_cached: int | None = None,
    ) -> Run | None:
        """Ask for blocks, as for a prompt."""
        most = len(tokens) - 1 if most_cached is None else most_cached
        hold = self.cache.acquire(
            salt, array(tokens), most_cached=most, is_volatile=is_volatile, keeps_reserve=keeps_reserve
        )
        return None if hold is None else Run(salt, tuple(tokens), hold, is_volatile, hold.num_cached)

    def settle(self, run: Run) -> Literal["there", "coming", "lost"]:
        if not run.hold.is_loading:
            return "there"
        state = self.cache.settle(run.hold)
        run.num_computed = min(run.num_computed, run.hold.num_cached)
        return state

    def compute(self, run: Run, num: int | None = None) -> None:
        """Compute the next tokens, all by default, on what the arena really has of those before."""
        end = len(run.tokens) if num is None else min(len(run.tokens), run.num_computed + num)
        begin, whole = run.num_computed, exact(run.salt, run.tokens[:end])
        is_exact = torch.equal(self.content(run.hold.table, begin), whole[:, :, :begin])
        new = whole[:, :, begin:] + (0 if is_exact else SHIFT)
        for layer in range(LAYOUT.num_layers):
            self.arena.keys_values(layer)[:, self._slots(run.hold.table, begin, end)] = new[layer]
        run.num_computed = end

    def commit(self, run: Run) -> None:
        self.cache.commit(run.hold, run.computed)

    def release(self, run: Run) -> None:
        self.cache.release(run.hold)

    def serve(self, tokens: Sequence[int], salt: bytes = SALT, *, is_volatile: bool = False) -> int:
        """A whole request; returns how many of its tokens came from the cache. Waits for what it starts."""
        run = self.start(tokens, salt, is_volatile=is_volatile)
        assert run is not None
        self.until(lambda: self.settle(run) == "there")
        num_cached = run.num_computed
        assert (
            torch.equal(self.content(run.hold.table, num_cached), exact(salt, run.tokens[:num_cached]))
            or self.codec.is_lossy
        )
        self.compute(run)
        self.commit(run)
        self.release(run)
        self.drain()
        return num_cached

    # -- time and transfers

    def poll(self, passed_s: float = 0.0) -> None:
        self.clock.now += passed_s
        self.cache.poll(self.clock())

    def until(self, is_so: Callable[[], bool]) -> None:
        """Poll until it is so."""
        end = time.monotonic() + WAIT_S
        while not is_so():
            assert time.monotonic() < end, "it did not come about"
            time.sleep(0.0005)
            self.poll()

    def drain(self) -> None:
        """Until nothing moves any more."""
        self.until(lambda: self.movement.num_pending == 0 and not self.cache.is_busy)

    def rest(self) -> None:
        """Until every worker has done all it can or is held up by a gate."""
        end = time.monotonic() + WAIT_S
        while self.movement.num_pending and not any(gate.num_held_up for gate in self.gates.values()):
            assert time.monotonic() < end
            time.sleep(0.0002)

    def close(self, *, crashes: bool = False) -> None:
        if crashes:
            assert self.movement.close(WAIT_S)
        else:
            self.cache.close()

    # -- what there is

    def content(self, table: NDArray[np.int32], num_tokens: int) -> torch.Tensor:
        """K and V of the first tokens of some device blocks [layers, 2, tokens, 1, 4]."""
        slots = self._slots(table, 0, num_tokens)
        return torch.stack([self.arena.keys_values(layer)[:, slots] for layer in range(LAYOUT.num_layers)])

    def below(self, tier: Tier, slot: int) -> torch.Tensor:
        """K and V of a block in a lower tier [layers, 2, B, 1, 4]. Raises CorruptBlockError."""
        store = self.host if tier is Tier.HOST else self.disk
        out = torch.empty((LAYOUT.num_layers, 2, 1, B, 1, 4))
        for layer in range(LAYOUT.num_layers):
            self.codec.decode_layer(store.peek(slot, layer), out[layer])
        return out[:, :, 0]

    def num_in(self, tier: Tier) -> int:
        """Blocks that the tree has in a tier, tails included."""
        return sum(node.num_held(tier) for node in self.tree.nodes())

    def tiers_of(self, tokens: Sequence[int], salt: bytes = SALT) -> list[str]:
        """Of each whole cached block the tiers that have it, as "VHD" for de-V-ice, Host, Disk."""
        slots = self.tree.match(salt, array(tokens)).slots()
        return ["".join(name for name, slot in zip("VHD", column, strict=True) if slot != NOWHERE)
                for column in slots.T]  # fmt: skip

    def slot_of(self, tier: Tier, tokens: Sequence[int], number: int, salt: bytes = SALT) -> int:
        return int(self.tree.match(salt, array(tokens)).slots()[tier, number])

    def node_of(self, tokens: Sequence[int], salt: bytes = SALT) -> Node:
        return self.tree.match(salt, array(tokens)).node

    def check_all_free(self) -> None:
        """No pin and no reference is left: everything can be evicted from everywhere."""
        assert all(node.num_pins == 0 for node in self.tree.nodes())
        for tier, pool in [(Tier.DEVICE, self.device), *self.lower.pools.items()]:
            assert pool.num_blocks - pool.num_free == self.num_in(tier)
        self.cache.check_integrity()

    def _slots(self, table: NDArray[np.int32], begin: int, end: int) -> NDArray[np.int64]:
        places = np.arange(begin, end)
        return table[places // B].astype(np.int64) * B + places % B


@contextmanager
def sites(folder: Path) -> Iterator[Callable[..., KvSite]]:
    """Makes sites over the same folder (of which one may be open at a time), and closes them all at the end."""
    with ExitStack() as open_sites:

        def make(**args: object) -> KvSite:
            site = KvSite(folder, **args)  # type: ignore[arg-type]
            open_sites.callback(_end, site)
            return site

        yield make


def _end(site: KvSite) -> None:
    for gate in site.gates.values():
        gate.is_open.set()
    site.movement.close(WAIT_S)


def begun(run: Run | None) -> Run:
    """There was room for it."""
    assert run is not None
    return run


def found(run: Run) -> tuple[int, str]:
    """How many tokens a sequence got, and of each whole block from where."""
    return run.hold.num_cached, "".join("VHD"[tier] for tier in run.hold.tiers.tolist())


def check(site: KvSite, run: Run) -> None:
    """What it has computed and got is the KV of its tokens."""
    num = run.num_computed
    assert torch.equal(site.content(run.hold.table, num), exact(run.salt, run.tokens[:num]))


A: Tokens = tuple(range(100, 124))
"""Six blocks."""
Z: Tokens = tuple(range(200, 224))
"""Six others."""


def on_host(site: KvSite, num: int = 16) -> None:
    """Have the first blocks of A on host (and disk) only."""
    site.serve(A[:num])
    site.lower.evict(Tier.DEVICE, 24)
    assert set(site.tiers_of(A[:num])) <= {"H", "HD"}
