"""Orders of eviction by hand: what each policy lets go first, and when it looks at a parent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from openclaw_cache.kv.block import Tier
from openclaw_cache.kv.eviction import LRU, POLICIES, S3FIFO, Eviction
from openclaw_cache.kv.radix import RadixTree

if TYPE_CHECKING:
    from openclaw_cache.kv.node import Node

ROOT = b""


class Cache:
    """A tree of one-block prompts, named by their token, on a device that holds `num_blocks`."""

    def __init__(self, policy: Eviction, num_blocks: int = 1000) -> None:
        self.tree, self.policy, self.num_blocks = RadixTree(2), policy, num_blocks
        self.now, self.num_held = 0.0, 0

    def ask(self, name: int) -> bool:
        """Whether the prompt was there; it is afterwards, and what it has pushed out is not."""
        self.now += 1
        tokens = np.array([name, name], np.int32)
        match = self.tree.match(ROOT, tokens)
        if match.num_blocks:
            self.tree.touch(match, self.now)
            return True
        if self.num_held == self.num_blocks:
            self.evict(1)
        self.tree.insert(ROOT, tokens, np.array([int(self.now)], np.int32), now=self.now)
        self.num_held += 1
        return False

    def evict(self, num: int) -> list[int]:
        names = []
        for victim in self.tree.victims(Tier.DEVICE, num, self.policy):
            names.append(int(victim.node.tokens[0]))
            self.num_held -= len(
                self.tree.drop(victim.node, Tier.DEVICE, victim.first, victim.last).slots_by_tier[Tier.DEVICE]
            )
        self.tree.check_integrity()
        return names


def leaf(tree: RadixTree, tokens: list[int], *, now: float) -> Node:
    num_known = tree.match(ROOT, np.array(tokens, np.int32)).num_blocks
    blocks = np.arange(len(tokens) // 2, dtype=np.int32) + round(now * 100)
    node = tree.insert(ROOT, np.array(tokens, np.int32), blocks, now=now).node
    assert num_known < len(blocks)
    return node


def test_lru_lets_the_least_recently_used_go_first() -> None:
    cache = Cache(LRU())
    for name in (1, 2, 3, 1):
        cache.ask(name)
    assert cache.evict(2) == [2, 3]
    assert cache.evict(2) == [1]


def test_lru_takes_of_equals_the_deeper_and_then_the_older() -> None:
    tree = RadixTree(2)
    leaf(tree, [1, 1], now=1.0)
    leaf(tree, [2, 2], now=1.0)
    blocks = np.array([50, 51], np.int32)
    tree.insert(ROOT, np.array([3, 3, 3, 3], np.int32), blocks, now=1.0)
    order = [int(victim.node.tokens[0]) for victim in tree.victims(Tier.DEVICE, 4, LRU())]
    assert order == [3, 1, 2]


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_a_parent_is_considered_once_its_last_child_has_gone(name: str) -> None:
    tree = RadixTree(2)
    first = leaf(tree, [0, 0, 1, 1], now=1.0)
    second = leaf(tree, [0, 0, 2, 2], now=2.0)
    later = leaf(tree, [7, 7], now=3.0)
    chosen = [victim.node for victim in tree.victims(Tier.DEVICE, 9, POLICIES[name]())]
    assert chosen.index(first.parent) > max(chosen.index(first), chosen.index(second))  # type: ignore[arg-type]
    assert set(chosen) == {first, second, first.parent, later}


def test_lru_prefers_an_old_parent_to_a_recent_leaf() -> None:
    tree = RadixTree(2)
    first = leaf(tree, [0, 0, 1, 1], now=1.0)
    second = leaf(tree, [0, 0, 2, 2], now=2.0)
    later = leaf(tree, [7, 7], now=3.0)
    chosen = [victim.node for victim in tree.victims(Tier.DEVICE, 9, LRU())]
    assert chosen == [first, second, first.parent, later]


def test_s3fifo_lets_those_seen_once_go_in_the_order_of_arrival() -> None:
    cache = Cache(S3FIFO())
    for name in (3, 1, 2):
        cache.ask(name)
    assert cache.evict(2) == [3, 1]


def test_s3fifo_promotes_what_was_hit_twice_and_not_what_was_hit_once() -> None:
    cache = Cache(S3FIFO())
    for name in (1, 2, 3, 1, 1, 2):
        cache.ask(name)
    assert cache.evict(3) == [2, 3, 1]


def test_s3fifo_gives_a_hit_in_the_main_queue_one_more_round() -> None:
    cache = Cache(S3FIFO())
    for name in (1, 2, 3, 1, 1, 2, 2):
        cache.ask(name)
    assert cache.evict(1) == [3]  # 1 and 2 are now in the main queue, with no hits left
    cache.ask(1)
    assert cache.evict(1) == [2]
    assert cache.evict(1) == [1]


def test_s3fifo_leaves_the_small_queue_alone_while_it_has_less_than_a_tenth() -> None:
    cache = Cache(S3FIFO())
    for name in [*range(10), *range(10), *range(10), 50]:
        cache.ask(name)
    # The ten that were hit move to the main queue. One block of eleven is less than a tenth, of ten it is not.
    assert cache.evict(2) == [0, 50]


def test_s3fifo_takes_one_that_comes_back_soon_for_a_popular_one() -> None:
    cache = Cache(S3FIFO())
    for name in (1, 2):
        cache.ask(name)
    assert cache.evict(1) == [1]
    for name in (1, 4):
        cache.ask(name)
    assert cache.evict(2) == [2, 4]


def test_s3fifo_does_not_take_a_shortened_node_for_one_that_came_back() -> None:
    cache = Cache(S3FIFO())
    tree = cache.tree
    blocks = np.array([50, 51], np.int32)
    tree.insert(ROOT, np.array([1, 1, 1, 1], np.int32), blocks, now=1.0)
    leaf(tree, [2, 2], now=2.0)
    assert cache.evict(1) == [1]
    assert cache.evict(1) == [1]
    assert cache.evict(1) == [2]


def test_a_scan_passes_through_the_small_queue_and_spares_what_is_popular() -> None:
    popular, scan = range(1, 9), range(100, 160)
    found = {}
    for name in ("lru", "s3fifo", "lfu"):
        cache = Cache(POLICIES[name](), num_blocks=10)
        for _ in range(4):
            for each in popular:
                cache.ask(each)
        for each in scan:
            cache.ask(each)
        found[name] = sum(cache.ask(each) for each in popular)
    assert found == {"lru": 0, "s3fifo": len(popular), "lfu": len(popular)}


def test_a_split_leaves_both_halves_in_their_queue() -> None:
    cache = Cache(S3FIFO())
    tree = cache.tree
    blocks = np.array([50, 51], np.int32)
    tree.insert(ROOT, np.array([1, 1, 1, 1], np.int32), blocks, now=1.0)
    for now in (2.0, 3.0):
        tree.touch(tree.match(ROOT, np.array([1, 1, 1, 1], np.int32)), now)
    leaf(tree, [5, 5], now=4.0)
    assert cache.evict(1) == [5]
    lower = tree.match(ROOT, np.array([1, 1, 1, 1], np.int32)).node
    leaf(tree, [1, 1, 9, 9], now=5.0)
    assert lower.parent is not None
    assert (lower.parent.is_main, lower.parent.queued) == (lower.is_main, lower.queued) == (True, 1)
