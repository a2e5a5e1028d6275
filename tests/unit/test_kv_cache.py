"""The prefix cache at work: what a prompt gets, what is shared, and what becomes of loads that fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from openclaw_cache.kv.block import BlockPool, Tier
from openclaw_cache.kv.node import Flag
from support.kv_site import (
    INT8_ERROR,
    SHIFT,
    A,
    KvSite,
    Run,
    Z,
    array,
    begun,
    check,
    exact,
    found,
    on_host,
    sites,
)

Make = Callable[..., KvSite]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    with sites(tmp_path) as build:
        yield build


# What a prompt gets


def test_a_prompt_gets_the_whole_blocks_that_an_earlier_one_has_computed(make: Make) -> None:
    site = make(host=0, disk=0)
    assert site.serve(A[:10]) == 0
    assert site.serve(A[:8] + Z) == 8
    assert (site.cache.num_looked_up_tokens, site.cache.num_hit_tokens[Tier.DEVICE]) == (10 + 32, 8)


def test_less_than_a_block_in_common_is_copied_but_is_no_hit(make: Make) -> None:
    site = make(host=0, disk=0)
    site.serve(A[:4])
    run = begun(site.start(A[:3] + Z[:4]))
    assert found(run) == (3, "")
    check(site, run)
    assert sum(site.cache.num_hit_tokens.values()) == 0
    assert site.cache.num_cached(run.salt, array(A[:3])) == 0


def test_the_last_token_is_computed_even_if_all_is_cached(make: Make) -> None:
    site = make(host=0, disk=0)
    site.serve(A)
    assert site.serve(A) == 23  # five blocks, and three tokens of a copy of the sixth
    run = begun(site.start(A, most_cached=24))
    assert found(run) == (24, "VVVVVV")


@pytest.mark.parametrize(
    ("before", "prompt", "num_new"),
    [
        ([], A[:10], 2),  # blocks of 4: the last two tokens fill none
        ([A[:10]], A, 4),
        ([A], A, 0),  # its last block is computed from a copy, but the tree has it
        ([A[:3]], A[:3] + Z[:4], 1),
        ([A], A[:8] + Z, 6),
    ],
)
def test_a_prompt_puts_into_the_cache_the_whole_blocks_that_it_lacked(
    make: Make, before: list[list[int]], prompt: list[int], num_new: int
) -> None:
    site = make(host=0, disk=0)
    for earlier in before:
        site.serve(earlier)
    run = begun(site.start(prompt))
    while run.num_computed < len(prompt):  # in pieces that end within blocks
        site.compute(run, min(3, len(prompt) - run.num_computed))
        site.commit(run)
    assert run.hold.num_new == num_new


def test_of_two_prompts_that_compute_the_same_at_once_one_puts_it_into_the_cache(make: Make) -> None:
    site = make(host=0, disk=0)
    runs = [begun(site.start(A[:8])), begun(site.start(A[:8]))]
    for run in runs:
        site.compute(run)
        site.commit(run)
    assert [run.hold.num_new for run in runs] == [2, 0]


def test_a_namespace_finds_nothing_of_another(make: Make) -> None:
    site = make(host=0, disk=0)
    site.serve(A, b"one")
    assert site.serve(A, b"two") == 0


def test_a_cache_that_is_off_remembers_nothing(make: Make) -> None:
    site = make(is_enabled=False)
    site.serve(A)
    assert site.serve(A) == 0
    assert site.device.num_free == 24
    assert not site.tree.roots()


def test_blocks_that_only_a_sequence_holds_are_free_after_it(make: Make) -> None:
    site = make(host=0, disk=0)
    run = begun(site.start(A))
    site.compute(run)
    assert site.device.num_free == 18
    site.release(run)
    assert site.device.num_free == 24
    site.check_all_free()


# Sharing


def test_forks_share_whole_blocks_and_copy_the_one_they_write(make: Make) -> None:
    site = make(host=0, disk=0)
    run = begun(site.start(A[:10]))
    site.compute(run)
    site.commit(run)
    fork = site.cache.fork(run.hold, 10)
    assert fork is not None
    assert fork.table[:2].tolist() == run.hold.table[:2].tolist()
    assert fork.table[2] != run.hold.table[2]
    assert torch.equal(site.content(fork.table, 10), exact(run.salt, A[:10]))
    other = Run(run.salt, (*A[:10], 7, 7), fork, False, 10)
    run.tokens += (8, 8)
    site.compute(run)
    site.compute(other)
    check(site, run)
    check(site, other)
    site.cache.release(fork)
    site.release(run)
    site.check_all_free()


def test_a_block_shared_in_part_is_copied_before_it_is_written(make: Make) -> None:
    site = make(host=0, disk=0)
    first = begun(site.start(A[:7]))
    site.compute(first)
    site.commit(first)
    second = begun(site.start(A[:6] + Z[:2]))
    assert second.num_computed == 6
    assert second.hold.table[1] != first.hold.table[1]
    site.compute(second)
    check(site, first)
    check(site, second)


def test_two_that_computed_the_same_blocks_end_up_with_the_same_ones(make: Make) -> None:
    site = make(host=0, disk=0)
    first, second = begun(site.start(A[:8])), begun(site.start(A[:8]))
    for run in (first, second):
        site.compute(run)
        site.commit(run)
    assert second.hold.table.tolist() == first.hold.table.tolist()
    assert site.device.num_free == 24 - 2


# Room


def test_the_reserve_is_only_for_those_who_run(make: Make) -> None:
    site = make(host=0, disk=0, device=8, reserve=3)
    run = begun(site.start(A[:12]))
    assert site.start(Z[:12], keeps_reserve=True) is None  # 3 + 3 + 3 > 8
    other = begun(site.start(Z[:8], keeps_reserve=True))
    assert site.cache.extend(run.hold, 24)
    assert not site.cache.extend(other.hold, 9)
    assert site.device.num_free == 0


def test_nothing_is_evicted_for_a_prompt_that_would_not_fit_all_the_same(make: Make) -> None:
    site = make(host=0, disk=0, device=8)
    site.serve(A[:8])
    begun(site.start(Z[:12]))
    assert site.start(tuple(range(24))) is None  # 6 blocks; 3 are free and 2 could go
    assert site.num_in(Tier.DEVICE) == 2
    assert site.start(tuple(range(20))) is not None
    assert site.num_in(Tier.DEVICE) == 0


def test_eviction_never_takes_what_a_sequence_uses(make: Make) -> None:
    site = make(host=0, disk=0, device=10)
    site.serve(A[:16])
    run = begun(site.start(A[:9]))
    site.lower.evict(Tier.DEVICE, 10)
    check(site, run)
    assert site.tiers_of(A[:8]) == ["V", "V"]
    other = begun(site.start(Z[:20]))
    site.compute(other)
    check(site, run)
    site.cache.check_integrity()


# Pins and references


def test_asking_without_using_pins_nothing(make: Make) -> None:
    site = make()
    on_host(site)
    for _ in range(3):
        site.cache.num_cached(b"one", array(A))
        site.release(begun(site.start(A[:17])))
        assert site.start(tuple(range(120))) is None  # 30 blocks
    site.drain()
    site.check_all_free()


def test_a_hold_cannot_be_released_twice(make: Make) -> None:
    site = make()
    run = begun(site.start(A))
    site.release(run)
    with pytest.raises(KeyError):
        site.release(run)
    site.check_all_free()


def test_a_sequence_that_ends_before_its_blocks_have_come_leaves_nothing(make: Make) -> None:
    site = make(disk=0)
    on_host(site)
    site.gates[Tier.HOST].is_open.clear()
    for _ in range(2):
        run = begun(site.start(A[:17]))
        site.cache.commit(run.hold, array(A[:4]))  # not yet: nothing is there
        assert site.num_in(Tier.DEVICE) == 0
        site.release(run)
    site.gates[Tier.HOST].is_open.set()
    site.drain()
    site.check_all_free()
    assert site.device.num_free == 24


# no-store


def test_what_a_no_store_request_computed_stays_in_memory_until_another_uses_it(make: Make) -> None:
    site = make()
    site.serve(A[:16], is_volatile=True)
    assert site.tiers_of(A[:16]) == ["VH"] * 4
    assert site.disk.index() == []
    site.serve(A[:17], is_volatile=True)
    site.cache.close()
    assert site.disk.index() == []


def test_another_request_takes_a_no_store_prefix_over_and_brings_it_to_disk(make: Make) -> None:
    site = make()
    site.serve(A[:16], is_volatile=True)
    assert site.serve(A[:9]) == 8
    assert site.tiers_of(A[:16]) == ["VHD", "VHD", "VH", "VH"]
    assert site.serve(A[:16] + Z[:4]) == 16
    assert site.tiers_of(A[:16] + Z[:4]) == ["VHD"] * 5


# Lossy storage


def test_what_is_computed_on_an_int8_prefix_is_a_variant_with_another_name(make: Make) -> None:
    site = make(kind="int8")
    on_host(site, 8)
    run = begun(site.start(A[:16]))
    site.until(lambda: site.settle(run) == "there")
    error = (site.content(run.hold.table, 8) - exact(run.salt, A[:8])).abs().max()
    assert 0 < error <= INT8_ERROR
    assert run.hold.is_lossy
    site.compute(run)
    site.commit(run)
    flags = site.tree.match(run.salt, array(A[:16])).flags().tolist()
    assert flags == [Flag.LOSSY, Flag.LOSSY, Flag.VARIANT, Flag.VARIANT]
    site.release(run)
    site.drain()
    names = {record.index: record.name for _, record in site.disk.index()}
    assert len(names) == 4
    site.close()
    other = make(kind="int8", weights="f00d")
    other.cache.forget(other.node_of(A[:1]))
    other.serve(A[:16])
    exact_names = {record.index: record.name for _, record in other.disk.index()}
    assert [names[i] == exact_names[i] for i in range(4)] == [True, True, False, False]


def test_who_changes_over_to_a_lossy_block_computes_variants_from_then_on(make: Make) -> None:
    site = make(kind="int8", disk=0)
    on_host(site, 8)
    site.cache.prefill_s_per_token = 1e-12
    first = begun(site.start(A[:16]))  # computes all itself
    site.compute(first, 8)
    assert not first.hold.is_lossy
    site.cache.prefill_s_per_token = 0.0
    second = begun(site.start(A[:9]))
    site.until(lambda: site.settle(second) == "there")
    site.compute(second)
    site.commit(second)
    site.commit(first)
    assert first.hold.table[:2].tolist() == second.hold.table[:2].tolist()
    assert first.hold.is_lossy
    site.compute(first)
    site.commit(first)
    assert site.tree.match(b"one", array(A[:16])).flags()[2:].tolist() == [Flag.VARIANT] * 2
    new = site.content(first.hold.table, 16)[:, :, 8:] - exact(b"one", A[:16])[:, :, 8:]
    assert torch.equal(new, torch.full_like(new, SHIFT))


def test_a_lossy_block_is_not_saved_again_under_the_name_of_the_exact_one(make: Make) -> None:
    site = make(kind="int8", write="back", host=4)
    site.serve(A[:8])
    site.close()
    site = make(kind="int8", write="back", host=4)
    site.serve(A[:9])
    assert site.tiers_of(A[:8]) == ["VD", "VD"]
    site.lower.evict(Tier.DEVICE, 24)
    site.drain()
    assert site.tiers_of(A[:8]) == ["D", "D"]


# Forgetting


def test_what_is_forgotten_is_in_no_tier_and_not_found_after_a_restart(make: Make) -> None:
    site = make()
    site.serve(A)
    site.serve(A[:10] + Z[:6])  # branches within a block
    site.serve(Z)
    site.cache.forget(site.node_of(A[:1]))
    site.drain()
    assert site.tiers_of(A) == []
    assert site.num_in(Tier.DEVICE) == site.num_in(Tier.HOST) == site.num_in(Tier.DISK) == 6
    site.close()
    site = make()
    assert site.serve(A) == 0
    assert site.serve(Z) == 23


def test_a_node_between_two_block_boundaries_is_forgotten_with_what_is_below_it(make: Make) -> None:
    site = make()
    site.serve(A[:3] + Z[:5])
    site.serve(A[:3] + Z[10:15])
    node = site.node_of(A[:2])
    assert (node.num_blocks, len(node.children)) == (0, 2)
    site.cache.forget(node)
    assert not site.tree.roots()
    site.drain()
    site.check_all_free()


# The pool's claim


def test_claimed_blocks_have_one_holder_and_are_not_given_out() -> None:
    pool = BlockPool(8, 4)
    pool.claim(array([5, 0, 2]))
    assert [pool.num_refs(block) for block in range(8)] == [1, 0, 1, 0, 0, 1, 0, 0]
    taken = pool.take(5)
    assert taken is not None
    assert sorted(taken.tolist()) == [1, 3, 4, 6, 7]
    assert pool.take(1) is None
    assert pool.release(array([5, 0, 2])) == 3
    pool.check_integrity(np.array([0, 1, 0, 1, 1, 0, 1, 1]))


@pytest.mark.parametrize("blocks", [[1], [3, 3], [8], [-1]])
def test_a_block_that_is_held_listed_twice_or_of_no_arena_cannot_be_claimed(blocks: list[int]) -> None:
    pool = BlockPool(8, 4)
    pool.claim(array([1]))
    with pytest.raises(ValueError, match="block"):
        pool.claim(array(blocks))
