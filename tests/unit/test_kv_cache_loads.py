"""Blocks that come up from the tiers below: when, how often, and what becomes of loads that fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from openclaw_cache.kv.block import Tier
from support.kv_site import A, KvSite, Z, begun, check, found, on_host, sites

Make = Callable[..., KvSite]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    with sites(tmp_path) as build:
        yield build


# Loads


def test_evicted_blocks_come_back_from_the_host_bit_for_bit(make: Make) -> None:
    site = make(disk=0)
    on_host(site)
    run = begun(site.start(A[:17]))
    assert found(run) == (16, "HHHH")
    site.until(lambda: site.settle(run) == "there")
    assert run.num_computed == 16
    check(site, run)
    assert site.cache.num_hit_tokens == {Tier.DEVICE: 0, Tier.HOST: 16, Tier.DISK: 0}


def test_a_part_of_a_block_below_is_brought_whole_and_then_written_over(make: Make) -> None:
    site = make(disk=0)
    on_host(site, 8)
    assert site.serve(A[:6] + Z[:8]) == 6
    assert site.serve(A[:6] + Z[:8]) == 13


def test_two_that_want_the_same_blocks_load_them_once(make: Make) -> None:
    site = make(disk=0)
    on_host(site)
    site.gates[Tier.HOST].num_blocks.clear()
    site.gates[Tier.HOST].is_open.clear()
    run = begun(site.start(A[:17]))
    assert site.start(A[:12] + Z) is None
    site.gates[Tier.HOST].is_open.set()
    site.until(lambda: site.settle(run) == "there")
    assert site.start(A[:12] + Z) is None  # until it is in the tree
    site.compute(run)
    site.commit(run)
    other = begun(site.start(A[:12] + Z))
    assert found(other) == (12, "VVV")
    assert site.gates[Tier.HOST].num_blocks["read"] == 4


def test_loads_that_take_longer_than_computing_are_not_made(make: Make) -> None:
    site = make(disk=0)
    on_host(site)
    site.cache.prefill_s_per_token = 1e-12
    run = begun(site.start(A[:17]))
    assert found(run) == (0, "")
    assert not run.hold.loads
    site.compute(run)
    check(site, run)


def test_a_tier_that_was_measured_to_be_slow_is_computed_around(make: Make) -> None:
    site = make(disk=0)
    on_host(site)
    site.cache.prefill_s_per_token = 0.05  # 0.8 s for 16 tokens

    def throttle(call: str) -> None:
        site.clock.now += 1.0 if call.startswith("read") else 0.0

    site.gates[Tier.HOST].before = throttle
    assert site.serve(A[:17]) == 16  # memory was thought to be fast: two layers took 2 s
    site.lower.evict(Tier.DEVICE, 24)
    assert found(begun(site.start(A[:17]))) == (0, "")


# Loads that fail


def test_a_damaged_block_costs_itself_and_what_is_behind_it_and_is_forgotten(make: Make) -> None:
    site = make(disk=0)
    on_host(site)
    site.host.damage(site.slot_of(Tier.HOST, A[:16], 2))
    run = begun(site.start(A[:17]))
    site.until(lambda: site.settle(run) == "there")
    assert (run.num_computed, run.hold.num_cached) == (8, 8)
    check(site, run)
    assert site.cache.num_hit_tokens[Tier.HOST] == 8  # what was had, not what was hoped for
    site.compute(run)
    site.commit(run)
    site.release(run)
    site.drain()
    site.lower.evict(Tier.DEVICE, 24)
    assert site.serve(A[:17]) == 16  # the block has been saved anew
    site.check_all_free()


def test_a_damaged_copy_is_forgotten_also_by_one_who_gives_up(make: Make) -> None:
    site = make(disk=0)
    on_host(site)
    site.host.damage(site.slot_of(Tier.HOST, A[:16], 2))
    run = begun(site.start(A[:17]))
    site.until(lambda: site.settle(run) == "there")
    site.release(run)
    assert site.tiers_of(A[:16]) == ["H", "H"]
    site.check_all_free()


def test_a_damaged_block_on_host_is_taken_from_disk_next_time(make: Make) -> None:
    site = make()
    on_host(site)
    site.host.damage(site.slot_of(Tier.HOST, A[:16], 0))
    assert site.serve(A[:17]) == 0
    assert site.tiers_of(A[:16]) == ["VHD"] * 4
    site.lower.evict(Tier.DEVICE, 24)
    assert site.serve(A[:17]) == 16


def test_a_store_that_fails_gives_a_miss(make: Make) -> None:
    site = make(disk=0)
    on_host(site)
    site.gates[Tier.HOST].is_broken = True
    assert site.serve(A[:17]) == 0
    site.check_all_free()


def test_what_is_on_the_device_survives_failing_loads_of_two_tiers_and_is_not_written(make: Make) -> None:
    site = make()
    site.serve(A[:16])
    site.close()
    site = make()
    site.serve(A)  # four blocks from disk; two new ones go to the host too
    site.lower.evict(Tier.DEVICE, 24)
    site.serve(A[:9])
    assert site.tiers_of(A) == ["VD", "VD", "D", "D", "HD", "HD"]
    site.disk.damage(site.slot_of(Tier.DISK, A, 2))
    gates = site.gates[Tier.HOST], site.gates[Tier.DISK]
    for gate in gates:
        gate.is_open.clear()
    run = begun(site.start((*A, 1)))
    assert found(run) == (24, "VVDDHH")
    site.until(lambda: all(gate.num_held_up == 1 for gate in gates))  # what has not begun would be called off
    site.gates[Tier.DISK].is_open.set()
    site.until(lambda: run.hold.loads[0][1].is_over)
    assert site.settle(run) == "coming"  # the host may still write into its blocks
    site.gates[Tier.HOST].is_open.set()
    site.until(lambda: site.settle(run) == "there")
    assert run.num_computed == 8
    site.compute(run)
    check(site, run)
    site.commit(run)
    site.release(run)
    site.drain()
    site.check_all_free()


def test_a_load_that_takes_too_long_is_lost_and_the_next_start_computes(make: Make) -> None:
    site = make(disk=0)
    on_host(site)
    site.gates[Tier.HOST].is_open.clear()
    run = begun(site.start(A[:17]))
    assert site.settle(run) == "coming"
    site.rest()
    site.poll(6.0)
    assert site.settle(run) == "lost"
    num_free = site.device.num_free
    site.release(run)
    assert site.device.num_free == num_free + 1  # four may still be written
    site.cache.check_integrity()
    assert sum(site.cache.num_hit_tokens.values()) == 0
    site.gates[Tier.HOST].is_open.set()
    site.drain()
    assert site.device.num_free == 24
    site.poll(10.0)
    assert site.movement.is_alive(Tier.HOST)
    again = begun(site.start(A[:17]))  # not from a tier that has just been too slow, or it would never end
    assert found(again) == (0, "")
    site.release(again)
    site.poll(60.0)
    assert found(begun(site.start(A[:17]))) == (16, "HHHH")


def test_nobody_waits_for_a_transfer_that_hangs(make: Make) -> None:
    site = make(disk=0)
    on_host(site)
    site.gates[Tier.HOST].is_open.clear()
    run = begun(site.start(A[:17]))
    site.rest()
    site.release(run)
    site.poll(6.0)
    assert site.cache.is_busy
    site.poll(6.0)
    assert not site.cache.is_busy
    site.gates[Tier.HOST].is_open.set()
    site.until(lambda: site.device.num_free == 24)


def test_a_transfer_that_has_ended_counts_as_under_way_until_its_blocks_are_free(make: Make) -> None:
    site = make(disk=0)
    run = begun(site.start(A[:16]))
    site.compute(run)
    site.commit(run)
    site.release(run)
    site.rest()
    assert site.movement.num_pending == 0
    assert site.cache.is_busy
    site.poll()
    assert not site.cache.is_busy
