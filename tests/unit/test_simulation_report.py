"""Tiers, prices and advice by hand."""

from __future__ import annotations

import numpy as np
import pytest

from openclaw_cache.simulation.advice import knee, pays_up_to, steps
from openclaw_cache.simulation.costs import ROOM_PRICES, Worth, monthly
from openclaw_cache.simulation.curve import Curve
from openclaw_cache.simulation.report import Asked, report
from openclaw_cache.simulation.request import Request
from openclaw_cache.simulation.study import study
from openclaw_cache.simulation.tiers import Tier, Write, found, reaches

DEVICE, HOST, DISK = Tier("device", 3200, 10), Tier("host", 8000, 5), Tier("disk", 24000, 5)


def curve(hits: list[float], num_tokens: int = 100) -> Curve:
    return Curve(np.array(hits, float), 1.0, num_tokens, 10, len(hits) - 1)


@pytest.mark.parametrize(("write", "expected"), [("through", [20, 100, 300]), ("back", [20, 120, 420])])
def test_tiers_that_are_written_through_hold_the_same_blocks(write: Write, expected: list[int]) -> None:
    # 16 tokens a block: 3,200 bytes are 20 blocks of 160 on the device, 8,000 are 100 of 80 in the host.
    assert reaches([DEVICE, HOST, DISK], write, 16) == expected
    rows = found([DEVICE, HOST, DISK], write, 16, lambda num: num / 1000)
    assert [row.total_ratio for row in rows] == [num / 1000 for num in expected]
    assert sum(row.hit_ratio for row in rows) == pytest.approx(expected[-1] / 1000)


def test_a_tier_that_is_no_larger_than_the_one_above_it_adds_nothing_when_written_through() -> None:
    small = Tier("host", 800, 5)
    rows = found([DEVICE, small], "through", 16, lambda num: num / 1000)
    assert [row.hit_ratio for row in rows] == [0.02, 0.0]


def test_steps_are_round_and_cover_the_range() -> None:
    assert steps(3, 70) == [2, 5, 10, 20, 50, 100]
    assert steps(10, 10) == [10]
    assert steps(0.5, 3) == [1, 2, 5]


def test_the_knee_is_where_the_curve_bends() -> None:
    # Ten tokens a block for five blocks, then one for five blocks more.
    assert knee(curve([0, 10, 20, 30, 40, 50, 51, 52, 53, 54, 55])) == 5


def test_room_pays_as_long_as_a_block_costs_less_than_it_saves() -> None:
    hits = curve([0, 10, 20, 30, 40, 50, 51, 52, 53, 54, 55])
    # All 100 tokens are worth $100: a dollar each. A block that finds 10 of them pays at $5, one that finds 1 does not.
    assert pays_up_to(hits, 5.0, 100.0) == 5
    assert pays_up_to(hits, 0.5, 100.0) == 10
    assert pays_up_to(hits, 11.0, 100.0) is None


def test_prices_are_for_ten_to_the_ninth_bytes() -> None:
    # $0.17 for 2^30 bytes; 0.004237 × 730 h = $3.093 for 2^30.
    assert ROOM_PRICES["disk"].dollars == pytest.approx(0.17 * 1e9 / 2**30, abs=5e-4)
    assert ROOM_PRICES["host"].dollars == pytest.approx(2.881, abs=5e-4)


def test_what_tokens_are_worth() -> None:
    worth = Worth(3e-6, 2000)
    assert worth.dollars(1_000_000) == pytest.approx(3)
    assert worth.seconds(1_000_000) == 500
    assert Worth().dollars(1) is Worth().seconds(1) is None
    # 730 hours of what came in an hour.
    assert monthly(10, 3600) == 7300
    assert monthly(10, 0) is None


def looked_at(*paths: list[int], policies: tuple[str, ...] = ("lru",), tiers: tuple[Tier, ...] = ()) -> dict:  # type: ignore[type-arg]
    requests = [
        Request(3600.0 * i, np.array(ids), 16 * len(ids), place=f"t:{i}") for i, ids in enumerate(paths)
    ]
    asked = Asked(policies, tiers, "through", 10.0, ROOM_PRICES, Worth(1e-3, 10))
    return report(study(requests, 16, policies), asked)


def test_a_report_by_hand() -> None:
    shown = looked_at([0, 1, 2], [4], [0, 1], [0, 1, 2], tiers=(Tier("host", 480, 10), Tier("disk", 640, 10)))
    # Blocks of 160 bytes: three fit into the host, four onto the disk; the distances are 1, 2, 2, 3 and 4.
    host, disk = shown["tiers"]
    assert (host["num_blocks"], host["total_ratio"]) == (3, pytest.approx(4 / 9))
    assert (disk["num_blocks"], disk["hit_ratio"]) == (4, pytest.approx(1 / 9))
    # 64 tokens found in the host in 3 hours; ten are computed in a second, and each costs a tenth of a cent.
    assert host["num_tokens_found"] == 64
    assert host["saved_s"] == pytest.approx(6.4)
    assert host["saved_dollars"] == pytest.approx(0.064)
    assert host["saved_dollars_a_month"] == pytest.approx(0.064 * 730 / 3)
    assert shown["infinite"] == {"hit_ratio": 5 / 9, "num_blocks": 4, "num_bytes": 640}
    assert (shown["span_s"], shown["sample"]["rate"]) == (3 * 3600, 1.0)


def test_policies_and_bounds_stand_beside_lru() -> None:
    # Room for two: LRU keeps the last word, who knows the future keeps [0 1].
    paths = [[0, 1], [2, 3], [0, 1], [4, 5], [0, 1]]
    names = ("lru", "s3fifo", "lfu", "agent", "belady", "held")
    shown = looked_at(*paths, policies=names, tiers=(Tier("host", 320, 10),))
    ratios = shown["tiers"][0]["total_ratio_by_policy"]
    assert set(ratios) == set(names)
    assert ratios["lru"] == 0
    assert ratios["belady"] == pytest.approx(4 / 10)
    assert all(ratios[name] <= ratios["belady"] for name in names)


def test_prompts_that_share_nothing_are_told_to() -> None:
    shown = looked_at([0, 1], [2, 3])
    assert shown["advice"] == [{"id": "nothing", "hit_ratio": 0.0}]
