"""The prefix index over ready block hashes: for who has the names of a prompt's blocks, but not its tokens.

A router or a directory of other hosts asks it how much of a prompt somebody holds, and where. It is a radix tree
whose edges are runs of block hashes, packed.

The rule that it lives on: what is known of a path is a prefix of it. A block is never known without all blocks
before it, as `insert` takes paths from their root and `forget` takes their ends, with all that continues them. A hash
covers its ancestors (`kv.hashing`), so one hash found answers for all before it: a whole run is passed with one
comparison, and where a path leaves a run is found by halving.

Pure bookkeeping: no I/O, no clock, no locks; one thread owns it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from openclaw_cache.kv.block import IntegrityError
from openclaw_cache.kv.hashing import HASH_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from openclaw_cache.kv.node import Int32s

_SLOT_BYTES: Final = 4


@dataclass(slots=True, eq=False)
class Run:
    """Blocks that no branch interrupts. The run above all paths has none.

    Attributes:
        start: number, on the path, of its first block.
        names: their hashes, one behind the other.
        slots: an int32 for each, packed likewise.
        children: the runs that continue it, by their first hash.
    """

    parent: Run | None
    start: int
    names: bytearray = field(default_factory=bytearray)
    slots: bytearray = field(default_factory=bytearray)
    children: dict[bytes, Run] = field(default_factory=dict)

    @property
    def end(self) -> int:
        """Number of the block after the last."""
        return self.start + len(self.names) // HASH_BYTES

    def subtree(self) -> Iterator[Run]:
        """This run and all below it, parents first. Not while the index changes."""
        stack = [self]
        while stack:
            run = stack.pop()
            yield run
            stack.extend(run.children.values())

    def split(self, number: int) -> Run:
        """Give the blocks before `number` to a new run between this one and its parent; return it."""
        at = number - self.start
        upper = Run(self.parent, self.start, self.names[: at * HASH_BYTES], self.slots[: at * _SLOT_BYTES])
        if self.parent is not None:
            self.parent.children[bytes(self.names[:HASH_BYTES])] = upper
        self.names, self.slots = self.names[at * HASH_BYTES :], self.slots[at * _SLOT_BYTES :]
        self.parent, self.start = upper, number
        upper.children[bytes(self.names[:HASH_BYTES])] = self
        return upper


class Known(NamedTuple):
    """What an index knows of a path: so many leading blocks, the last of them in `run`. Right until it changes."""

    num_blocks: int
    run: Run

    def slots(self) -> Int32s:
        """The blocks' slots, int32 [num_blocks]. Cost: O(blocks)."""
        parts, run = [self.run.slots], self.run.parent
        while run is not None:
            parts.append(run.slots)
            run = run.parent
        return np.frombuffer(b"".join(reversed(parts)), np.int32, self.num_blocks)


class HashIndex:
    """Which paths of block hashes are known, and an int32 for each block: where it is, as its owner counts.

    Roots need no key: the namespace and the model are in every hash.

    Attributes:
        num_blocks: how many blocks are known.
    """

    __slots__ = ("_top", "num_blocks")

    def __init__(self) -> None:
        self._top = Run(None, 0)
        self.num_blocks = 0

    def match(self, names: Sequence[bytes]) -> Known:
        """The longest known prefix of a path, given by its block hashes (32 bytes each, from the root on).

        Cost: one comparison per run, and O(log blocks) of them in the run that the path leaves.
        """
        run, position, num_names = self._top, 0, len(names)
        while position < num_names:
            child = run.children.get(names[position])
            if child is None:
                break
            run = child
            known = run.names
            num = min(num_names - position, len(known) // HASH_BYTES)
            if known.startswith(names[position + num - 1], (num - 1) * HASH_BYTES):
                position += num
                continue
            low, high = 1, num - 1  # the first is equal, the last is not
            while low < high:
                middle = (low + high) // 2
                if known.startswith(names[position + middle], middle * HASH_BYTES):
                    low = middle + 1
                else:
                    high = middle
            return Known(position + low, run)
        return Known(position, run)

    def insert(self, names: Sequence[bytes], slots: Int32s) -> Known:
        """Note that the blocks of a path are there; returns what was known of it before.

        A known block keeps its slot. Cost: O(new blocks), O(blocks of a run) where one is split.

        Args:
            names: the hashes of all blocks of the path, from the root on.
            slots: int32 [len(names)].

        Raises:
            ValueError: the shapes do not fit, or the new hashes are not 32 bytes each on average. Nothing was changed.
        """
        if slots.dtype != np.int32 or slots.shape != (len(names),):
            raise ValueError(f"{len(names)} blocks have not the slots {slots.dtype} {list(slots.shape)}")
        before = self.match(names)
        run, position = before.run, before.num_blocks
        if position == len(names):
            return before
        new = names[position:]
        packed, places = bytearray().join(new), bytearray(slots[position:].data)
        if len(packed) != len(new) * HASH_BYTES:
            raise ValueError(f"a block hash has {HASH_BYTES} bytes")
        if position < run.end:
            run = run.split(position)
            before = Known(position, run)
        if run.children or run.parent is None:
            run.children[new[0]] = Run(run, position, packed, places)
        else:
            run.names += packed
            run.slots += places
        self.num_blocks += len(new)
        return before

    def forget(self, names: Sequence[bytes], num_kept: int = 0) -> Int32s:
        """Forget a path's blocks from number `num_kept` on, with all that continues them; returns their slots.

        Nothing happens where the block of that number is not known. Cost: O(runs below).
        """
        known = self.match(names[: num_kept + 1])
        run = known.run
        if known.num_blocks <= num_kept or run.parent is None:
            return np.empty(0, np.int32)
        if num_kept > run.start:
            run.split(num_kept)
        parent = run.parent
        del parent.children[names[num_kept]]
        gone = np.frombuffer(b"".join(below.slots for below in run.subtree()), np.int32)
        self.num_blocks -= len(gone)
        return gone

    def check_integrity(self) -> None:
        """Raise IntegrityError, naming the fault, unless all rules of the index hold. Cost: O(blocks)."""
        num_blocks = 0
        for run in self._top.subtree():
            num = len(run.slots) // _SLOT_BYTES
            num_blocks += num
            if len(run.names) != num * HASH_BYTES or (run is self._top) == (num > 0):
                raise IntegrityError(f"the run at {run.start} has {len(run.names)} bytes for {num} blocks")
            for name, child in run.children.items():
                if child.parent is not run or child.start != run.end or not child.names.startswith(name):
                    raise IntegrityError(f"the run at {child.start} hangs in a wrong place")
        if num_blocks != self.num_blocks:
            raise IntegrityError(f"{self.num_blocks} blocks are counted, {num_blocks} are there")
