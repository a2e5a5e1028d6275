"""Leases, and the anchors in the tree on which they rest."""

from __future__ import annotations

import numpy as np
import pytest

from openclaw_cache.kv.block import NOWHERE, Tier
from openclaw_cache.kv.eviction import LRU
from openclaw_cache.kv.lease import LeaseError, Leases
from openclaw_cache.kv.radix import RadixTree
from support.kv_gates import B
from support.kv_site import array

A = tuple(range(100, 124))  # six blocks
SALT = b"one"


def put(tree: RadixTree, tokens: tuple[int, ...], first_slot: int, tail: int = NOWHERE) -> None:
    num = len(tokens) // B
    blocks = np.arange(first_slot, first_slot + num, dtype=np.int32)
    tree.insert(SALT, array(tokens), blocks, now=1.0, tail=tail)


def evict_all(tree: RadixTree) -> list[int]:
    """What is left on the device after evicting all that may go."""
    for victim in tree.victims(Tier.DEVICE, 1000, LRU()):
        if victim.has_tail:
            tree.drop_tail(victim.node)
        tree.drop(victim.node, Tier.DEVICE, victim.first, min(victim.last, victim.node.num_blocks))
    tree.check_integrity()
    return sorted(slot for node in tree.nodes() for slot in node.slots[Tier.DEVICE].tolist())


def tree_with(tokens: tuple[int, ...], tail: int = NOWHERE) -> RadixTree:
    tree = RadixTree(B)
    put(tree, tokens, 0, tail)
    return tree


# Anchors


def test_an_anchor_is_the_node_that_ends_with_the_tokens() -> None:
    tree = tree_with(A)
    node = tree.anchor(SALT, array(A[:8]))
    assert node is not None
    assert (node.start, node.end, node.is_anchor) == (0, 8, True)
    assert tree.match(SALT, array(A)).slots()[Tier.DEVICE].tolist() == [0, 1, 2, 3, 4, 5]
    tree.check_integrity()
    assert tree.anchor(SALT, array(A[:8])) is node


@pytest.mark.parametrize("tokens", [(), A[:6], (*A, 1, 2, 3, 4), (*A[:7], 1)])
def test_only_whole_blocks_that_are_cached_have_an_anchor(tokens: tuple[int, ...]) -> None:
    tree = tree_with(A)
    assert tree.anchor(SALT, array(tokens)) is None
    assert tree.anchor(b"two", array(A[:8])) is None
    assert sum(1 for _ in tree.nodes()) == 1


def test_what_comes_after_an_anchor_is_a_child_of_it() -> None:
    tree = tree_with(A[:8])
    node = tree.anchor(SALT, array(A[:8]))
    assert node is not None
    put(tree, A, 10)
    assert (node.end, [child.start for child in node.children.values()]) == (8, [8])
    tree.check_integrity()


def test_an_anchor_before_a_tail_leaves_the_tail_to_what_is_behind_it() -> None:
    tree = tree_with(A[:10], tail=7)
    node = tree.anchor(SALT, array(A[:8]))
    assert node is not None
    assert (node.tail, [child.tail for child in node.children.values()]) == (NOWHERE, [7])
    tree.check_integrity()


# Leases


def test_a_lease_keeps_its_prefix_and_nothing_more() -> None:
    tree = tree_with(A)
    lease = Leases(tree, 10).pin(SALT, array(A[:10]), 5.0)
    assert lease.num_tokens == 8
    put(tree, (*A[:8], 1, 2, 3, 4), 20)
    assert evict_all(tree) == [0, 1]


def test_what_is_appended_to_a_leased_leaf_is_not_leased() -> None:
    tree = tree_with(A[:8])
    Leases(tree, 10).pin(SALT, array(A[:8]), 5.0)
    put(tree, A, 10)
    assert evict_all(tree) == [0, 1]


def test_a_lease_survives_splits_before_its_end() -> None:
    tree = tree_with(A[:16])
    leases = Leases(tree, 10)
    leases.pin(SALT, array(A[:16]), 5.0)
    put(tree, (*A[:6], 1, 2, 3, 4, 5, 6), 20)
    put(tree, (*A[:8], 1, 2, 3, 4), 30)
    assert evict_all(tree) == [0, 1, 2, 3]
    leases.expire(5.0)
    assert evict_all(tree) == []


def test_a_lease_ends_by_itself_and_leaves_no_pin() -> None:
    tree = tree_with(A)
    leases = Leases(tree, 10)
    leases.pin(SALT, array(A[:8]), 5.0)
    leases.expire(4.9)
    assert len(list(leases)) == 1
    leases.expire(5.0)
    assert list(leases) == []
    assert all(node.num_pins == 0 for node in tree.nodes())
    assert evict_all(tree) == []


def test_the_same_lease_twice_is_one_with_the_later_end() -> None:
    tree = tree_with(A)
    leases = Leases(tree, 10)
    first = leases.pin(SALT, array(A[:8]), 5.0)
    assert leases.pin(SALT, array(A[:9]), 4.0) is first  # the same whole blocks
    assert first.expires_at == 5.0
    leases.pin(SALT, array(A[:8]), 6.0)
    assert (first.expires_at, first.node.num_own_pins, len(list(leases))) == (6.0, 1, 1)
    leases.expire(6.0)
    assert first.node.num_own_pins == 0


def test_a_lease_within_another_ends_alone() -> None:
    tree = tree_with(A)
    leases = Leases(tree, 10)
    leases.pin(SALT, array(A[:16]), 5.0)
    leases.pin(SALT, array(A[:8]), 9.0)
    leases.expire(5.0)
    assert evict_all(tree) == [0, 1]


def test_what_several_leases_share_counts_once() -> None:
    tree = tree_with(A)
    leases = Leases(tree, 4)
    leases.pin(SALT, array(A[:8]), 5.0)
    leases.pin(SALT, array(A[:12]), 5.0)
    leases.pin(SALT, array(A[:16]), 5.0)  # 4 blocks in all
    with pytest.raises(LeaseError, match="20 tokens would be pinned, more than the 16 that"):
        leases.pin(SALT, array(A[:20]), 5.0)


def test_leases_have_a_bound_so_that_requests_have_room() -> None:
    tree = tree_with(A)
    leases = Leases(tree, 3)
    leases.pin(SALT, array(A[:8]), 5.0)
    with pytest.raises(LeaseError, match=r"16 tokens would be pinned, more than the 12 that"):
        leases.pin(SALT, array(A[:16]), 5.0)
    leases.expire(5.0)
    assert tree.match(SALT, array(A)).num_tokens == 24
    leases.pin(SALT, array(A[:12]), 9.0)


@pytest.mark.parametrize(
    ("tokens", "why"), [(A[:3], "less than one block"), ((*A[:7], 1), "not in the cache")]
)
def test_what_cannot_be_pinned_is_refused_with_the_reason(tokens: tuple[int, ...], why: str) -> None:
    tree = tree_with(A)
    leases = Leases(tree, 10)
    with pytest.raises(LeaseError, match=why):
        leases.pin(SALT, array(tokens), 5.0)
    assert list(leases) == []
    assert all(node.num_pins == 0 for node in tree.nodes())
