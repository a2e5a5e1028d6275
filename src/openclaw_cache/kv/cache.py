"""The prefix cache: what of a prompt is computed already, in which tier, and who may use the device's blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from openclaw_cache.kv.block import NOWHERE, BlockPool, Tier
from openclaw_cache.kv.hold import Hold
from openclaw_cache.kv.jobs import Load, Save
from openclaw_cache.kv.lease import Leases
from openclaw_cache.kv.loading import Loading
from openclaw_cache.kv.match import Match
from openclaw_cache.kv.node import Flag

if TYPE_CHECKING:
    from openclaw_cache.kv.codec import Codec
    from openclaw_cache.kv.lower import LowerTiers
    from openclaw_cache.kv.movement import Movement
    from openclaw_cache.kv.node import Flags, Int32s, Node
    from openclaw_cache.kv.radix import RadixTree

_FLUSH_S = 8.0
_GRACE_S = 5.0  # a transfer that has not ended so long after its deadline hangs
_WEIGHT = 0.2  # of the last prefill in the mean


class Arena(Protocol):
    """The device's tensors, as far as the cache touches them itself."""

    def copy_tokens(self, source: int, target: int, num_tokens: int) -> None:
        """Copy the first tokens of one block into another, all layers."""


class PrefixCache:
    """The books of the KV cache. Everything here runs on the engine's thread and returns at once.

    The radix tree is the only index; `BlockPool` counts who holds a device block: the tree once for what is
    cached, each `Hold` once for what a sequence uses, each transfer once for what it reads or writes.

    Args:
        tree: the index.
        device: the device's blocks.
        lower: host and disk.
        movement: does the copying.
        arena: the device's tensors.
        codec: of the lower tiers.
        is_enabled: False: blocks are given out, nothing is remembered.
        reserve_blocks: device blocks that are kept for sequences that run already.
    """

    def __init__(
        self,
        tree: RadixTree,
        device: BlockPool,
        lower: LowerTiers,
        movement: Movement,
        arena: Arena,
        codec: Codec,
        *,
        is_enabled: bool,
        reserve_blocks: int,
    ) -> None:
        self.is_enabled = is_enabled
        self.tree = tree
        self.device = device
        self.lower = lower
        self.movement = movement
        self.prefill_s_per_token = 0.0
        self.saved_prefill_s = 0.0
        self.num_looked_up_tokens = 0
        self.num_hit_tokens = dict.fromkeys(Tier, 0)
        self._arena = arena
        self._loader = Loading(movement, codec)
        self._codec = codec
        self._reserve_blocks = reserve_blocks
        self.leases = Leases(tree, device.num_blocks // 2)
        self._holds: set[Hold] = set()
        self._loading: set[tuple[Tier, int]] = set()
        self._given_up: list[Load] = []
        self._now = 0.0

    @property
    def is_busy(self) -> bool:
        """Whether a transfer is under way, or has ended since `poll`, after which more blocks may be free.

        One that hangs does not count: nobody may wait for it.
        """
        jobs = [*self._given_up, *self.lower.saving()]
        return not all(job.is_overdue(self._now - _GRACE_S) for job in jobs)

    def whole_blocks(self, num_tokens: int) -> int:
        """The tokens of these that fill whole blocks."""
        return num_tokens // self.tree.block_tokens * self.tree.block_tokens

    def num_cached(self, salt: bytes, tokens: Int32s) -> int:
        """How many leading tokens are cached in whole blocks, in any tier."""
        return self.whole_blocks(self.tree.match(salt, tokens).num_tokens)

    def acquire(
        self,
        salt: bytes,
        tokens: Int32s,
        *,
        most_cached: int,
        is_volatile: bool = False,
        keeps_reserve: bool = False,
        counts: bool = True,
    ) -> Hold | None:
        """Get device blocks for all `tokens`, those of the longest cached prefix filled or being filled.

        Args:
            salt: key of the namespace.
            tokens: int32 [n], n ≥ 1.
            most_cached: no more than so many tokens are taken from the cache.
            is_volatile: what is computed on it must stay in memory.
            keeps_reserve: leave the reserve to those who run.
            counts: whether it counts as a look-up.

        Returns:
            None if there is no room now, or if another sequence is just loading the same blocks.
        """
        size = self.tree.block_tokens
        match = self.tree.match(salt, tokens, limit=most_cached if self.is_enabled else 0)
        slots = match.slots()
        tiers = self._loader.usable(slots, self.prefill_s_per_token, self._now)
        num_cached = len(tiers)
        keys = {(Tier(int(tier)), int(slots[tier, i])) for i, tier in enumerate(tiers) if tier != Tier.DEVICE}
        if not keys.isdisjoint(self._loading):
            return None
        num_blocks = -(-len(tokens) // size)
        on_device = np.flatnonzero(tiers == Tier.DEVICE)
        self.tree.pin(match.node)
        after = int(slots[Tier.DEVICE, on_device[-1]]) if len(on_device) else NOWHERE
        fresh = self._take(num_blocks - len(on_device), after, self._reserve_blocks if keeps_reserve else 0)
        if fresh is None:
            self.tree.unpin(match.node)
            return None
        table = np.empty(num_blocks, np.int32)
        is_fresh = np.ones(num_blocks, np.bool_)
        is_fresh[on_device] = False
        table[on_device] = slots[Tier.DEVICE, on_device]
        table[is_fresh] = fresh
        self.device.share(table[on_device])
        hold = Hold(salt, table, match.node, is_volatile=is_volatile)
        hold.tiers, hold.num_cached, hold.keys = tiers, num_cached * size, keys
        self._describe(hold, match)
        self._holds.add(hold)
        self._loading |= keys
        hold.loads = self._loader.start(table, slots, tiers)
        if num_cached == match.num_blocks and match.num_tokens % size:
            self._take_partial(hold, match)
        hold.num_uncounted = len(tokens) if counts else 0
        if not hold.loads:
            self._count(hold)
        return hold

    def settle(self, hold: Hold) -> Literal["there", "coming", "lost"]:
        """What the transfers into a hold have come to.

        there: all its cached blocks are in place; `num_cached` is smaller than before if one could not be had.
        lost: a transfer takes too long and may still write into its blocks: release it and start again. For a
        while nothing is loaded from that tier, so that the next start does not end in the same way.
        """
        size, num_layers = self.tree.block_tokens, self._codec.layout.num_layers
        while hold.loads:
            first, load = hold.loads[0]
            if load.num_layers == num_layers and load.error is None:
                hold.loads.pop(0)
            elif load.is_over:
                hold.shrink(first + load.num_good, size)
                if load.bad is not None and not self.lower.strike(load.tier, hold.node, first + load.bad):
                    hold.spoiled.append((load.tier, first + load.bad))
                for _, later in hold.loads:
                    later.cancel()
                # Later ones write into blocks that are computed now: wait until they have ended too.
                hold.loads = [(at, later) for at, later in hold.loads[1:] if not later.is_over]
            elif load.is_overdue(self._now):
                self._loader.avoid(load.tier, self._now)
                return "lost"
            else:
                return "coming"
        self._count(hold)
        return "there"

    def extend(self, hold: Hold, num_tokens: int) -> bool:
        """Make a hold long enough for `num_tokens` tokens; False if no block is free."""
        num = -(-num_tokens // self.tree.block_tokens) - hold.num_blocks
        if num > 0:
            blocks = self._take(num, int(hold.table[-1]), 0)
            if blocks is None:
                return False
            hold.append(blocks)
        return True

    def fork(self, hold: Hold, num_tokens: int) -> Hold | None:
        """Another hold of the same first `num_tokens` computed tokens.

        Whole blocks are shared; one that is filled only in part is copied now, since both will write into it.
        None if no block is free for that.
        """
        num_whole, num_left = divmod(num_tokens, self.tree.block_tokens)
        copy = self._take(1 if num_left else 0, NOWHERE, 0)
        if copy is None:
            return None
        self.device.share(hold.table[:num_whole])
        if num_left:
            self._arena.copy_tokens(int(hold.table[num_whole]), int(copy[0]), num_left)
        self.tree.pin(hold.node)
        fork = Hold(
            hold.salt, np.concatenate([hold.table[:num_whole], copy]), hold.node, is_volatile=hold.is_volatile
        )
        fork.is_lossy, fork.num_saved, fork.num_committed = hold.is_lossy, hold.num_saved, hold.num_committed
        self._holds.add(fork)
        return fork

    def commit(self, hold: Hold, tokens: Int32s) -> None:
        """Put what is computed of a sequence into the tree; `tokens` are those that have their KV.

        Where the tree has a block of the same tokens already, the hold changes over to that one.
        """
        if not self.is_enabled or hold.is_loading or len(tokens) <= hold.num_committed:
            return
        num_whole, num_left = divmod(len(tokens), self.tree.block_tokens)
        table = hold.table[:num_whole]
        done = self.tree.insert(
            hold.salt,
            tokens,
            table,
            now=self._now,
            flags=self._flags(hold, num_whole),
            cost_s=len(tokens) * self.prefill_s_per_token,
            tail=int(hold.table[num_whole]) if num_left else NOWHERE,
        )
        hold.num_new += int(np.isin(table[len(hold.tiers) :], done.adopted).sum())
        self.device.share(done.adopted)
        self.device.release(done.released)
        is_other = done.blocks != table
        if is_other.any():
            self.device.share(done.blocks[is_other])
            self.device.release(table[is_other])
            table[is_other] = done.blocks[is_other]
            flags = Match(hold.salt, len(tokens), done.node).flags()[is_other]
            hold.is_lossy |= bool((flags & (Flag.LOSSY | Flag.VARIANT)).any())
        self.tree.pin(done.node)
        self.tree.unpin(hold.node)
        hold.node, hold.num_committed = done.node, len(tokens)
        self._loading -= hold.keys
        hold.keys = set()
        self._strike(hold, num_whole)
        if num_whole > hold.num_saved:
            self.lower.written(done.node, hold.num_saved, num_whole)
            hold.num_saved = num_whole

    def release(self, hold: Hold) -> None:
        """End a hold: its blocks are free unless the tree or another has them."""
        self._holds.remove(hold)
        self._loading -= hold.keys
        still_written = [load for _, load in hold.loads if not load.is_over]
        for load in still_written:
            load.cancel()
        self._given_up += still_written
        busy = np.concatenate([load.blocks for load in still_written]) if still_written else ()
        self.device.release(hold.table[~np.isin(hold.table, busy)])
        self.tree.unpin(hold.node)
        self._strike(hold, hold.num_blocks)

    def poll(self, now: float) -> None:
        """Take in what transfers have come to."""
        self._now = now
        self.leases.expire(now)
        self.lower.cancel_overdue(now)
        for job in self.movement.poll():
            if isinstance(job, Save):
                self.lower.ended(job)
        for load in [load for load in self._given_up if load.is_over]:
            self._given_up.remove(load)
            self.device.release(load.blocks)

    def forget(self, node: Node) -> None:
        """Remove an unpinned node and all below it from every tier, for later processes too."""
        for gone in reversed(list(node.subtree())):
            tail = self.tree.drop_tail(gone)
            if tail != NOWHERE:
                self.device.release(np.array([tail], np.int32))
            for tier in Tier:
                self.lower.free(self.tree.drop(gone, tier, 0, gone.num_blocks))

    def observe_prefill(self, num_tokens: int, took_s: float) -> None:
        """A prefill of so many tokens took so long: what a cached token saves, and what loading must beat."""
        per_token = took_s / num_tokens
        before = self.prefill_s_per_token or per_token
        self.prefill_s_per_token = (1 - _WEIGHT) * before + _WEIGHT * per_token

    def check_integrity(self) -> None:
        """Compare all books with one another. Cost: O(tokens and blocks).

        Raises:
            IntegrityError: naming the fault.
        """
        self.tree.check_integrity()
        held: dict[Tier, list[Int32s]] = {tier: [] for tier in Tier}
        for node in self.tree.nodes():
            for tier in Tier:
                held[tier].append(node.slots[tier])
            held[Tier.DEVICE].append(np.array([node.tail], np.int32))
        held[Tier.DEVICE] += [hold.table for hold in self._holds]
        held[Tier.DEVICE] += [load.blocks for load in self._given_up]
        for job in self.lower.saving():
            held[job.source].append(job.source_slots)
            held[job.tier].append(job.slots)
        for tier, pool in [(Tier.DEVICE, self.device), *self.lower.pools.items()]:
            slots = np.concatenate(held[tier]) if held[tier] else np.empty(0, np.int32)
            pool.check_integrity(np.bincount(slots[slots != NOWHERE], minlength=pool.num_blocks))

    def close(self) -> None:
        """Bring what is cached to the disk, as far as that takes a few seconds, and end the transfers."""
        if self.is_enabled:
            self.lower.flush(_FLUSH_S)
        self.movement.close(1.0)

    def _take(self, num: int, after: int, keep: int) -> Int32s | None:
        """Device blocks, by eviction if need be; None if there are not so many beside `keep`."""
        short = num + keep - self.device.num_free
        if short > 0 and num:
            self.lower.evict(Tier.DEVICE, short, all_or_none=True)
            if num + keep > self.device.num_free:
                return None
        return self.device.take(num, after)

    def _strike(self, hold: Hold, num_blocks: int) -> None:
        """Forget the damaged copies of its first blocks, now that these are on the device or nobody needs them."""
        for tier, number in [place for place in hold.spoiled if place[1] < num_blocks]:
            hold.spoiled.remove((tier, number))
            self.lower.strike(tier, hold.node, number)

    def _take_partial(self, hold: Hold, match: Match) -> None:
        """Take over the tokens after the last whole block, whose block belongs to another path as well.

        From the device they are copied; from a tier below the block is brought as a whole, and what of it is not
        ours is written over.
        """
        target = hold.table[match.num_blocks : match.num_blocks + 1]
        for tier in Tier:
            source, flags = match.partial(tier)
            if source == NOWHERE or flags & (Flag.LOSSY | Flag.VARIANT):
                continue
            if tier is not Tier.DEVICE and (self._codec.is_lossy or (tier, source) in self._loading):
                continue
            if tier is Tier.DEVICE:
                self._arena.copy_tokens(source, int(target[0]), match.num_tokens % self.tree.block_tokens)
            elif not self._loader.is_worth(tier, 1, self.prefill_s_per_token, self._now):
                continue
            else:
                job = self.movement.load(tier, np.array([source], np.int32), target.copy())
                hold.loads.append((match.num_blocks, job))
            hold.num_cached = match.num_tokens
            return

    def _describe(self, hold: Hold, match: Match) -> None:
        flags = match.flags()[: len(hold.tiers)]
        is_lossy = bool((flags & (Flag.LOSSY | Flag.VARIANT)).any())
        hold.is_lossy = is_lossy or (self._codec.is_lossy and bool((hold.tiers != Tier.DEVICE).any()))
        # What a no-store request has computed goes down once another request uses it.
        is_held_back = not hold.is_volatile and bool((flags & Flag.VOLATILE).any())
        hold.num_saved = 0 if is_held_back else len(hold.tiers)

    def _flags(self, hold: Hold, num_blocks: int) -> Flags:
        """`Flag` of a hold's first blocks."""
        flags = np.full(num_blocks, Flag.VARIANT if hold.is_lossy else 0, np.uint8)
        if self._codec.is_lossy:
            flags[: len(hold.tiers)][hold.tiers[:num_blocks] != Tier.DEVICE] = Flag.LOSSY
        if hold.is_volatile:
            flags |= int(Flag.VOLATILE)
        return flags

    def _count(self, hold: Hold) -> None:
        """Count a look-up, once it is known what came of it."""
        if not hold.num_uncounted:
            return
        self.num_looked_up_tokens += hold.num_uncounted
        hold.num_uncounted = 0
        for tier in Tier:
            self.num_hit_tokens[tier] += hold.num_from(tier) * self.tree.block_tokens
        self.saved_prefill_s += hold.num_cached * self.prefill_s_per_token
        if len(hold.tiers):
            self.tree.touch(Match(hold.salt, hold.num_cached, hold.node), self._now)
