"""Host and disk below the device: what goes down and when, full and dead tiers, and restarts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from openclaw_cache.kv.agent import AgentAware
from openclaw_cache.kv.block import Tier
from openclaw_cache.kv.hashing import block_hash, root_hash
from openclaw_cache.kv.rhythm import Hint
from support.kv_gates import B
from support.kv_site import SALT, A, KvSite, Z, array, begun, exact, sites

Make = Callable[..., KvSite]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    with sites(tmp_path) as build:
        yield build


def evict(site: KvSite, tier: Tier, num: int = 24) -> None:
    site.lower.evict(tier, num)
    site.drain()


def check_below(site: KvSite, tier: Tier, tokens: tuple[int, ...]) -> None:
    whole = exact(SALT, tokens)
    for number in range(len(tokens) // B):
        found = site.below(tier, site.slot_of(tier, tokens, number))
        assert torch.equal(found, whole[:, :, number * B : number * B + B])


# Write through


def test_write_through_puts_each_block_on_host_and_from_there_on_disk(make: Make) -> None:
    site = make()
    site.serve(A)
    assert site.tiers_of(A) == ["VHD"] * 6
    check_below(site, Tier.HOST, A)
    check_below(site, Tier.DISK, A)
    assert site.gates[Tier.HOST].num_blocks["read"] == 6  # the disk's bytes are the host's


def test_a_block_is_written_once_however_often_it_is_used(make: Make) -> None:
    site = make()
    for _ in range(3):
        site.serve(A)
    assert [site.gates[tier].num_blocks["write"] for tier in (Tier.HOST, Tier.DISK)] == [6, 6]


def test_a_host_full_of_pinned_blocks_is_passed_over_for_the_disk(make: Make) -> None:
    site = make(host=4)
    site.serve(A[:16])
    site.cache.leases.pin(SALT, array(A[:16]), site.clock() + 1000)
    site.serve(Z[:8])
    assert site.tiers_of(Z[:8]) == ["VD", "VD"]
    check_below(site, Tier.DISK, Z[:8])


def test_what_has_no_room_on_host_goes_to_disk_and_the_rest_by_way_of_the_host(make: Make) -> None:
    site = make(host=4)
    site.serve(A)
    assert site.tiers_of(A) == ["VHD"] * 4 + ["VD"] * 2
    check_below(site, Tier.DISK, A)


@pytest.mark.parametrize("tier", [Tier.DEVICE, Tier.HOST, Tier.DISK])
def test_every_tier_lets_go_in_the_order_of_the_policy(make: Make, tier: Tier) -> None:
    """The conversation that has ended goes, though the other was used longer ago."""
    site = make(policy="agent")
    site.serve(A[:16])
    site.poll(1.0)
    site.serve(Z[:16])
    site.tree.rhythm.hint(site.node_of(Z[:16]), Hint.ENDED)
    evict(site, tier, 4)
    kept = {Tier.DEVICE: "HD", Tier.HOST: "VD", Tier.DISK: "VH"}[tier]
    assert (site.tiers_of(A[:16]), site.tiers_of(Z[:16])) == (["VHD"] * 4, [kept] * 4)


def test_only_what_has_really_gone_is_counted_under_its_reason(make: Make) -> None:
    site = make(policy="agent", host=0, disk=0)
    for tokens in (A[:16], Z[:16]):
        site.serve(tokens)
    policy = site.lower._policy
    assert isinstance(policy, AgentAware)
    site.lower.evict(Tier.DEVICE, 9, all_or_none=True)  # there are eight
    assert policy.duels[Tier.DEVICE].num_gone == {"rhythm": 0, "recency": 0, "ended": 0}
    site.lower.evict(Tier.DEVICE, 5, all_or_none=True)
    assert policy.duels[Tier.DEVICE].num_gone == {"rhythm": 2, "recency": 0, "ended": 0}
    assert len(policy.went) == 2


def test_a_full_host_gives_up_what_was_used_longest_ago(make: Make) -> None:
    site = make(host=4, disk=0)
    site.serve(A[:8])
    site.poll(1.0)
    site.serve(Z[:16])
    assert (site.tiers_of(A[:8]), site.tiers_of(Z[:16])) == (["V", "V"], ["VH"] * 4)


# Write back


def test_write_back_copies_victims_down_before_they_go(make: Make) -> None:
    site = make(write="back")
    site.serve(A[:16])
    assert site.tiers_of(A[:16]) == ["V"] * 4
    site.gates[Tier.HOST].is_open.clear()
    site.lower.evict(Tier.DEVICE, 2)
    assert site.device.num_free == 20
    site.gates[Tier.HOST].is_open.set()
    site.drain()
    assert site.tiers_of(A[:16]) == ["V", "V", "VH", "VH"]
    evict(site, Tier.DEVICE, 2)
    assert site.tiers_of(A[:16]) == ["V", "V", "H", "H"]
    evict(site, Tier.HOST, 2)
    evict(site, Tier.HOST, 2)
    assert site.tiers_of(A[:16]) == ["V", "V", "D", "D"]


def test_asking_again_while_a_copy_is_under_way_begins_no_further_ones(make: Make) -> None:
    site = make(write="back")
    site.serve(A[:16])
    site.serve(Z[:16])
    site.gates[Tier.HOST].is_open.clear()
    for _ in range(5):
        site.lower.evict(Tier.DEVICE, 2)
    assert sum(len(job.slots) for job in site.lower.saving()) == 2
    site.gates[Tier.HOST].is_open.set()
    site.drain()


def test_a_victim_for_which_the_host_has_no_room_goes_to_disk(make: Make) -> None:
    site = make(write="back", host=4)
    site.serve(A[:16])
    for _ in range(2):
        evict(site, Tier.DEVICE)
    assert site.tiers_of(A[:16]) == ["H"] * 4
    site.poll(1.0)
    site.serve(Z[:16])
    evict(site, Tier.DEVICE)
    assert (site.tiers_of(A[:16]), site.tiers_of(Z[:16])) == (["HD"] * 4, ["VD"] * 4)
    while site.num_in(Tier.DEVICE):
        evict(site, Tier.DEVICE)
    assert (site.tiers_of(A[:16]), site.tiers_of(Z[:16])) == (["D"] * 4, ["HD"] * 4)


def test_what_a_copy_under_way_hangs_on_is_not_dropped(make: Make) -> None:
    site = make(write="back", host=2, disk=0)
    site.serve(A[:16])
    site.poll(1.0)
    site.serve(A[:8] + Z[:8])
    site.lower.evict(Tier.DEVICE, 6)  # one branch finds room on host, one does not; the trunk has to wait
    assert site.tiers_of(A[:8]) == ["V", "V"]
    site.drain()
    site.cache.check_integrity()
    site.check_all_free()


def test_making_room_on_disk_does_not_take_what_the_copied_block_hangs_on(make: Make) -> None:
    site = make(write="back", disk=2)
    site.serve(A[:8])
    site.close()
    site = make(write="back", host=2, disk=2)
    site.serve(A[:16])
    evict(site, Tier.DEVICE, 2)
    site.lower.free(site.tree.drop(site.node_of(A[:16]), Tier.DEVICE, 0, 4))
    assert site.tiers_of(A[:16]) == ["D", "D", "H", "H"]
    evict(site, Tier.HOST, 2)
    assert site.tiers_of(A[:16]) == ["D", "D"]
    site.check_all_free()


def test_closing_brings_to_disk_what_was_only_in_memory(make: Make) -> None:
    site = make(write="back")
    site.serve(A)
    site.close()
    site = make()
    assert site.serve((*A, 1)) == 24


# Broken tiers


def test_a_dead_disk_costs_no_request_anything_and_is_counted(make: Make) -> None:
    site = make(host=0)
    site.gates[Tier.DISK].is_broken = True
    for first in range(0, 400, 10):
        assert site.serve(tuple(range(first, first + 9))) == 0
    assert site.movement.num_failures[Tier.DISK] == 3  # then it is off
    assert not site.movement.is_alive(Tier.DISK)
    assert site.gates[Tier.DISK].num_blocks["write"] == 3 * 2
    assert len(site.events) == 3
    assert site.lower.pools[Tier.DISK].num_free == 32
    site.check_all_free()


def test_a_disk_that_hangs_holds_up_nothing_and_its_copies_are_cancelled(make: Make) -> None:
    site = make(host=0)
    site.gates[Tier.DISK].is_open.clear()
    for tokens in (A[:8], Z[:8]):
        run = begun(site.start(tokens))
        site.compute(run)
        site.commit(run)
        site.release(run)
        site.rest()
    assert len(site.lower.saving()) == 2
    site.poll(6.0)
    site.poll()
    assert len(site.lower.saving()) == 1  # the one that waited; the other may still be read
    assert not site.movement.is_alive(Tier.DISK)
    assert site.start(tuple(range(88))) is not None  # 22 blocks: all but the two that may still be read
    site.gates[Tier.DISK].is_open.set()
    site.drain()
    site.cache.check_integrity()


def test_a_host_that_fails_is_passed_over_for_the_disk(make: Make) -> None:
    site = make()
    site.gates[Tier.HOST].is_broken = True
    for first in range(0, 40, 10):
        site.serve(tuple(range(first, first + 9)))
    assert site.tiers_of(tuple(range(30, 38))) == ["VD", "VD"]


def test_a_block_found_damaged_on_its_way_to_disk_is_not_written_and_forgotten_on_host(make: Make) -> None:
    site = make(disk=32)
    site.gates[Tier.DISK].is_open.clear()
    run = begun(site.start(A[:16]))
    site.compute(run)
    site.commit(run)
    site.release(run)
    site.until(lambda: site.gates[Tier.DISK].num_held_up == 1)
    other = begun(site.start(Z[:16]))
    site.compute(other)
    site.commit(other)
    site.release(other)
    site.until(lambda: site.num_in(Tier.HOST) == 8)
    site.host.damage(site.slot_of(Tier.HOST, Z[:16], 1))
    site.gates[Tier.DISK].is_open.set()
    site.drain()
    assert site.tiers_of(Z[:16]) == ["VHD", "V", "VH", "VH"]
    site.check_all_free()


# Restarts


@pytest.mark.parametrize("crashes", [False, True])
def test_a_restart_keeps_what_is_on_disk(make: Make, crashes: bool) -> None:
    site = make(device=120, host=0, disk=100)
    rng = np.random.default_rng(1)
    prompts = [tuple(rng.integers(0, 3, 20).tolist()) for _ in range(15)]
    for tokens in prompts:
        site.serve(tokens)
    num_blocks = site.num_in(Tier.DISK)
    site.close(crashes=crashes)
    site = make(device=120, host=0, disk=100)
    assert site.num_restored == site.num_in(Tier.DISK) == num_blocks
    site.cache.check_integrity()
    assert [site.serve((*tokens, 9)) for tokens in prompts] == [20] * 15


def test_another_model_finds_nothing(make: Make) -> None:
    site = make(disk=1000)
    site.serve(A)
    site.close()
    assert make(weights="beef", disk=1000).serve(A) == 0
    assert make(disk=1000).serve((*A, 1)) == 24


def test_blocks_behind_a_lost_one_are_given_up_and_those_before_it_kept(make: Make) -> None:
    site = make()
    site.serve(A)
    slots = [site.slot_of(Tier.DISK, A, number) for number in range(6)]
    site.close()
    with (site.disk.folder / "index").open("r+b") as file:
        record_bytes = (site.disk.folder / "index").stat().st_size // 6
        file.seek(slots[2] * record_bytes)
        file.write(bytes(record_bytes))
    site = make()
    assert site.num_restored == 2
    assert site.tiers_of(A) == ["D", "D"]
    assert site.lower.pools[Tier.DISK].num_free == 30
    assert [slot for slot, _ in site.disk.index()] == [slots[0], slots[1]]
    assert site.serve(A) == 8


def test_a_record_whose_name_is_not_that_of_its_tokens_is_not_believed(make: Make) -> None:
    site = make(host=0)
    site.serve(A[:8])
    found = sorted(site.disk.index(), key=lambda pair: pair[1].index)
    site.close()
    (first, of_first), (second, of_second) = found
    empty = make(host=0, weights="beef", disk=1000)
    assert empty.lower.restore(found).tolist() == [first, second]  # of another model altogether
    empty.close()
    empty = make(host=0, disk=1000)
    empty.cache.forget(empty.node_of(A[:1]))
    forged = replace(of_second, tokens=of_second.tokens + 1)
    assert empty.lower.restore([(first, of_first), (second, forged)]).tolist() == [second]
    assert empty.tiers_of(A[:8]) == ["D"]


def test_a_first_block_under_the_root_of_another_namespace_is_not_believed(make: Make) -> None:
    site = make(host=0)
    parent = root_hash(b"theirs", site.identity, B)
    site.serve(A[:4])
    ((slot, record),) = site.disk.index()
    forged = replace(record, salt=b"mine", parent=parent, name=block_hash(parent, record.tokens))
    site.cache.forget(site.node_of(A[:4]))
    assert site.lower.restore([(slot, forged)]).tolist() == [slot]
    assert not site.tree.roots()


def test_what_was_evicted_from_disk_is_not_found_after_a_restart(make: Make) -> None:
    site = make(host=0)
    site.serve(A)
    evict(site, Tier.DISK, 2)
    assert len(site.disk.index()) == 4
    site.close(crashes=True)
    assert make(host=0).tiers_of(A) == ["D"] * 4


def test_a_full_disk_gives_up_what_was_used_longest_ago(make: Make) -> None:
    site = make(host=0, disk=4)
    site.serve(A[:8])
    site.poll(1.0)
    site.serve(Z[:16])
    assert (site.tiers_of(A[:8]), site.tiers_of(Z[:16])) == (["V", "V"], ["VD"] * 4)
    site.close()
    site = make(host=0, disk=4)
    assert site.serve(Z[:17]) == 16
