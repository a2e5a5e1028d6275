"""How long an upstream takes: learnt from misses, never more claimed than was seen."""

from __future__ import annotations

import random
from typing import Any

import pytest

from openclaw_cache.history.durations import Durations
from openclaw_cache.observe.savings import Savings
from support.records import answered, missed


def learnt(*misses: tuple[int, int, float], **fields: Any) -> Durations:
    """From misses of (computed prompt tokens, reply tokens, seconds)."""
    durations = Durations()
    for prompt, reply, seconds in misses:
        durations.learn(
            missed(savings=Savings(prompt), completion_tokens=reply, duration_s=seconds, **fields)
        )
    return durations


def saved(
    durations: Durations, prompt: int, reply: int, took_s: float = 0.0, model: str = "gpt-heron"
) -> float:
    return durations.saved_s("oa", model, prompt_tokens=prompt, completion_tokens=reply, took_s=took_s)


def test_nothing_is_claimed_where_no_miss_was_seen() -> None:
    assert saved(Durations(), 100, 20) == 0.0
    assert saved(learnt((100, 20, 3.0)), 100, 20, model="another") == 0.0
    assert saved(learnt((100, 20, 3.0)), 0, 0) == 0.0


def test_after_one_miss_the_same_request_saves_its_time_less_our_own() -> None:
    durations = learnt((100, 20, 3.0))
    assert saved(durations, 100, 20, took_s=0.25) == pytest.approx(2.75)


def test_after_one_miss_a_longer_request_saves_no_more_and_a_shorter_one_less() -> None:
    # Nobody knows yet whether time goes with the prompt, the reply, or neither: the least of the three counts.
    durations = learnt((100, 20, 3.0))
    assert saved(durations, 1000, 200) == pytest.approx(3.0)
    assert saved(durations, 50, 20) == pytest.approx(1.5)
    assert saved(durations, 100, 5) == pytest.approx(0.75)


def test_what_a_prompt_token_and_a_reply_token_take_is_found_from_misses_of_different_sizes() -> None:
    draw = random.Random(3)
    sizes = [(draw.randrange(10, 20_000), draw.randrange(5, 800)) for _ in range(50)]
    durations = learnt(*((p, r, 0.5 + 0.0001 * p + 0.02 * r) for p, r in sizes))
    # 0.5 + 4000 × 0.0001 + 100 × 0.02 = 2.9
    assert saved(durations, 4000, 100) == pytest.approx(2.9, rel=1e-6)
    assert saved(durations, 4000, 100, took_s=1.0) == pytest.approx(1.9, rel=1e-6)


def test_noise_does_not_make_a_part_negative() -> None:
    draw = random.Random(5)
    sizes = [(draw.randrange(10, 2000), draw.randrange(5, 80)) for _ in range(40)]
    durations = learnt(*((p, r, 1.0 - 0.0002 * p + draw.random() / 10) for p, r in sizes))
    assert saved(durations, 100_000, 10_000) >= 0.0
    assert saved(durations, 1000, 40) == pytest.approx(0.85, abs=0.25)


def test_we_never_took_longer_than_nothing() -> None:
    assert saved(learnt((100, 20, 3.0)), 100, 20, took_s=9.0) == 0.0


@pytest.mark.parametrize(
    "fields", [{"outcome": "error"}, {"status": 499}, {"status": 502}, {"prompt_tokens": None}]
)
def test_what_was_not_computed_to_its_end_teaches_nothing(fields: dict[str, Any]) -> None:
    assert saved(learnt((100, 20, 3.0), **fields), 100, 20) == 0.0


def test_a_hit_teaches_nothing() -> None:
    durations = Durations()
    durations.learn(answered())
    assert saved(durations, 100, 20) == 0.0


def test_after_many_misses_of_one_kind_a_hit_still_saves_what_they_took() -> None:
    """The older ones count less and less; what they say stays the same."""
    assert saved(learnt(*[(100, 20, 3.0)] * 2000), 100, 20) == pytest.approx(3.0)


def test_an_upstream_that_became_faster_is_believed_after_a_while() -> None:
    draw = random.Random(9)
    slow = [(draw.randrange(100, 1000), 10, 10.0) for _ in range(512)]
    fast = [(draw.randrange(100, 1000), 10, 1.0) for _ in range(3000)]
    assert saved(learnt(*slow, *fast), 500, 10) < 1.2


def test_a_restart_forgets_nothing_and_pairs_are_bounded() -> None:
    before = learnt((100, 20, 3.0), (900, 10, 4.0))
    after = Durations()
    after.restore(before.packed())
    assert saved(after, 500, 15) == saved(before, 500, 15) > 0
    crowd = Durations(num_pairs=3)
    for i in range(1000):
        crowd.learn(missed(model=f"m{i}"))
    assert saved(crowd, 100, 20, model="m0") == 0.0
    assert saved(crowd, 90, 20, model="m999") > 0.0


def test_what_was_learnt_meanwhile_goes_before_what_is_restored() -> None:
    durations = learnt((100, 20, 3.0))
    durations.restore(learnt((100, 20, 9.0)).packed())
    assert saved(durations, 100, 20) == pytest.approx(3.0)
