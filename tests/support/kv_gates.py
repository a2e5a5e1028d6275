"""Stores and a clock that a test can hold up, break, damage and look into."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from openclaw_cache.kv.codec import Codec, KvLayout
from openclaw_cache.kv.disk import DiskStore
from openclaw_cache.kv.disk_record import RecordFormat
from openclaw_cache.kv.tiers import HostStore, Record

B = 4
LAYOUT = KvLayout(num_layers=2, num_kv_heads=1, head_dim=4, block_tokens=B)
RECORDS = RecordFormat(LAYOUT)
WAIT_S = 20.0


class Clock:
    """Time as the test says; it only creeps by itself, so that nothing is infinitely fast."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        self.now += 1e-7
        return self.now


class Gate:
    """What a test may do to a store: hold up its calls, fail them, count them."""

    def __init__(self) -> None:
        self.is_open = threading.Event()
        self.is_open.set()
        self.is_broken = False
        self.num_held_up = 0
        self.num_blocks: Counter[str] = Counter()
        self.before: Callable[[str], None] = lambda _: None

    def enter(self, call: str, num_blocks: int) -> None:
        self.num_blocks[call] += num_blocks
        self.before(call)
        self.num_held_up += 1
        assert self.is_open.wait(WAIT_S)
        self.num_held_up -= 1
        if self.is_broken:
            raise OSError(5, "the disk is broken")


class GatedHost(HostStore):
    def __init__(self, num_slots: int, codec: Codec, gate: Gate) -> None:
        super().__init__(num_slots, codec)
        self.gate = gate

    def write(self, slots: NDArray[np.int32], records: Sequence[Record], payload: torch.Tensor) -> None:
        self.gate.enter("write", len(slots))
        super().write(slots, records, payload)

    def read_layer(self, slots: NDArray[np.int32], layer: int) -> torch.Tensor:
        self.gate.enter("read" if layer == 0 else "read on", len(slots))
        return super().read_layer(slots, layer)

    def peek(self, slot: int, layer: int) -> torch.Tensor:
        return super().read_layer(np.array([slot], np.int32), layer)

    def damage(self, slot: int) -> None:
        self._arena[slot, 3] ^= 1


class GatedDisk(DiskStore):
    gate = Gate()

    def write(self, slots: NDArray[np.int32], records: Sequence[Record], payload: torch.Tensor) -> None:
        self.gate.enter("write", len(slots))
        super().write(slots, records, payload)

    def read_layer(self, slots: NDArray[np.int32], layer: int) -> torch.Tensor:
        self.gate.enter("read" if layer == 0 else "read on", len(slots))
        return super().read_layer(slots, layer)

    def peek(self, slot: int, layer: int) -> torch.Tensor:
        return super().read_layer(np.array([slot], np.int32), layer)

    def forget(self, slots: NDArray[np.int32]) -> None:
        self.gate.enter("forget", len(slots))
        super().forget(slots)

    def damage(self, slot: int) -> None:
        """Flip a bit of a block's first layer, as a bad sector would."""
        with (self.folder / "data").open("r+b") as file:
            file.seek(slot * self.block_bytes + 3)
            byte = file.read(1)[0]
            file.seek(-1, 1)
            file.write(bytes([byte ^ 1]))

    def index(self) -> list[tuple[int, Record]]:
        """What a later process would find."""
        return list(RECORDS.unpack((self.folder / "index").read_bytes(), 0))
