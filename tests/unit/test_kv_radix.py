"""The radix tree by hand: splits, partial blocks, tiers, pins. Blocks have 4 tokens unless said otherwise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from openclaw_cache.kv.block import NOWHERE, IntegrityError, Tier
from openclaw_cache.kv.eviction import LRU
from openclaw_cache.kv.node import Flag, Node
from openclaw_cache.kv.placement import Inserted
from openclaw_cache.kv.radix import PinError, RadixTree

ROOT = b"namespace"


def array(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def insert(
    tree: RadixTree, tokens: range | list[int], *blocks: int, now: float = 1.0, **more: Any
) -> Inserted:
    done = tree.insert(more.pop("root", ROOT), array(*tokens), array(*blocks), now=now, **more)
    tree.check_integrity()
    return done


def match(tree: RadixTree, tokens: range | list[int], limit: int | None = None, root: bytes = ROOT) -> Any:
    return tree.match(root, array(*tokens), limit=limit)


def device(tree: RadixTree, tokens: range | list[int]) -> list[int]:
    return match(tree, tokens).slots()[Tier.DEVICE].tolist()


def spans(tree: RadixTree) -> list[tuple[int, int, list[int]]]:
    return sorted((node.start, node.end, node.slots[Tier.DEVICE].tolist()) for node in tree.nodes())


@pytest.fixture
def tree() -> RadixTree:
    return RadixTree(4)


# -- matching and splitting


def test_a_split_at_a_block_boundary_parts_the_blocks_there(tree: RadixTree) -> None:
    insert(tree, range(12), 10, 11, 12)
    done = insert(tree, [*range(8), 90, 91, 92, 93], 20, 21, 22)
    assert spans(tree) == [(0, 8, [10, 11]), (8, 12, [12]), (8, 12, [22])]
    assert done.blocks.tolist() == [10, 11, 22]
    assert done.adopted.tolist() == [22]


def test_a_split_inside_a_block_leaves_the_block_to_the_half_with_its_last_token(tree: RadixTree) -> None:
    insert(tree, range(12), 10, 11, 12)
    insert(tree, [*range(6), 90, 91], 20, 21)
    assert spans(tree) == [(0, 6, [10]), (6, 8, [21]), (6, 12, [11, 12])]
    assert device(tree, range(12)) == [10, 11, 12]
    assert device(tree, [*range(6), 90, 91]) == [10, 21]


def test_matching_is_per_token_and_reuse_per_block(tree: RadixTree) -> None:
    insert(tree, range(12), 10, 11, 12)
    found = match(tree, [*range(10), 99])
    assert (found.num_tokens, found.num_blocks) == (10, 2)
    assert found.slots().tolist() == [[10, 11], [NOWHERE, NOWHERE], [NOWHERE, NOWHERE]]
    assert found.flags().tolist() == [0, 0]


def test_a_limit_bounds_the_match(tree: RadixTree) -> None:
    insert(tree, range(12), 10, 11, 12)
    assert match(tree, range(12), limit=11).num_blocks == 2
    assert match(tree, range(12), limit=0).num_tokens == 0


def test_a_match_of_nothing_ends_at_the_root(tree: RadixTree) -> None:
    insert(tree, range(4), 10)
    found = match(tree, [50, 51])
    assert found.num_tokens == 0
    assert found.node is tree.roots()[ROOT]
    assert found.slots().shape == (3, 0)


def test_a_match_splits_nothing(tree: RadixTree) -> None:
    insert(tree, range(12), 10, 11, 12)
    before = spans(tree)
    match(tree, [0, 1, 2, 3, 4, 99])
    assert spans(tree) == before


def test_a_prompt_shorter_than_a_cached_one_splits_nothing(tree: RadixTree) -> None:
    insert(tree, range(12), 10, 11, 12)
    done = insert(tree, range(8), 20, 21)
    assert spans(tree) == [(0, 12, [10, 11, 12])]
    assert done.blocks.tolist() == [10, 11]
    assert done.adopted.tolist() == []


def test_a_leaf_that_is_continued_grows_in_place(tree: RadixTree) -> None:
    first = insert(tree, range(4), 10).node
    done = insert(tree, range(12), 20, 21, 22)
    assert done.node is first
    assert spans(tree) == [(0, 12, [10, 21, 22])]
    assert done.adopted.tolist() == [21, 22]


def test_tokens_behind_the_last_block_are_kept_only_with_a_tail(tree: RadixTree) -> None:
    insert(tree, range(6), 10)
    assert match(tree, range(6)).num_tokens == 4
    insert(tree, range(6), 10, tail=50)
    assert match(tree, range(6)).num_tokens == 6


def test_ids_that_are_equal_in_their_low_byte_differ(tree: RadixTree) -> None:
    insert(tree, [65, 65, 65, 65], 10)
    assert match(tree, [321, 321, 321, 321]).num_tokens == 0
    assert match(tree, [65, 65, 65, 65 + 2**24]).num_tokens == 3


def test_tokens_of_another_type_are_refused_rather_than_cast(tree: RadixTree) -> None:
    with pytest.raises(ValueError, match="int32"):
        tree.match(ROOT, np.arange(4, dtype=np.int64))  # type: ignore[arg-type]


def test_namespaces_never_meet(tree: RadixTree) -> None:
    insert(tree, range(8), 10, 11, root=b"one")
    assert match(tree, range(8), root=b"two").num_tokens == 0
    insert(tree, range(8), 20, 21, root=b"two")
    assert match(tree, range(8), root=b"one").slots()[0].tolist() == [10, 11]
    assert match(tree, range(8), root=b"two").slots()[0].tolist() == [20, 21]
    tree.remove_root(b"one")
    assert match(tree, range(8), root=b"one").num_tokens == 0
    assert match(tree, range(8), root=b"two").num_tokens == 8


def test_a_new_block_without_a_slot_is_refused_and_changes_nothing(tree: RadixTree) -> None:
    insert(tree, range(8), 10, 11)
    with pytest.raises(ValueError, match="needs a slot"):
        insert(tree, [*range(6), 90, 91], 20, NOWHERE)
    assert spans(tree) == [(0, 8, [10, 11])]


@pytest.mark.parametrize(
    ("tokens", "blocks", "tail"), [(range(8), [1], NOWHERE), (range(8), [1, 2], 3), (range(3), [1], 2)]
)
def test_shapes_that_do_not_fit_are_refused(
    tree: RadixTree, tokens: range, blocks: list[int], tail: int
) -> None:
    with pytest.raises(ValueError, match="block"):
        insert(tree, tokens, *blocks, tail=tail)


def test_an_empty_prompt_leaves_no_namespace_behind(tree: RadixTree) -> None:
    assert insert(tree, []).blocks.tolist() == []
    assert tree.roots() == {}


# -- memory (sglang#17191: split nodes that kept the buffer of their parent)


def test_no_node_holds_on_to_the_buffer_of_another_or_of_the_caller(tree: RadixTree) -> None:
    tokens, blocks = array(*range(12)), array(10, 11, 12)
    tree.insert(ROOT, tokens, blocks, now=1.0)
    tokens[:], blocks[:] = 0, 0
    insert(tree, [*range(6), 90, 91], 20, 21)
    insert(tree, [*range(3), 80], 30)
    tree.drop(match(tree, range(12)).node, Tier.DEVICE, 1, 2)
    assert device(tree, range(12)) == [10, 11]
    for node in tree.nodes():
        assert type(node.raw) is bytearray  # never a view
        assert node.slots.base is None
        assert node.flags.base is None


@pytest.mark.parametrize("at", [1, 2, 1023, 1024, 1025, 1500, 2500, 2501, 4998, 4999])
@pytest.mark.parametrize("num_behind", [0, 1, 3000])
def test_long_prompts_match_to_the_very_token_where_they_differ(at: int, num_behind: int) -> None:
    tree, ids = RadixTree(1), np.random.default_rng(0).integers(0, 9, 5000).astype(np.int32)
    tree.insert(ROOT, ids, np.arange(5000, dtype=np.int32), now=1.0)
    other = np.append(ids, np.zeros(num_behind, np.int32))
    other[at] += 1
    assert tree.match(ROOT, other).num_tokens == at
    assert tree.match(ROOT, other, limit=at - 1).num_tokens == at - 1
    assert tree.match(ROOT, other[:at]).num_tokens == at


def test_a_strided_prompt_is_what_its_tokens_are(tree: RadixTree) -> None:
    wide = np.arange(16, dtype=np.int32)
    tree.insert(ROOT, wide[::2], array(10, 11), now=1.0)
    assert tree.match(ROOT, array(0, 2, 4, 6, 8)).num_tokens == 5
    assert tree.match(ROOT, wide[:10][::2]).num_tokens == 5


def test_a_leaf_grows_although_somebody_reads_its_tokens(tree: RadixTree) -> None:
    read = insert(tree, range(8), 10, 11).node.tokens
    node = insert(tree, range(12), 10, 11, 12).node
    assert read.tolist() == list(range(8))
    assert node.tokens.tolist() == list(range(12))
    with pytest.raises(ValueError, match="read-only"):
        node.tokens[0] = 1
    tree.check_integrity()


# -- the partial block


def test_the_partial_block_is_the_block_that_straddles_the_end_of_the_match(tree: RadixTree) -> None:
    insert(tree, range(12), 10, 11, 12)
    assert match(tree, range(6)).partial_block() == 11
    assert match(tree, [*range(6), 99]).partial_block() == 11


def test_a_match_that_ends_at_a_boundary_has_no_partial_block(tree: RadixTree) -> None:
    insert(tree, range(12), 10, 11, 12)
    assert match(tree, range(8)).partial_block() == NOWHERE


def test_the_partial_block_may_be_a_tail(tree: RadixTree) -> None:
    insert(tree, range(7), 10, tail=50)
    assert match(tree, range(7)).partial_block() == 50
    assert match(tree, range(6)).partial_block() == 50
    assert match(tree, [*range(6), 99, 98, 97]).partial_block() == 50


def test_the_partial_block_may_be_that_of_a_child_where_the_node_ends(tree: RadixTree) -> None:
    insert(tree, range(8), 10, 11)
    insert(tree, [*range(6), 90, 91], 20, 21)
    assert match(tree, [*range(6), 77]).partial_block() in {11, 21}
    assert match(tree, range(5)).partial_block() in {11, 21}
    tree.place(match(tree, range(8)).node, Tier.HOST, 0, array(70))
    tree.drop(match(tree, range(8)).node, Tier.DEVICE, 0, 1)
    assert match(tree, [*range(6), 77]).partial_block() == 21


def test_the_partial_block_may_be_the_tail_of_a_grandchild(tree: RadixTree) -> None:
    for tokens, tail in (([0, 1, 2], 50), ([0, 1, 3], 51), ([0, 4], 52)):
        insert(tree, tokens, tail=tail)
    assert match(tree, [0]).partial_block() in {50, 51, 52}
    assert match(tree, [0, 1]).partial_block() in {50, 51}


def test_a_partial_block_that_is_not_on_the_device_is_none(tree: RadixTree) -> None:
    node = insert(tree, range(8), 10, 11).node
    tree.place(node, Tier.HOST, 1, array(70))
    tree.drop(node, Tier.DEVICE, 1, 2)
    assert match(tree, range(6)).partial_block() == NOWHERE


@pytest.mark.parametrize(
    ("flag", "expected"), [(0, 0), (Flag.LOSSY, Flag.VARIANT), (Flag.VARIANT, Flag.VARIANT)]
)
def test_a_tail_behind_a_lossy_prefix_is_a_variant(tree: RadixTree, flag: int, expected: int) -> None:
    insert(tree, range(6), 10, tail=50, flags=flag)
    assert match(tree, range(6)).partial() == (50, expected)


# -- tails


def test_a_tail_is_released_when_its_leaf_grows_over_it(tree: RadixTree) -> None:
    insert(tree, range(6), 10, tail=50)
    done = insert(tree, range(8), 20, 21)
    assert done.released.tolist() == [50]
    assert done.blocks.tolist() == [10, 21]


def test_a_tail_is_replaced_by_a_longer_one(tree: RadixTree) -> None:
    insert(tree, range(6), 10, tail=50)
    done = insert(tree, range(7), 20, tail=51)
    assert (done.adopted.tolist(), done.released.tolist()) == ([51], [50])
    assert match(tree, range(7)).partial_block() == 51


def test_a_tail_stays_with_the_lower_half_of_a_split(tree: RadixTree) -> None:
    insert(tree, range(7), 10, tail=50)
    done = insert(tree, [*range(5), 90], 20, tail=51)
    assert done.released.tolist() == []
    assert match(tree, range(7)).partial_block() == 50
    assert match(tree, [*range(5), 90]).partial_block() == 51


def test_a_tail_that_is_known_is_not_adopted(tree: RadixTree) -> None:
    insert(tree, range(8), 10, 11)
    assert insert(tree, range(6), 20, tail=50).adopted.tolist() == []


def test_a_dropped_tail_takes_its_tokens_and_an_empty_node_along(tree: RadixTree) -> None:
    node = insert(tree, range(6), 10, tail=50).node
    assert tree.drop_tail(node) == 50
    assert match(tree, range(6)).num_tokens == 4
    only_tail = insert(tree, [7, 8], tail=51).node
    assert tree.drop_tail(only_tail) == 51
    assert only_tail.state == "evicted"
    tree.check_integrity()


# -- hits, cost, flags


def test_a_hit_counts_on_the_nodes_whose_tokens_are_reused(tree: RadixTree) -> None:
    insert(tree, range(12), 10, 11, 12)
    below = insert(tree, [*range(8), 90, 91, 92, 93], 10, 11, 20).node
    tree.touch(match(tree, [*range(8), 90]), now=5.0)
    above = below.parent
    assert above is not None
    assert (above.state, above.num_hits, above.last_used_at) == ("hit", 1, 5.0)
    assert (below.state, below.num_hits, below.last_used_at) == ("new", 0, 1.0)


def test_a_shared_prefix_shorter_than_a_block_is_no_hit(tree: RadixTree) -> None:
    node = insert(tree, range(8), 10, 11).node
    tree.touch(match(tree, [0, 1, 2, 99]), now=5.0)
    assert (node.state, node.num_hits) == ("new", 0)


def test_an_old_path_that_is_brought_back_does_not_age_what_it_shares(tree: RadixTree) -> None:
    insert(tree, range(8), 10, 11, now=9.0)
    old = insert(tree, [*range(4), 90, 91, 92, 93], 30, 31, now=2.0, tier=Tier.DISK).node
    assert old.parent is not None
    assert (old.parent.last_used_at, old.last_used_at) == (9.0, 2.0)


def test_a_split_shares_the_cost_by_tokens_and_keeps_use_and_state(tree: RadixTree) -> None:
    lower = insert(tree, range(12), 10, 11, 12, cost_s=6.0).node
    tree.touch(match(tree, range(12)), now=3.0)
    tree.insert(ROOT, array(*range(8), 90, 91, 92, 93), array(1, 2, 3), now=4.0, cost_s=12.0)
    upper = lower.parent
    assert upper is not None
    assert (upper.cost_s, lower.cost_s) == (4.0, 2.0)
    assert (upper.state, upper.num_hits) == (lower.state, lower.num_hits) == ("hit", 1)
    assert (upper.last_used_at, lower.last_used_at) == (4.0, 3.0)
    assert match(tree, [*range(8), 90]).node.cost_s == 4.0  # 4 new tokens of 12


def test_a_kept_block_keeps_its_slot_and_a_missing_one_is_adopted(tree: RadixTree) -> None:
    node = insert(tree, range(8), 10, 11, flags=Flag.LOSSY).node
    tree.place(node, Tier.HOST, 0, array(70, 71))
    dropped = tree.drop(node, Tier.DEVICE, 1, 2)
    assert dropped.slots_by_tier[Tier.DEVICE].tolist() == [11]
    done = insert(tree, range(8), 20, 21)
    assert done.adopted.tolist() == [21]
    assert done.blocks.tolist() == [10, 21]
    assert node.flags.tolist() == [Flag.LOSSY, 0]


def test_content_of_another_lineage_is_adopted_as_lossy_and_keeps_the_blocks_name(tree: RadixTree) -> None:
    node = insert(tree, range(4), 10).node
    tree.place(node, Tier.HOST, 0, array(70))
    tree.drop(node, Tier.DEVICE, 0, 1)
    insert(tree, range(4), 20, flags=Flag.VARIANT)
    assert node.flags.tolist() == [Flag.LOSSY]


def test_a_volatile_block_may_leave_once_it_is_inserted_without_the_flag(tree: RadixTree) -> None:
    node = insert(tree, range(8), 10, 11, flags=Flag.VOLATILE).node
    insert(tree, range(4), 20)
    assert node.flags.tolist() == [0, Flag.VOLATILE]
    insert(tree, range(8), 20, 21, flags=Flag.VOLATILE)
    assert node.flags.tolist() == [0, Flag.VOLATILE]


# -- tiers


def test_blocks_are_brought_back_into_a_tier_without_a_device_copy(tree: RadixTree) -> None:
    insert(tree, range(8), 30, 31, tier=Tier.DISK)
    assert match(tree, range(8)).slots().tolist() == [[NOWHERE] * 2, [NOWHERE] * 2, [30, 31]]
    done = insert(tree, range(8), 10, 11)
    assert done.adopted.tolist() == [10, 11]


def test_copies_find_their_blocks_after_a_split(tree: RadixTree) -> None:
    lower = insert(tree, range(12), 10, 11, 12).node
    tree.pin(lower)
    insert(tree, [*range(6), 90, 91], 20, 21)
    assert tree.place_on_path(lower, Tier.HOST, 0, array(70, 71, 72)).tolist() == []
    assert match(tree, range(12)).slots()[Tier.HOST].tolist() == [70, 71, 72]
    tree.check_integrity()


def test_a_copy_of_a_block_that_has_one_or_is_gone_is_refused(tree: RadixTree) -> None:
    node = insert(tree, range(8), 10, 11).node
    assert tree.place(node, Tier.HOST, 1, array(71)).tolist() == []
    assert tree.place(node, Tier.HOST, 0, array(80, 81, 82)).tolist() == [81, 82]
    tree.remove_root(ROOT)
    assert tree.place(node, Tier.HOST, 0, array(90, 91)).tolist() == [90, 91]


def test_a_block_in_another_tier_survives_its_drop(tree: RadixTree) -> None:
    node = insert(tree, range(8), 10, 11).node
    tree.place(node, Tier.HOST, 0, array(70, 71))
    dropped = tree.drop(node, Tier.DEVICE, 0, 2)
    assert dropped.num_blocks == 0
    assert dropped.slots_by_tier[Tier.DEVICE].tolist() == [10, 11]
    assert match(tree, range(8)).slots().tolist() == [[NOWHERE] * 2, [70, 71], [NOWHERE] * 2]


def test_a_block_that_vanishes_takes_along_all_that_needs_it(tree: RadixTree) -> None:
    insert(tree, range(18), 10, 11, 12, 13, tail=50)
    insert(tree, [*range(10), 90, 91], 10, 11, 20)
    upper = match(tree, range(8)).node
    tree.place(match(tree, range(18)).node, Tier.DISK, 0, array(72, 73))
    dropped = tree.drop(upper, Tier.DEVICE, 1, 2)
    tree.check_integrity()
    assert sorted(dropped.slots_by_tier[Tier.DEVICE].tolist()) == [11, 12, 13, 20, 50]
    assert sorted(dropped.slots_by_tier[Tier.DISK].tolist()) == [72, 73]
    assert dropped.num_blocks == tree.num_evicted_blocks == 4
    assert spans(tree) == [(0, 4, [10])]
    assert [grave.num_tokens for grave in tree.graveyard] == [8, 2]


def test_a_drop_keeps_the_blocks_before_the_first_that_vanishes(tree: RadixTree) -> None:
    node = insert(tree, range(12), 10, 11, 12).node
    tree.place(node, Tier.HOST, 0, array(70))
    dropped = tree.drop(node, Tier.DEVICE, 0, 2)
    assert sorted(dropped.slots_by_tier[Tier.DEVICE].tolist()) == [10, 11, 12]
    assert match(tree, range(12)).slots().tolist() == [[NOWHERE], [70], [NOWHERE]]
    tree.check_integrity()


def test_only_a_copy_that_a_lossy_codec_decoded_makes_a_block_lossy(tree: RadixTree) -> None:
    node = insert(tree, range(8), 30, 31, tier=Tier.DISK).node
    tree.place(node, Tier.DEVICE, 0, array(10), lossy=True)
    tree.place(node, Tier.DEVICE, 1, array(11))
    tree.place(node, Tier.HOST, 0, array(70, 71), lossy=True)
    assert node.flags.tolist() == [Flag.LOSSY, 0]
    tree.drop(node, Tier.DEVICE, 0, 1)
    assert node.flags.tolist() == [0, 0]


def test_a_straddling_block_that_vanishes_removes_its_node_and_the_parents_loose_tokens(
    tree: RadixTree,
) -> None:
    insert(tree, range(8), 10, 11)
    other = insert(tree, [*range(6), 90, 91], 20, 21).node
    tree.drop(other, Tier.DEVICE, 0, 1)
    assert spans(tree) == [(0, 6, [10]), (6, 8, [11])]
    tree.drop(match(tree, range(8)).node, Tier.DEVICE, 0, 1)
    tree.check_integrity()
    assert spans(tree) == [(0, 4, [10])]


def test_the_last_block_of_a_namespace_takes_its_root_along(tree: RadixTree) -> None:
    tree.drop(insert(tree, range(4), 10).node, Tier.DEVICE, 0, 1)
    assert tree.roots() == {}
    tree.check_integrity()


def test_blocks_that_a_node_has_not_cannot_be_dropped(tree: RadixTree) -> None:
    node = insert(tree, range(8), 10, 11).node
    with pytest.raises(ValueError, match="2 blocks"):
        tree.drop(node, Tier.DEVICE, 1, 3)


# -- pins (LMCache#987 and others: pins leaked or taken off twice)


def test_a_pin_survives_a_split_and_comes_off_whole(tree: RadixTree) -> None:
    node = insert(tree, range(12), 10, 11, 12).node
    tree.pin(node)
    insert(tree, [*range(6), 90, 91], 20, 21)
    assert node.start == 6
    assert [above.num_pins for above in node.path()] == [1, 1, 1]
    with pytest.raises(PinError):
        tree.drop(match(tree, range(5)).node, Tier.DEVICE, 0, 1)
    tree.unpin(node)
    assert [above.num_pins for above in node.path()] == [0, 0, 0]
    tree.check_integrity()


def test_a_pin_is_not_taken_off_twice(tree: RadixTree) -> None:
    node = insert(tree, range(4), 10).node
    tree.pin(node)
    tree.unpin(node)
    with pytest.raises(PinError):
        tree.unpin(node)


def test_the_pin_of_a_child_cannot_be_taken_off_its_parent(tree: RadixTree) -> None:
    insert(tree, range(8), 10, 11)
    child = insert(tree, [*range(4), 90, 91, 92, 93], 10, 21).node
    tree.pin(child)
    assert child.parent is not None
    with pytest.raises(PinError):
        tree.unpin(child.parent)
    assert child.parent.num_pins == 1


def test_a_pinned_block_may_lose_a_copy_but_not_the_last(tree: RadixTree) -> None:
    node = insert(tree, range(4), 10).node
    tree.pin(node)
    tree.place(node, Tier.DISK, 0, array(70))
    assert tree.drop(node, Tier.DISK, 0, 1).slots_by_tier[Tier.DISK].tolist() == [70]
    with pytest.raises(PinError):
        tree.drop(node, Tier.DEVICE, 0, 1)
    with pytest.raises(PinError):
        tree.remove_root(ROOT)
    assert device(tree, range(4)) == [10]


def test_what_is_gone_cannot_be_pinned(tree: RadixTree) -> None:
    node = insert(tree, range(4), 10).node
    tree.remove_root(ROOT)
    with pytest.raises(PinError):
        tree.pin(node)


def test_what_is_gone_has_nothing_to_drop(tree: RadixTree) -> None:
    node = insert(tree, range(8), 10, 11).node
    tree.remove_root(ROOT)
    assert tree.drop(node, Tier.DEVICE, 0, 2).num_blocks == 0
    assert tree.num_evicted_blocks == 2


def test_an_anchor_ends_where_it_was_set_and_is_not_lengthened(tree: RadixTree) -> None:
    insert(tree, range(12), 10, 11, 12)
    anchor = tree.anchor(ROOT, array(*range(8)))
    assert anchor is not None
    assert (anchor.start, anchor.end) == (0, 8)
    assert device(tree, range(12)) == [10, 11, 12]
    tree.drop(match(tree, range(12)).node, Tier.DEVICE, 0, 1)
    insert(tree, range(12), 20, 21, 22)
    assert (anchor.end, [child.slots[Tier.DEVICE].tolist() for child in anchor.children.values()]) == (
        8,
        [[22]],
    )


def test_there_is_no_anchor_inside_a_block_or_behind_what_is_cached(tree: RadixTree) -> None:
    insert(tree, range(8), 10, 11)
    for tokens in (range(6), range(12), range(0)):
        assert tree.anchor(ROOT, array(*tokens)) is None
    assert spans(tree) == [(0, 8, [10, 11])]


def test_tokens_that_only_a_pin_kept_go_with_it(tree: RadixTree) -> None:
    insert(tree, range(8), 10, 11)
    insert(tree, [*range(6), 90, 91], 20, 21)
    upper = match(tree, range(6)).node
    tree.pin(upper)
    for tokens in (range(8), [*range(6), 90, 91]):
        tree.drop(match(tree, tokens).node, Tier.DEVICE, 0, 1)
    tree.check_integrity()
    assert match(tree, range(8)).num_tokens == 6
    tree.unpin(upper)
    tree.check_integrity()
    assert match(tree, range(8)).num_tokens == 4


# -- victims


def test_a_suffix_goes_before_the_prefix_that_others_share(tree: RadixTree) -> None:
    for start in (90, 80):
        insert(tree, [*range(8), *range(start, start + 8)], 10, 11, start, start + 1, now=start)
    chosen = [
        (victim.node.start, victim.first, victim.last) for victim in tree.victims(Tier.DEVICE, 5, LRU())
    ]
    assert chosen == [(8, 0, 2), (8, 0, 2), (0, 1, 2)]


def test_blocks_go_from_the_end_of_a_node_and_a_tail_before_them(tree: RadixTree) -> None:
    node = insert(tree, range(18), 10, 11, 12, 13, tail=50).node
    (victim,) = tree.victims(Tier.DEVICE, 1, LRU())
    assert (victim.node, victim.first, victim.last, victim.has_tail) == (node, 4, 4, True)
    (victim,) = tree.victims(Tier.DEVICE, 3, LRU())
    assert (victim.first, victim.last, victim.has_tail) == (2, 4, True)


def test_nothing_pinned_and_nothing_above_it_is_a_victim(tree: RadixTree) -> None:
    insert(tree, range(8), 10, 11)
    pinned = insert(tree, [*range(4), 90, 91, 92, 93], 10, 21).node
    tree.pin(pinned)
    assert [victim.node.slots[0].tolist() for victim in tree.victims(Tier.DEVICE, 9, LRU())] == [[11]]


def test_a_pinned_node_stays_when_all_below_it_go(tree: RadixTree) -> None:
    insert(tree, range(8), 10, 11)
    insert(tree, [*range(4), 90, 91, 92, 93], 10, 21)
    upper = match(tree, range(4)).node
    tree.pin(upper)
    slots = [victim.node.slots[Tier.DEVICE].tolist() for victim in tree.victims(Tier.DEVICE, 9, LRU())]
    assert slots == [[11], [21]]


def test_a_node_is_a_leaf_of_a_tier_where_only_it_holds_blocks_there(tree: RadixTree) -> None:
    insert(tree, range(8), 10, 11)
    child = insert(tree, [*range(4), 90, 91, 92, 93], 10, 21).node
    assert child.parent is not None
    tree.place(child.parent, Tier.HOST, 0, array(70))
    assert [victim.node for victim in tree.victims(Tier.HOST, 9, LRU())] == [child.parent]
    tree.place(child, Tier.HOST, 0, array(71))
    assert [victim.node for victim in tree.victims(Tier.HOST, 9, LRU())] == [child, child.parent]
    assert tree.victims(Tier.HOST, 0, LRU()) == []


# -- views


def test_rows_are_bounded_and_every_parent_has_its_row(tree: RadixTree) -> None:
    insert(tree, range(8), 10, 11, now=1.0)
    insert(tree, [*range(4), 90, 91, 92, 93], 10, 21, now=2.0)
    rows = tree.describe(2)
    assert [(row["start"], row["num_tokens"], row["last_used_at"]) for row in rows] == [
        (0, 4, 2.0),
        (4, 4, 2.0),
    ]
    assert rows[0]["parent"] is None
    assert rows[1]["parent"] == rows[0]["id"]
    assert rows[0]["tiers"] == {"device": 1, "host": 0, "disk": 0}
    tree.remove_root(ROOT)
    assert {row["state"] for row in tree.describe(2)} == {"evicted"}


def test_counts_tell_new_from_hit_and_pinned(tree: RadixTree) -> None:
    insert(tree, range(8), 10, 11)
    other = insert(tree, range(50, 58), 20, 21).node
    tree.touch(match(tree, range(8)), now=2.0)
    tree.pin(other)
    assert tree.counts()[Tier.DEVICE] == {"new": 2, "hit": 2, "pinned": 2}


def test_the_graveyard_is_bounded(tree: RadixTree) -> None:
    for first in range(300):
        tree.drop(insert(tree, [first, 0, 0, 0], first).node, Tier.DEVICE, 0, 1)
    assert len(tree.graveyard) == 256
    assert tree.num_evicted_blocks == tree.num_dropped[Tier.DEVICE] == 300


def corrupt_slot(node: Node) -> None:
    node.slots[Tier.DEVICE, 1] = node.slots[Tier.DEVICE, 0]


def corrupt_pins(node: Node) -> None:
    node.num_pins += 1


def corrupt_flags(node: Node) -> None:
    node.flags = node.flags[:1].copy()


def corrupt_first_token(node: Node) -> None:
    node.raw = array(99).tobytes() + node.raw[4:]


def corrupt_start(node: Node) -> None:
    node.start = 4


def corrupt_end(node: Node) -> None:
    node.end += 4


def corrupt_hole(node: Node) -> None:
    node.slots[:, 0] = NOWHERE


def corrupt_view(node: Node) -> None:
    node.slots = node.slots[:]


def corrupt_tail(node: Node) -> None:
    node.tail = 99


@pytest.mark.parametrize(
    ("corrupt", "fault"),
    [
        (corrupt_slot, "held 2 times"),
        (corrupt_pins, "other pins"),
        (corrupt_flags, "flags of a wrong shape"),
        (corrupt_first_token, "another token"),
        (corrupt_start, "where its parent ends"),
        (corrupt_end, "where its tokens do"),
        (corrupt_hole, "in no tier"),
        (corrupt_view, "shares the memory"),
        (corrupt_tail, "tail"),
    ],
)
def test_the_integrity_check_names_the_fault(tree: RadixTree, corrupt: Any, fault: str) -> None:
    corrupt(insert(tree, range(8), 10, 11).node)
    with pytest.raises(IntegrityError, match=fault):
        tree.check_integrity()
