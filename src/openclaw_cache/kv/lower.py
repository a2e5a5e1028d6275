"""The tiers below the device as the cache uses them: what goes down, what makes room, what outlived a restart."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import numpy as np

from openclaw_cache.kv.block import NOWHERE, BlockPool, Tier
from openclaw_cache.kv.hashing import block_hash, chain, root_hash
from openclaw_cache.kv.jobs import Save
from openclaw_cache.kv.match import Match
from openclaw_cache.kv.node import Flag
from openclaw_cache.kv.radix import PinError
from openclaw_cache.kv.tiers import Record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openclaw_cache.kv.eviction import Eviction
    from openclaw_cache.kv.frontier import Victim
    from openclaw_cache.kv.hashing import ModelIdentity
    from openclaw_cache.kv.movement import Movement
    from openclaw_cache.kv.node import Int32s, Node
    from openclaw_cache.kv.radix import Dropped, RadixTree

Write = Literal["through", "back"]


@dataclass(frozen=True, slots=True)
class _Saving:
    """A copy on its way down: of the path blocks `numbers` of `node`, which is pinned meanwhile."""

    node: Node
    numbers: Int32s


class LowerTiers:
    """Host and disk: their slots, and the copies that are made into them.

    `through`: a block is copied to every tier below as soon as it is complete, so that eviction above only
    forgets. `back`: it is copied one tier down when it is to be evicted, and goes when the copy is there.
    A tier that is off, or has no room now, is passed over for the next one; nothing here fails a request.

    Args:
        tree, device: the index and the device's blocks.
        movement: does the copying.
        sizes: slots of each lower tier.
        identity: of the model, for the blocks' names.
        policy: who is evicted first.

    Attributes:
        pools: slots of each tier.
        num_evicted_blocks: blocks that have left each tier to make room.
    """

    def __init__(
        self,
        tree: RadixTree,
        device: BlockPool,
        movement: Movement,
        sizes: Mapping[Tier, int],
        identity: ModelIdentity,
        policy: Eviction,
        write: Write,
    ) -> None:
        self.pools = {tier: BlockPool(num) for tier, num in sorted(sizes.items())}
        self.num_evicted_blocks = dict.fromkeys(Tier, 0)
        self._tree = tree
        self._device = device
        self._movement = movement
        self._identity = identity
        self._policy = policy
        self._write = write
        self._savings: dict[Save, _Saving] = {}
        self._now = 0.0

    def saving(self) -> list[Save]:
        """The copies on their way down."""
        return list(self._savings)

    def written(self, node: Node, first: int, last: int) -> None:
        """The path blocks [first, last) up to `node` are complete on the device."""
        if self._write == "through":
            below = [tier for tier in self.pools if self._movement.is_alive(tier)]
            for source, tier in pairwise([Tier.DEVICE, *below]):
                self._save(tier, node, first, last, source)

    def evict(self, tier: Tier, num_blocks: int, *, all_or_none: bool = False) -> None:
        """Make room in a tier: forget what is of the least use, or begin to copy it down first.

        Copies that were begun for the same purpose before count as room. `all_or_none`: change nothing where
        less than that can go, since what is cached would be lost for nothing.
        """
        below = self._below(tier) if self._write == "back" else None
        if below is not None:
            leaving = (job for job in self._savings if job.source is tier and not job.is_cancelled)
            num_blocks -= sum(len(job.slots) for job in leaving)
        victims = self._tree.victims(tier, num_blocks, self._policy, self._now)
        if all_or_none and sum(_num_slots(victim, tier) for victim in victims) < num_blocks:
            return
        for victim in victims:
            node, base = victim.node, victim.node.first_block
            if node.num_pins:  # a copy of what hangs below it has been begun just now
                continue
            self._policy.taken(node, tier, self._now, self._tree.rhythm)
            if victim.has_tail and (tail := self._tree.drop_tail(node)) != NOWHERE:
                self._device.release(np.array([tail], np.int32))
            if below is not None and self._save(below, node, base + victim.first, base + victim.last):
                continue
            # Making room for copies may have shortened it, or have begun to copy it down from another tier.
            if not node.num_pins and victim.first < (last := min(victim.last, node.num_blocks)):
                dropped = self._tree.drop(node, tier, victim.first, last)
                self.num_evicted_blocks[tier] += len(dropped.slots_by_tier.get(tier, ()))
                self.free(dropped)

    def free(self, dropped: Dropped) -> None:
        """Give back the slots that the tree has let go; no later process finds them on disk."""
        for tier, slots in dropped.slots_by_tier.items():
            if len(slots):
                self._give_back(tier, slots)

    def strike(self, tier: Tier, node: Node, number: int) -> bool:
        """The path's block of this number is not in `tier` as it should be: forget that copy.

        False if it is the only one, of a block that is in use.
        """
        for above in node.path():
            at = number - above.first_block
            if 0 <= at < above.num_blocks:
                try:
                    self.free(self._tree.drop(above, tier, at, at + 1))
                except PinError:
                    return False
        return True

    def cancel_overdue(self, now: float) -> None:
        """Give up copies that take too long at `now`: what they hold back is worth more than they are."""
        self._now = now
        for job in self._savings:
            if job.is_overdue(now) and not job.is_cancelled:
                job.cancel()

    def ended(self, job: Save) -> None:
        """Take in what a copy has come to."""
        saving = self._savings.pop(job)
        node, numbers = saving.node, saving.numbers
        pool, num = self.pools[job.tier], job.num_saved
        self._pool(job.source).release(job.source_slots)
        pool.release(job.slots[num:])
        if num:
            placed = np.full(numbers[num - 1] - numbers[0] + 1, NOWHERE, np.int32)
            placed[numbers[:num] - numbers[0]] = job.slots[:num]
            refused = self._tree.place_on_path(node, job.tier, int(numbers[0]), placed)
            if len(refused):
                self._give_back(job.tier, refused)
        below = self._below(job.tier) if self._write == "through" else None
        if below is not None and num:
            self._save(below, node, int(numbers[0]), int(numbers[num - 1]) + 1)
        self._tree.unpin(node)
        if job.bad is not None and job.source is not Tier.DEVICE:
            self.strike(job.source, node, int(numbers[job.bad]))

    def restore(self, found: list[tuple[int, Record]]) -> Int32s:
        """Hang what the disk has kept back into the tree; returns the slots of what hangs on nothing.

        Args:
            found: (slot, record), parents before children.

        Cost: O(blocks), and O(path) per leaf.
        """
        by_name = {record.name: (slot, record) for slot, record in found if self._is_genuine(record)}
        parents = {record.parent for _, record in by_name.values()}
        pool = self.pools[Tier.DISK]
        for name in by_name.keys() - parents:
            path = self._path(name, by_name)
            if path:
                slots = np.array([slot for slot, _ in path], np.int32)
                tokens = np.concatenate([record.tokens for _, record in path])
                flags = np.array([record.flags & Flag.VARIANT for _, record in path], np.uint8)
                done = self._tree.insert(path[0][1].salt, tokens, slots, flags=flags, now=0.0, tier=Tier.DISK)
                pool.claim(done.adopted)
        held = [node.slots[Tier.DISK] for node in self._tree.nodes()]
        kept = np.concatenate(held) if held else np.empty(0, np.int32)
        return np.setdiff1d(np.array([slot for slot, _ in found], np.int32), kept)

    def flush(self, timeout_s: float) -> None:
        """Copy down what the disk has not got yet, for as long as there is time. Blocks."""
        until = time.monotonic() + timeout_s
        if self._movement.is_alive(Tier.DISK):
            pool = self.pools[Tier.DISK]
            for node in list(self._tree.nodes()):
                if self._write == "through" and pool.num_free < node.num_blocks:
                    continue  # it was there, and had to go for what is there now
                self._save(Tier.DISK, node, node.first_block, node.first_block + node.num_blocks)
        while self._savings and time.monotonic() < until:
            for job in self._movement.poll():
                if isinstance(job, Save):
                    self.ended(job)
            time.sleep(0.002)

    def _below(self, tier: Tier) -> Tier | None:
        return next((t for t in self.pools if t > tier and self._movement.is_alive(t)), None)

    def _save(self, tier: Tier, node: Node, first: int, last: int, only: Tier | None = None) -> bool:
        """Begin to copy into `tier` those of the path's blocks that are not there; returns whether one was begun.

        `only` limits it to blocks that are in that tier.
        """
        path = Match(node.root, node.end, node)
        slots, flags = path.slots()[:, first:last], path.flags()[first:last]
        is_wanted = slots[tier] == NOWHERE
        if tier is Tier.DISK:
            is_wanted &= flags & Flag.VOLATILE == 0
        has_begun = False
        # Bytes that are encoded already are copied as they are.
        for source in reversed([t for t in Tier if t < tier and only in (None, t)]):
            is_there = slots[source] != NOWHERE
            if source is Tier.DEVICE:  # of a lossy block it has another content than the name promises
                is_there &= flags & Flag.LOSSY == 0
            places = np.flatnonzero(is_wanted & is_there)
            is_wanted[places] = False
            has_begun |= len(places) > 0 and self._start(
                tier, node, (places + first).astype(np.int32), source, slots[source, places]
            )
        return has_begun

    def _start(self, tier: Tier, node: Node, numbers: Int32s, source: Tier, sources: Int32s) -> bool:
        self._tree.pin(node)  # before room is made, which could take just these blocks
        slots = self._take(tier, len(numbers))
        num = len(slots)
        if num:
            self._pool(source).share(sources[:num])
            records = self._records(node, numbers[:num])
            job = self._movement.save(
                tier, sources[:num], slots, records, source=source, source_slots=sources[:num]
            )
            self._savings[job] = _Saving(node, numbers[:num])
        has_begun = num > 0
        below = self._below(tier)
        if num < len(numbers) and below is not None:
            has_begun |= self._save(below, node, int(numbers[num]), int(numbers[-1]) + 1)
        if not num:
            self._tree.unpin(node)
        return has_begun

    def _pool(self, tier: Tier) -> BlockPool:
        return self._device if tier is Tier.DEVICE else self.pools[tier]

    def _give_back(self, tier: Tier, slots: Int32s) -> None:
        """Free slots whose content the tree does not have any more."""
        if tier is Tier.DISK:
            self._movement.forget(tier, slots)
        self._pool(tier).release(slots)

    def _take(self, tier: Tier, num: int) -> Int32s:
        """Up to `num` slots."""
        pool = self.pools[tier]
        if pool.num_free < num:
            self.evict(tier, num - pool.num_free)
        slots = pool.take(min(num, pool.num_free))
        return slots if slots is not None else np.empty(0, np.int32)

    def _records(self, node: Node, numbers: Int32s) -> list[Record]:
        """What the store keeps beside the bytes of these blocks of the path."""
        size = self._tree.block_tokens
        num_blocks = int(numbers[-1]) + 1
        tokens = node.path_tokens()[: num_blocks * size]
        variants = Match(node.root, node.end, node).flags()[:num_blocks] & Flag.VARIANT
        root = root_hash(node.root, self._identity, size)
        names = chain(root, tokens, size, variants.tolist())
        return [
            Record(
                name=names[i],
                parent=names[i - 1] if i else root,
                salt=node.root,
                index=i,
                tokens=tokens[i * size : (i + 1) * size].copy(),
                flags=int(variants[i]),
            )
            for i in numbers.tolist()
        ]

    def _is_genuine(self, record: Record) -> bool:
        """Whether a block's name is that of its tokens, in this namespace and under this model."""
        size = self._tree.block_tokens
        if record.index == 0 and record.parent != root_hash(record.salt, self._identity, size):
            return False
        return record.name == block_hash(record.parent, record.tokens, variant=record.flags & Flag.VARIANT)

    def _path(self, name: bytes, by_name: dict[bytes, tuple[int, Record]]) -> list[tuple[int, Record]]:
        """The blocks from the root to this one; empty if one of them is missing."""
        path: list[tuple[int, Record]] = []
        while (found := by_name.get(name)) is not None:
            path.append(found)
            if found[1].index == 0:
                return path[::-1]
            name = found[1].parent
        return []


def _num_slots(victim: Victim, tier: Tier) -> int:
    """How many slots of a tier it can give up."""
    held = victim.node.slots[tier, victim.first : victim.last] != NOWHERE
    return int(np.count_nonzero(held)) + victim.has_tail
