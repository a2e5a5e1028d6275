"""The order of prompts, and what a cache has of them: against hand-made trees and a plain counting of tokens."""

from __future__ import annotations

import itertools
import random

import pytest

from openclaw_cache.prefix.ordering import Place, order
from openclaw_cache.prefix.reuse import predicted

A, B, C = b"a" * 64, b"b" * 64, b"c" * 64


def indexes(prompts: list[bytes], step: int = 64) -> list[int]:
    return [place.index for place in order(prompts, step)]


def test_prompts_that_begin_alike_come_together() -> None:
    assert indexes([A + b"1", B + b"1", A + b"2", B + b"2"]) == [0, 2, 1, 3]


def test_the_larger_group_comes_first_and_alone_ones_stay_in_their_order() -> None:
    prompts = [b"z", A + b"1", B + b"1", b"y", B + b"2", A + b"2", B + b"3"]
    assert indexes(prompts) == [2, 4, 6, 1, 5, 0, 3]


def test_within_a_group_those_that_share_more_come_together() -> None:
    prompts = [A + B + b"1", A + C + b"1", A + b"x", A + C + b"2", A + B + b"2", A + C + b"3"]
    assert indexes(prompts) == [1, 3, 5, 0, 4, 2]


def test_equal_prompts_and_such_as_share_little_keep_the_given_order() -> None:
    prompts = [b"same beginning " + bytes([65 + i % 3]) * 80 for i in (2, 1, 0)]
    assert indexes(prompts) == [0, 1, 2]
    assert indexes([A, A, A]) == [0, 1, 2]


def test_the_first_of_a_group_leads_it_and_follows_the_group_around() -> None:
    prompts = [A + B + b"1", A + B + b"2", A + C + b"1", A + C + b"2", b"alone"]
    assert order(prompts) == [
        Place(0, 0, None),
        Place(1, 128, 0),
        Place(2, 64, 0),
        Place(3, 128, 2),
        Place(4, 0, None),
    ]


def test_no_prompts_have_no_order() -> None:
    assert order([]) == []


def naive_reuse(prompts: list[bytes], capacity: int | None, block: int) -> int:
    """Bytes reused: a list of whole prefixes, the least recently used first, counted without hashes."""
    held: list[bytes] = []
    reused = 0
    for prompt in prompts:
        prefixes = [prompt[:end] for end in range(block, len(prompt) + 1, block)]
        reused += block * len(list(itertools.takewhile(held.__contains__, prefixes)))
        for prefix in reversed(prefixes[:capacity]):
            if prefix in held:
                held.remove(prefix)
            held.append(prefix)
        while capacity is not None and len(held) > capacity:
            held.pop(0)
    return reused


@pytest.mark.parametrize("seed", range(20))
def test_predicted_reuse_is_what_a_plain_list_of_prefixes_gives(seed: int) -> None:
    chance = random.Random(seed)
    prompts = [bytes(chance.choices(b"ab", k=chance.randrange(14))) for _ in range(40)]
    for capacity in (None, 1, 5, 12):
        found = predicted(prompts, capacity, 2)
        assert found.reused_bytes == naive_reuse(prompts, capacity, 2)
        assert found.num_bytes == sum(map(len, prompts))


@pytest.mark.parametrize("seed", range(10))
def test_in_our_order_room_for_one_prompt_is_enough_to_compute_each_block_once(seed: int) -> None:
    chance = random.Random(seed)
    prompts = [bytes(chance.choices(b"ab", k=12)) for _ in range(60)]
    ordered = [prompts[place.index] for place in order(prompts, 2)]
    assert sorted(ordered) == sorted(prompts)
    distinct = {prompt[:end] for prompt in prompts for end in range(2, 13, 2)}
    everything = sum(map(len, prompts)) - 2 * len(distinct)
    # Six blocks of the path before, six of the one that is computed.
    assert predicted(ordered, 12, 2).reused_bytes == everything
    assert predicted(prompts, None, 2).reused_bytes == everything
