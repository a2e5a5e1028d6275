"""The radix tree against a dictionary of prefixes, under any order of calls.

A slot is modelled by what it carries: the tokens of its whole path up to its end, as KV depends on all of them.
"""

from __future__ import annotations

from itertools import count
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from openclaw_cache.kv.block import NOWHERE, Tier
from openclaw_cache.kv.eviction import POLICIES
from openclaw_cache.kv.radix import Dropped, Flag, Node, PinError, RadixTree

Path: TypeAlias = tuple[bytes, tuple[int, ...]]

picks = st.integers(0, 10**6)
roots = st.sampled_from([b"one", b"one", b"one", b"two"])
suffixes = st.lists(st.integers(0, 1), max_size=9).map(tuple)
tiers = st.sampled_from(list(Tier))


def array(tokens: tuple[int, ...]) -> np.ndarray:
    return np.array(tokens, np.int32)


def extends(path: Path, prefix: Path) -> bool:
    return path[0] == prefix[0] and path[1][: len(prefix[1])] == prefix[1]


def common(path: Path, other: Path) -> int:
    if path[0] != other[0]:
        return 0
    pairs = zip(path[1], other[1], strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(path[1]), len(other[1])))


class TreeMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.ids, self.times = count(100), count(1)
        self.held: dict[Path, dict[Tier, int]] = {}
        self.flags: dict[Path, int] = {}
        self.tails: dict[Path, int] = {}
        self.carries: dict[tuple[Tier, int], Path] = {}
        self.pins: list[tuple[Node, Path]] = []
        self.num_vanished = 0

    @initialize(block_tokens=st.sampled_from([2, 4]), policy=st.sampled_from(sorted(POLICIES)))
    def choose(self, block_tokens: int, policy: str) -> None:
        self.block_tokens = block_tokens
        self.tree = RadixTree(block_tokens)
        self.policy = POLICIES[policy]()

    def new_slot(self, tier: Tier, path: Path) -> int:
        slot = next(self.ids)
        self.carries[tier, slot] = path
        return slot

    def known(self) -> list[Path]:
        return [*self.held, *self.tails]

    def owner(self, path: Path) -> tuple[Node, int]:
        node = self.tree.match(path[0], array(path[1])).node
        return node, len(path[1]) // self.block_tokens - 1 - node.first_block

    def prompt(self, root: bytes, pick: int, suffix: tuple[int, ...]) -> Path:
        """Half of the time something known, cut off anywhere, with other tokens behind it."""
        known = [path for path in self.known() if path[0] == root]
        if not known or pick % 2:
            return root, suffix
        tokens = known[pick // 2 % len(known)][1]
        return root, (tokens[: pick // 97 % (len(tokens) + 1)] + suffix)[:24]

    # -- the calls

    @rule(
        root=roots, pick=picks, suffix=suffixes, flag=st.sampled_from([0, 0, 1, 2, 4]), has_tail=st.booleans()
    )
    def insert(self, root: bytes, pick: int, suffix: tuple[int, ...], flag: int, has_tail: bool) -> None:
        root, tokens = prompt = self.prompt(root, pick, suffix)
        has_tail = has_tail and len(tokens) % self.block_tokens > 0
        paths = [
            (root, tokens[: end + self.block_tokens])
            for end in range(0, len(tokens) - self.block_tokens + 1, self.block_tokens)
        ]
        whole = prompt if has_tail else (root, tokens[: len(paths) * self.block_tokens])
        mine = [self.new_slot(Tier.DEVICE, path) for path in paths]
        tail = self.new_slot(Tier.DEVICE, prompt) if has_tail else NOWHERE
        was_known = any(extends(path, whole) for path in self.known())

        done = self.tree.insert(
            root, array(tokens), array(tuple(mine)), flags=flag, now=next(self.times), cost_s=1.0, tail=tail
        )

        adopted: list[int] = []
        for path, slot in zip(paths, mine, strict=True):
            self.insert_block(path, slot, flag, adopted)
        grown = [old for old in self.tails if extends(whole, old) and whole != old]
        released = [self.tails.pop(path) for path in grown]
        if has_tail:
            if not self.pins:
                assert (tail in done.adopted) == (not was_known)
            assert not (was_known and tail in done.adopted and not self.pins)
            if tail in done.adopted:
                adopted.append(tail)
                self.tails[prompt] = tail
        assert sorted(done.adopted.tolist()) == sorted(adopted)
        assert done.released.tolist() == released
        assert done.blocks.tolist() == [self.held[path][Tier.DEVICE] for path in paths]

    def insert_block(self, path: Path, slot: int, flag: int, adopted: list[int]) -> None:
        if path not in self.held:
            self.held[path], self.flags[path] = {Tier.DEVICE: slot}, flag
            adopted.append(slot)
            return
        if not flag & Flag.VOLATILE:
            self.flags[path] &= ~Flag.VOLATILE
        if Tier.DEVICE in self.held[path]:
            return
        self.held[path][Tier.DEVICE] = slot
        adopted.append(slot)
        is_lossy = flag & Flag.LOSSY or (flag & Flag.VARIANT and not self.flags[path] & Flag.VARIANT)
        self.flags[path] = self.flags[path] & ~Flag.LOSSY | (Flag.LOSSY if is_lossy else 0)

    @rule(
        root=roots,
        pick=picks,
        suffix=suffixes,
        limit=st.none() | st.integers(0, 15),
        is_touched=st.booleans(),
    )
    def match(
        self, root: bytes, pick: int, suffix: tuple[int, ...], limit: int | None, is_touched: bool
    ) -> None:
        prompt = self.prompt(root, pick, suffix)
        self.check_match(prompt, limit)
        if is_touched:
            self.tree.touch(self.tree.match(prompt[0], array(prompt[1]), limit=limit), next(self.times))

    @precondition(lambda self: self.held)
    @rule(pick=picks)
    def pin(self, pick: int) -> None:
        path = list(self.held)[pick % len(self.held)]
        node, _ = self.owner(path)
        self.tree.pin(node)
        self.pins.append((node, path))

    @precondition(lambda self: self.held)
    @rule(pick=picks, is_pinned=st.booleans())
    def anchor(self, pick: int, is_pinned: bool) -> None:
        path = list(self.held)[pick % len(self.held)]
        node = self.tree.anchor(path[0], array(path[1]))
        assert node is not None
        assert tuple(node.path_tokens().tolist()) == path[1]
        if is_pinned:
            self.tree.pin(node)
            self.pins.append((node, path))

    @precondition(lambda self: self.pins)
    @rule(pick=picks)
    def unpin(self, pick: int) -> None:
        node, _ = self.pins.pop(pick % len(self.pins))
        self.tree.unpin(node)

    @precondition(lambda self: self.held)
    @rule(pick=picks)
    def unpin_what_nobody_pinned(self, pick: int) -> None:
        node, _ = self.owner(list(self.held)[pick % len(self.held)])
        if all(node is not pinned for pinned, _ in self.pins):
            with pytest.raises(PinError):
                self.tree.unpin(node)

    @rule(tier=tiers, num_blocks=st.integers(1, 8))
    def evict(self, tier: Tier, num_blocks: int) -> None:
        victims = self.tree.victims(tier, num_blocks, self.policy)
        gone: set[int] = set()
        for victim in victims:
            slots = victim.node.slots[tier, victim.first : victim.last].tolist()
            gone |= set(slots) - {NOWHERE}
            if victim.has_tail:
                gone.add(victim.node.tail)
        slots_held = {held[tier]: path for path, held in self.held.items() if tier in held}
        if tier is Tier.DEVICE:
            slots_held |= {tail: path for path, tail in self.tails.items()}
        assert gone <= set(slots_held)
        for slot in gone:  # a suffix goes before what it continues, and nothing pinned goes
            path = slots_held[slot]
            assert all(other in gone for other, its in slots_held.items() if extends(its, path))
            assert not any(extends(pinned, path) for _, pinned in self.pins)
        assert len(gone) <= num_blocks
        if not self.pins:
            assert len(gone) == min(num_blocks, len(slots_held))
        for victim in victims:
            if victim.has_tail and tier is Tier.DEVICE and num_blocks % 2:
                tail = self.tree.drop_tail(victim.node)
                del self.tails[self.carries[Tier.DEVICE, tail]]
            self.drop_from(victim.node, tier, victim.first, victim.last)
            assert victim.first == victim.last or not self.tree.drop(victim.node, tier, 0, 0).num_blocks

    @precondition(lambda self: self.held)
    @rule(pick=picks, tier=tiers)
    def drop(self, pick: int, tier: Tier) -> None:
        path = list(self.held)[pick % len(self.held)]
        node, at = self.owner(path)
        if node.num_pins and not set(self.held[path]) - {tier}:
            before = self.tree.describe(1000)
            with pytest.raises(PinError):
                self.tree.drop(node, tier, at, at + 1)
            assert self.tree.describe(1000) == before
            return
        assert set(self.held[path]) - {tier} or not any(extends(pinned, path) for _, pinned in self.pins)
        self.drop_from(node, tier, at, at + 1)

    def drop_from(self, node: Node, tier: Tier, first: int, last: int) -> None:
        tokens, low = tuple(node.path_tokens().tolist()), node.first_block
        paths = [(node.root, tokens[: (low + at + 1) * self.block_tokens]) for at in range(first, last)]
        self.expect_dropped(paths, tier, self.tree.drop(node, tier, first, last))

    def expect_dropped(self, paths: list[Path], tier: Tier, dropped: Dropped) -> None:
        expected: dict[Tier, list[int]] = {each: [] for each in Tier}
        vanished = set()
        for path in paths:
            if tier in self.held[path]:
                expected[tier].append(self.held[path].pop(tier))
            if tier is Tier.DEVICE:
                self.flags[path] &= ~Flag.LOSSY
            if not self.held[path]:
                vanished |= {other for other in self.held if extends(other, path)}
                for end in [end for end in self.tails if extends(end, path)]:
                    expected[Tier.DEVICE].append(self.tails.pop(end))
        for path in vanished:
            del self.flags[path]
            for each, slot in self.held.pop(path).items():
                expected[each].append(slot)
        assert dropped.num_blocks == len(vanished)
        self.num_vanished += len(vanished)
        for each in Tier:
            assert sorted(dropped.slots_by_tier[each].tolist()) == sorted(expected[each])

    @precondition(lambda self: self.held)
    @rule(pick=picks, tier=tiers, lossy=st.booleans())
    def place(self, pick: int, tier: Tier, lossy: bool) -> None:
        path = list(self.held)[pick % len(self.held)]
        num = len(path[1]) // self.block_tokens
        node = self.tree.match(path[0], array(path[1])).node
        paths = [(path[0], path[1][: (at + 1) * self.block_tokens]) for at in range(num)]
        slots = [self.new_slot(tier, each) for each in paths]
        refused = self.tree.place_on_path(node, tier, 0, array(tuple(slots)), lossy=lossy)
        expected = []
        for each, slot in zip(paths, slots, strict=True):
            if tier in self.held[each]:
                expected.append(slot)
                continue
            self.held[each][tier] = slot
            if tier is Tier.DEVICE:
                self.flags[each] = self.flags[each] & ~Flag.LOSSY | (Flag.LOSSY if lossy else 0)
        assert refused.tolist() == expected

    @precondition(lambda self: len(self.held) > 6)
    @rule(root=roots)
    def remove_root(self, root: bytes) -> None:
        if any(path[0] == root for _, path in self.pins):
            with pytest.raises(PinError):
                self.tree.remove_root(root)
            return
        dropped = self.tree.remove_root(root)
        gone = [path for path in self.held if path[0] == root]
        assert dropped.num_blocks == len(gone)
        self.num_vanished += len(gone)
        for tier in Tier:
            slots = [self.held[path][tier] for path in gone if tier in self.held[path]]
            if tier is Tier.DEVICE:
                slots += [tail for path, tail in self.tails.items() if path[0] == root]
            assert sorted(dropped.slots_by_tier[tier].tolist()) == sorted(slots)
        self.held = {path: held for path, held in self.held.items() if path[0] != root}
        self.tails = {path: tail for path, tail in self.tails.items() if path[0] != root}
        assert root not in self.tree.roots()

    # -- what must hold after each

    def check_match(self, prompt: Path, limit: int | None = None) -> None:
        asked = (prompt[0], prompt[1][:limit])
        match = self.tree.match(prompt[0], array(prompt[1]), limit=limit)
        length = max((common(asked, path) for path in self.known()), default=0)
        # Only a pin can make the tree remember tokens that no block holds.
        pinned = [(node.root, tuple(node.path_tokens().tolist())) for node, _ in self.pins]
        assert length <= match.num_tokens <= max([length, *(common(asked, path) for path in pinned)])
        slots, flags = match.slots(), match.flags()
        assert slots.shape == (3, match.num_blocks)
        assert match.num_blocks == length // self.block_tokens
        for at in range(match.num_blocks):
            path = (asked[0], asked[1][: (at + 1) * self.block_tokens])
            assert slots[:, at].tolist() == [self.held[path].get(tier, NOWHERE) for tier in Tier]
            assert all(self.carries[tier, slot] == path for tier, slot in self.held[path].items())
            assert flags[at] == self.flags[path]
        self.check_partial(asked, match.num_tokens, match.partial_block())

    def check_partial(self, asked: Path, num_tokens: int, block: int) -> None:
        matched = (asked[0], asked[1][:num_tokens])
        boundary = num_tokens // self.block_tokens * self.block_tokens
        usable = [
            tail
            for path, tail in self.tails.items()
            if extends(path, matched) and len(path[1]) < boundary + self.block_tokens
        ]
        usable += [
            held[Tier.DEVICE]
            for path, held in self.held.items()
            if Tier.DEVICE in held and extends(path, matched) and len(path[1]) == boundary + self.block_tokens
        ]
        assert block in usable if usable and num_tokens % self.block_tokens else block == NOWHERE

    @invariant()
    def rules_hold(self) -> None:
        self.tree.check_integrity()

    @invariant()
    def every_held_prefix_is_found(self) -> None:
        for path in self.known():
            self.check_match(path)

    @invariant()
    def nothing_else_is_held(self) -> None:
        for tier in Tier:
            num = sum(tier in held for held in self.held.values())
            num += len(self.tails) if tier is Tier.DEVICE else 0
            counts = self.tree.counts()[tier]
            assert counts["new"] + counts["hit"] == num
        assert sum(node.num_blocks for node in self.tree.nodes()) == len(self.held)
        assert self.tree.num_evicted_blocks == self.num_vanished

    @invariant()
    def pinned_prefixes_stay(self) -> None:
        for node, path in self.pins:
            assert path in self.held
            assert extends((node.root, tuple(node.path_tokens().tolist())), path)


TreeMachine.TestCase.settings = settings(max_examples=200, stateful_step_count=50, deadline=None)
test_the_tree_agrees_with_a_dictionary_of_prefixes = TreeMachine.TestCase
