"""Which hits are verified, and what bounds that."""

from __future__ import annotations

import random

import pytest

from openclaw_cache.semantic.sampling import Sampler


def drawn(
    sampler: Sampler, num_hits: int, draw: float = 0.0, now: float = 0.0, *, is_paid: bool = False
) -> bool:
    """Draw a hit; what is begun ends at once."""
    begun = sampler.begin(num_hits, draw, now, is_paid=is_paid)
    if begun:
        sampler.end()
    return begun


def test_the_first_300_hits_have_a_chance_of_a_fifth_and_later_ones_of_a_hundredth() -> None:
    sampler = Sampler()
    assert [sampler.chance(num) for num in (0, 299, 300, 100_000)] == [0.2, 0.2, 0.01, 0.01]
    assert drawn(sampler, 299, 0.199)
    assert not drawn(sampler, 299, 0.2)
    assert drawn(sampler, 300, 0.0099)
    assert not drawn(sampler, 300, 0.01)


def test_the_same_draws_choose_the_same_hits() -> None:
    def chosen() -> list[int]:
        dice, sampler = random.Random(7), Sampler(per_hour=10_000)
        return [num for num in range(600) if drawn(sampler, num, dice.random())]

    assert chosen() == chosen()
    # Binomial(300, 0.2) has a mean of 60 and a deviation of 6.9.
    assert 32 < sum(num < 300 for num in chosen()) < 88


def test_a_ratio_of_one_takes_all_and_of_zero_none() -> None:
    assert drawn(Sampler(first_ratio=1.0), 0, 0.999_999)
    assert not drawn(Sampler(first_ratio=0.0), 0, 0.0)
    assert not drawn(Sampler(first_hits=0, ratio=0.0), 0, 0.0)


def test_an_upstream_that_costs_money_is_asked_only_where_that_was_said() -> None:
    assert not drawn(Sampler(), 0, is_paid=True)
    assert drawn(Sampler(), 0, is_paid=False)
    assert drawn(Sampler(paid=True), 0, is_paid=True)


def test_no_more_are_in_the_air_than_may_be() -> None:
    sampler = Sampler(most_in_air=2)
    begun = [sampler.begin(0, 0.0, 0.0, is_paid=False) for _ in range(3)]
    assert begun == [True, True, False]
    assert sampler.num_bounded == 1
    sampler.end()
    assert sampler.begin(0, 0.0, 0.0, is_paid=False)


def test_no_more_begin_in_any_hour_than_may() -> None:
    sampler = Sampler(per_hour=3)
    assert [drawn(sampler, 0, now=now) for now in (0, 1000, 2000, 3599.9)] == [True, True, True, False]
    assert drawn(sampler, 0, now=3600)
    assert not drawn(sampler, 0, now=4599)
    assert drawn(sampler, 0, now=4600)


def test_a_bound_of_none_an_hour_verifies_nothing() -> None:
    assert not drawn(Sampler(per_hour=0), 0)


def test_a_hit_that_was_not_drawn_uses_up_nothing() -> None:
    sampler = Sampler(per_hour=1)
    assert not drawn(sampler, 0, 0.9)
    assert not drawn(sampler, 0, 0.0, is_paid=True)
    assert sampler.num_bounded == 0
    assert drawn(sampler, 0, 0.0)


def test_ending_what_was_not_begun_is_a_fault() -> None:
    sampler = Sampler()
    assert drawn(sampler, 0)
    with pytest.raises(RuntimeError, match="not begun"):
        sampler.end()
