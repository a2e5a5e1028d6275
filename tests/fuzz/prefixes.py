"""Random prompts against the prefix indexes: no block may ever be found for other tokens, another salt or adapter.

A world is one radix tree and one index over block hashes, used for some thousand prompts that share crafted
beginnings. The oracle is a plain dictionary: (number of the prefix before, tokens of a block) -> number of the prefix
with it. A slot is modelled by the prefix that was computed into it.

    PYTHONPATH=src:tests python -m fuzz.prefixes --prompts 1000000 [--seed 1]
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter
from itertools import count

import numpy as np

from openclaw_cache.kv.block import NOWHERE, Tier
from openclaw_cache.kv.eviction import POLICIES
from openclaw_cache.kv.hash_index import HashIndex
from openclaw_cache.kv.hashing import ModelIdentity, chain, root_hash
from openclaw_cache.kv.radix import Dropped, Node, PinError, RadixTree

# (salt, adapter): some are equal where the two are written one behind the other.
SCOPES = [(b"", ""), (b"a", ""), (b"", "a"), (b"a", "a"), (b"aa", ""), (b"", "aa")]
# Equal in their low bytes, signs and extremes.
TOKENS = [0, 1, 65, 321, 65 + 2**16, 65 + 2**24, 2**16, -1, 2**31 - 1, -(2**31)]


class World:
    """One tree and one index, and all that is true of them.

    Args:
        chance: makes every choice.
    """

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.size = chance.choice([1, 2, 4, 16])
        self.capacity = chance.choice([10, 50, 400, 3000])
        self.long_ratio = chance.choice([0.0, 0.0, 0.02])
        self.policy = POLICIES[chance.choice(sorted(POLICIES))]()
        self.tree, self.index = RadixTree(self.size), HashIndex()
        self.roots = [
            root_hash(salt, ModelIdentity("f", "fp16", "l", "r", adapter), self.size)
            for salt, adapter in SCOPES
        ]
        self.runs = [self._run() for _ in range(12)]
        self.recent: list[tuple[int, np.ndarray]] = []
        self.slots, self.now = count(), 0
        # The oracle. Prefixes 0, 1, … are the roots.
        self.numbers: dict[tuple[int, bytes], int] = {(-1, root): at for at, root in enumerate(self.roots)}
        self.parents: dict[int, int] = {}
        self.names: dict[bytes, int] = dict(zip(self.roots, range(len(self.roots)), strict=True))
        self.held: dict[int, int] = {}
        self.number_of: dict[int, int] = {}
        self.num_below: Counter[int] = Counter()
        self.carries: dict[int, tuple[int, bytes]] = {}
        self.tails: set[int] = set()
        self.pins: list[tuple[Node, int, list[int]]] = []
        self.num_pins: Counter[int] = Counter()
        self.known: dict[int, int] = {}
        self.known_below: dict[int, set[int]] = {}

    def step(self) -> None:
        """One prompt: look it up in both, and perhaps change something."""
        scope, tokens = self._prompt()
        numbers, names = self._path(scope, tokens)
        self.check_tree(scope, tokens, numbers)
        self.check_index(names, numbers)
        self.now += self.chance.random() < 0.9
        act = self.chance.random()
        if act < 0.5:
            self.insert(scope, tokens, numbers)
            if act < 0.4:
                self.insert_names(names, numbers)
        elif act < 0.6:
            self.pin(scope, tokens)
        elif act < 0.75:
            self.unpin()
        elif act < 0.8:
            self.fork()
        elif act < 0.83 and names:
            self.forget_names(names, numbers, self.chance.randrange(len(names)))
        elif act < 0.835:
            self.remove_root(scope)
        if (excess := len(self.held) + len(self.tails) - self.capacity) > 0 or act > 0.97:
            self.evict(max(excess, self.chance.randint(1, 4)))
        if self.chance.random() < 0.01:
            self.check_integrity()

    # -- prompts

    def _run(self) -> list[int]:
        return self.chance.choices(TOKENS, k=self.chance.randint(1, 4 * self.size))

    def _prompt(self) -> tuple[int, np.ndarray]:
        chance = self.chance
        scope = chance.randrange(len(SCOPES))
        tokens: list[int] = []
        if self.recent and chance.random() < 0.7:
            near, before = chance.choice(self.recent)
            scope = near if chance.random() < 0.7 else scope
            tokens = (
                before[: chance.randint(0, len(before))].tolist()
                if chance.random() < 0.7
                else before.tolist()
            )
            if tokens and chance.random() < 0.3:
                tokens[chance.randrange(len(tokens))] = chance.choice(TOKENS)
        for _ in range(chance.randint(0, 4)):
            tokens += chance.choice(self.runs)
        if chance.random() < self.long_ratio:
            tokens = tokens[:40] + chance.choices(TOKENS, k=chance.randint(1000, 6000))
        made = np.array(tokens, np.int32)
        self.recent.append((scope, made))
        if len(self.recent) > 40:
            self.recent.pop(chance.randrange(len(self.recent)))
        return scope, made

    def _path(self, scope: int, tokens: np.ndarray) -> tuple[list[int], list[bytes]]:
        """The numbers of its prefixes of whole blocks, and the names of their last blocks."""
        numbers, parent, raw, width = [], scope, tokens.tobytes(), 4 * self.size
        names = chain(self.roots[scope], tokens, self.size)
        for at, name in enumerate(names):
            block = raw[at * width : (at + 1) * width]
            number = self.numbers.setdefault((parent, block), len(self.numbers))
            self.parents[number] = parent
            assert self.names.setdefault(name, number) == number, "two prefixes share a name"
            numbers.append(number)
            parent = number
        assert len({*names}) == len(names)
        return numbers, names

    # -- look-ups

    def check_tree(self, scope: int, tokens: np.ndarray, numbers: list[int]) -> None:
        match = self.tree.match(self.roots[scope], tokens)
        expected = leading(numbers, self.held)
        assert match.num_blocks == expected
        assert match.slots()[Tier.DEVICE].tolist() == [self.held[number] for number in numbers[:expected]]
        assert (match.node.path_tokens()[: match.num_tokens] == tokens[: match.num_tokens]).all()
        if self.chance.random() < 0.5:
            self.tree.touch(match, float(self.now))
        block = match.partial_block()
        if block != NOWHERE:
            before, content = self.carries[block]
            assert before == (numbers[expected - 1] if expected else scope)
            assert content.startswith(tokens[expected * self.size : match.num_tokens].tobytes())

    def check_index(self, names: list[bytes], numbers: list[int]) -> None:
        known = self.index.match(names)
        expected = leading(numbers, self.known)
        assert known.num_blocks == expected
        assert known.slots().tolist() == [self.known[number] for number in numbers[:expected]]

    def check_integrity(self) -> None:
        self.tree.check_integrity()
        self.index.check_integrity()
        assert self.index.num_blocks == len(self.known)
        counts = self.tree.counts()[Tier.DEVICE]
        assert counts["new"] + counts["hit"] == len(self.held) + len(self.tails)

    # -- changes of the tree

    def insert(self, scope: int, tokens: np.ndarray, numbers: list[int]) -> None:
        mine = [next(self.slots) for _ in numbers]
        raw, width = tokens.tobytes(), 4 * self.size
        for at, slot in enumerate(mine):
            self.carries[slot] = (numbers[at - 1] if at else scope, raw[at * width : (at + 1) * width])
        rest = raw[len(numbers) * width :]
        tail = next(self.slots) if rest and self.chance.random() < 0.5 else NOWHERE
        done = self.tree.insert(
            self.roots[scope], tokens, np.array(mine, np.int32), now=float(self.now), tail=tail
        )
        adopted = set(done.adopted.tolist())
        for number, slot in zip(numbers, mine, strict=True):
            assert (slot in adopted) == (number not in self.held)
            if number not in self.held:
                self.held[number], self.number_of[slot] = slot, number
                self.num_below[self.parents[number]] += 1
        self.tails -= set(done.released.tolist())
        if tail in adopted:
            self.tails.add(tail)
            self.carries[tail] = (numbers[-1] if numbers else scope, rest)
        assert adopted <= {*mine, tail}
        assert done.blocks.tolist() == [self.held[number] for number in numbers]

    def pin(self, scope: int, tokens: np.ndarray) -> None:
        match = self.tree.match(self.roots[scope], tokens)
        node = match.node
        if node.parent is not None and self.chance.random() < 0.5:
            end = match.num_blocks * self.size
            node = self.tree.anchor(self.roots[scope], tokens[:end]) or node
        if node.parent is not None and len(self.pins) < 8:
            self.tree.pin(node)
            self._note_pin(node, scope)

    def _note_pin(self, node: Node, scope: int) -> None:
        numbers, _ = self._path(scope, node.path_tokens())
        self.num_pins.update(numbers)
        self.pins.append((node, scope, numbers))

    def unpin(self) -> None:
        if self.pins:
            node, _, numbers = self.pins.pop(self.chance.randrange(len(self.pins)))
            self.num_pins.subtract(numbers)
            self.tree.unpin(node)

    def fork(self) -> None:
        """Two ways on from what is pinned, each with a pin of its own."""
        if not self.pins:
            return
        node, scope, _ = self.chance.choice(self.pins)
        self.tree.pin(node)
        self._note_pin(node, scope)
        for _ in range(2):
            tokens = np.concatenate([node.path_tokens(), np.array(self._run(), np.int32)])
            numbers, _ = self._path(scope, tokens)
            self.insert(scope, tokens, numbers)
            self.check_tree(scope, tokens, numbers)

    def evict(self, num_blocks: int) -> None:
        for victim in self.tree.victims(Tier.DEVICE, num_blocks, self.policy, float(self.now)):
            if victim.has_tail:
                self.tails.discard(self.tree.drop_tail(victim.node))
            self._gone(self.tree.drop(victim.node, Tier.DEVICE, victim.first, victim.last))

    def remove_root(self, scope: int) -> None:
        if any(pinned == scope for _, pinned, _ in self.pins):
            try:
                self.tree.remove_root(self.roots[scope])
            except PinError:
                return
            raise AssertionError("a namespace with pins was removed")
        self._gone(self.tree.remove_root(self.roots[scope]))
        assert not self.num_below[scope]

    def _gone(self, dropped: Dropped) -> None:
        numbers = []
        for slot in dropped.slots_by_tier[Tier.DEVICE].tolist():
            if slot in self.tails:
                self.tails.remove(slot)
                continue
            number = self.number_of.pop(slot)
            assert self.held.pop(number) == slot
            assert not self.num_pins[number], "a pinned block is gone"
            self.num_below[self.parents[number]] -= 1
            numbers.append(number)
        assert dropped.num_blocks == len(numbers)
        assert not any(self.num_below[number] for number in numbers), "a block outlives the one before it"

    # -- changes of the index

    def insert_names(self, names: list[bytes], numbers: list[int]) -> None:
        mine = np.array([next(self.slots) for _ in numbers], np.int32)
        before = self.index.insert(names, mine)
        assert before.num_blocks == leading(numbers, self.known)
        for number, slot in zip(numbers, mine.tolist(), strict=True):
            self.known.setdefault(number, slot)
            self.known_below.setdefault(self.parents[number], set()).add(number)

    def forget_names(self, names: list[bytes], numbers: list[int], num_kept: int) -> None:
        expected, stack = [], []
        if leading(numbers, self.known) > num_kept:
            stack.append(numbers[num_kept])
            self.known_below[self.parents[numbers[num_kept]]].remove(numbers[num_kept])
        while stack:
            number = stack.pop()
            expected.append(self.known.pop(number))
            stack += self.known_below.pop(number, ())
        assert sorted(self.index.forget(names, num_kept).tolist()) == sorted(expected)


def leading(numbers: list[int], held: dict[int, int]) -> int:
    """How many of these come before the first that is not held."""
    return next((at for at, number in enumerate(numbers) if number not in held), len(numbers))


def run(seed: str, num_prompts: int) -> None:
    """A world of its own; raises AssertionError at the first fault."""
    world = World(random.Random(seed))
    for _ in range(num_prompts):
        world.step()
    world.check_integrity()


def main() -> None:
    """Worlds of 100 to 5,000 prompts until all are asked for."""
    parser = argparse.ArgumentParser(prog="python -m fuzz.prefixes")
    parser.add_argument("--prompts", type=int, default=1_000_000)
    parser.add_argument("--seed", default="0")
    options = parser.parse_args()
    num_left, begun = options.prompts, time.process_time()
    for case in count():
        num = min(num_left, random.Random(f"{options.seed}:{case}").choice([100, 1000, 5000]))
        if not num:
            break
        try:
            run(f"{options.seed}:{case}", num)
        except Exception as error:
            raise AssertionError(f"--seed {options.seed}, world {case}: {error}") from error
        num_left -= num
    print(
        f"{options.prompts:,} prompts in {case:,} worlds, {time.process_time() - begun:.0f} s of CPU: no wrong reuse"
    )


if __name__ == "__main__":
    main()
