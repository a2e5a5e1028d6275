"""Stack distances by hand, and what a sample of blocks keeps."""

from __future__ import annotations

import numpy as np
import pytest

from openclaw_cache.kv.rhythm import Hint
from openclaw_cache.simulation.curve import Curve
from openclaw_cache.simulation.request import Request, TraceError
from openclaw_cache.simulation.sampling import is_sampled
from openclaw_cache.simulation.stack import LruStack
from openclaw_cache.simulation.trace import Collector


def asked(*paths: list[int], num_tokens: int | None = None, block_tokens: int = 1) -> list[Request]:
    return [
        Request(float(i), np.array(ids, np.int64), num_tokens or len(ids) * block_tokens, place=f"t:{i}")
        for i, ids in enumerate(paths, 1)
    ]


def curve_of(requests: list[Request], block_tokens: int = 1, rate: float = 1.0) -> Curve:
    stack = LruStack(block_tokens, rate)
    for request in requests:
        stack.add(request)
    return stack.curve()


def test_distances_by_hand() -> None:
    # After [0 1 2] the stack is 0 1 2 from the top, after [4] it is 4 0 1 2: so [0 1] is found at distances 2 and 3.
    # Then it is 0 1 4 2, and [0 1 2] is found at 1, 2 and 4.
    curve = curve_of(asked([0, 1, 2], [4], [0, 1], [0, 1, 2]))
    assert curve.hit_tokens[:5].tolist() == [0, 1, 3, 4, 5]
    assert [curve.hit_ratio(num) for num in (0, 1, 2, 3, 4, 99)] == [0, 1 / 9, 3 / 9, 4 / 9, 5 / 9, 5 / 9]
    assert (curve.num_tokens, curve.num_requests, curve.num_blocks) == (9, 4, 4)
    assert curve.best_ratio == 5 / 9
    assert [curve.needed(ratio) for ratio in (1 / 9, 2 / 9, 4 / 9, 5 / 9)] == [1, 2, 3, 4]


def test_the_beginning_of_a_prompt_that_does_not_fit_is_kept() -> None:
    # [0 1 2 3] in a cache of two leaves 0 and 1.
    curve = curve_of(asked([0, 1, 2, 3], [0, 1, 2, 3]))
    assert curve.hit_tokens[:5].tolist() == [0, 1, 2, 3, 4]


def test_a_last_block_that_is_not_full_counts_the_tokens_it_has() -> None:
    # Two blocks of 16, 20 tokens: the second has 4.
    twice = asked([7, 8], [7, 8], num_tokens=20, block_tokens=16)
    assert curve_of(twice, 16).hit_tokens[:3].tolist() == [0, 16, 20]


def test_tokens_behind_the_last_block_are_never_found() -> None:
    # One whole block of 16 of 20 tokens has an id.
    assert curve_of(asked([7], [7], num_tokens=20, block_tokens=16), 16).best_ratio == 16 / 40


def test_prompts_without_blocks_are_prompts_too() -> None:
    curve = curve_of(asked([], [5], [], [5], num_tokens=3, block_tokens=4), 4)
    assert (curve.num_requests, curve.best_ratio) == (4, 3 / 12)
    assert curve_of([]).hit_ratio(10) == 0


@pytest.mark.parametrize(
    ("paths", "fault"),
    [
        (([0, 1], [2, 1]), "t:2: block 1 stood behind another block before"),
        (([0, 1], [1]), "t:2: block 1 stood behind another block before"),
        (([0, 1], [3, 0]), "t:2: block 0 stood behind another block before"),
        (([0, 0],), "t:1: a block's id stands twice"),
        (([0, 1, 1],), "t:1: a block's id stands twice"),
    ],
)
def test_an_id_that_does_not_stand_for_its_prefix_is_refused(
    paths: tuple[list[int], ...], fault: str
) -> None:
    with pytest.raises(TraceError, match=fault):
        curve_of(asked(*paths))


def test_ids_may_be_hashes_and_may_become_hashes_later() -> None:
    mixed = asked([0, 1], [-(2**60), 2**61], [0, 1], [-(2**60), 2**61])
    assert curve_of(mixed).hit_tokens[:5].tolist() == [0, 0, 0, 2, 4]


def test_many_more_requests_than_blocks_need_no_more_room() -> None:
    # Two prompts in turn, 20,000 times: each block of each lies two deeper than in its own prompt.
    stack = LruStack(1)
    for request in asked(*[[0, 1], [2, 3]] * 10_000):
        stack.add(request)
    assert stack.curve().hit_tokens[:5].tolist() == [0, 0, 0, 19_998, 39_996]


def conversations(num: int = 60, num_turns: int = 12) -> list[Request]:
    """Turns of conversations that grow by ten blocks each, some called seldom; all begin with the same five blocks."""
    rng = np.random.default_rng(1)
    lengths = [0] * num
    requests = []
    for i in range(num * num_turns):
        own = int(rng.integers(num) * rng.random())
        lengths[own] += 10
        path = [*range(5), *(1000 + own * 1000 + j for j in range(lengths[own]))]
        requests.append(Request(float(i), np.array(path), len(path) * 16, place=f"t:{i}"))
    return requests


def test_a_sample_is_near_to_the_whole() -> None:
    requests = conversations()
    whole, sample = curve_of(requests, 16), curve_of(requests, 16, 0.25)
    assert sample.num_tokens == whole.num_tokens
    assert abs(sample.num_blocks / whole.num_blocks - 1) < 0.05
    for num_blocks in (50, 200, 500, 1000, 2000, 8000):
        assert abs(sample.hit_ratio(num_blocks) - whole.hit_ratio(num_blocks)) < 0.02


def test_a_bound_on_blocks_makes_the_sample_smaller_until_it_holds() -> None:
    requests = conversations()
    whole, stack = curve_of(requests, 16), LruStack(16, most_blocks=2000)
    for request in requests:
        stack.add(request)
        assert stack.num_blocks <= 2000
    assert stack.rate < 1
    fresh = LruStack(16, stack.rate)
    for request in requests:
        fresh.add(request)
    assert stack.num_blocks == fresh.num_blocks
    for num_blocks in (50, 200, 500, 1000, 2000, 8000):
        assert abs(stack.curve().hit_ratio(num_blocks) - whole.hit_ratio(num_blocks)) < 0.02


def test_smaller_samples_are_parts_of_larger_ones() -> None:
    ids = np.arange(100_000) * 7
    half, tenth = is_sampled(ids, 0.5), is_sampled(ids, 0.1)
    assert (half & tenth).sum() == tenth.sum()
    # Binomial: 50,000 ± 158 and 10,000 ± 95, one standard deviation.
    assert abs(half.sum() - 50_000) < 5 * 158
    assert abs(tenth.sum() - 10_000) < 5 * 95


def test_a_collected_sample_that_was_halved_is_the_sample_of_that_rate() -> None:
    requests = [
        Request(r.at, r.ids, r.num_tokens - 7 if i % 3 else r.num_tokens + 5, Hint.TOOL)
        for i, r in enumerate(conversations())
    ]
    halved = Collector(16, most_blocks=1500, most_uses=None)
    for request in requests:
        halved.add(request)
    assert halved.rate < 1
    fresh = Collector(16, halved.rate, None, None)
    for request in requests:
        fresh.add(request)
    one, other = halved.trace(), fresh.trace()
    assert one.num_blocks == other.num_blocks <= 1500
    assert one.num_surplus_tokens == pytest.approx(other.num_surplus_tokens)
    assert one.num_tokens == other.num_tokens == sum(request.num_tokens for request in requests)
    assert len(one.requests) == len(other.requests)
    renamed: dict[int, int] = {}
    for a, b in zip(one.requests, other.requests, strict=True):
        assert (a.at, a.num_tokens, a.hint, len(a.ids)) == (b.at, b.num_tokens, b.hint, len(b.ids))
        for x, y in zip(a.ids.tolist(), b.ids.tolist(), strict=True):
            assert renamed.setdefault(x, y) == y
    assert len(set(renamed.values())) == len(renamed)
