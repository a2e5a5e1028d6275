"""The scheduler over a real prefix cache: who computes how many tokens in which step."""

from __future__ import annotations

import time
from collections.abc import Sequence as Sequenced
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("torch")

from openclaw_cache.engine.chat import Reuse, Sampling, Work
from openclaw_cache.engine.plan import Segment
from openclaw_cache.engine.scheduler import ALONE_TOKENS, BESIDE_TOKENS, Batch, Scheduler
from openclaw_cache.engine.sequence import Request, Sequence
from openclaw_cache.kv.block import Tier
from support.toy_engine import BLOCK, ToyRunner, reply_to, toy_cache


class Bench:
    """A scheduler, its cache, and a model: `step` does what the engine's loop does around them."""

    def __init__(self, num_blocks: int = 1000, *, max_running: int = 32, **options: Any) -> None:
        self.cache, arena = toy_cache(num_blocks, **options)
        self.runner = ToyRunner(arena)
        self.scheduler = Scheduler(self.cache, max_running=max_running)
        self.waiting: list[Sequence] = []
        self.replies: dict[Sequence, list[int]] = {}
        self.num_restarts = 0

    def ask(self, prompt: Sequenced[int], num_tokens: int = 1, salt: bytes = b"") -> Sequence:
        work = Work(prompt, Sampling(max_tokens=num_tokens), salt=salt)
        ticket: Any = SimpleNamespace(work=work)
        choice: Any = None
        seq = Sequence(Request(ticket, seed=0, began_at=0.0, num_open=1), choice)
        self.waiting.append(seq)
        return seq

    def step(self) -> Batch:
        """Schedule, check what must hold in every step, compute, and take the results."""
        self.cache.poll(time.monotonic())
        for seq in self.scheduler.running:
            if seq.hold is not None and seq.hold.is_loading:
                self.cache.settle(seq.hold)
                seq.num_computed = min(seq.num_computed, seq.hold.num_cached)
        before = list(self.scheduler.running)
        batch = self.scheduler.schedule(list(self.waiting))
        self.num_restarts += sum(seq.hold is None for seq in before)
        self.waiting = [seq for seq in self.waiting if seq.hold is None]
        self._check(batch, before)
        if batch.shares:
            self._compute(batch)
        for seq in batch.whole:
            self._take(seq, None)
        self.cache.check_integrity()
        return batch

    def run(self, most_steps: int = 2000) -> None:
        while self.waiting or self.scheduler.running or self.scheduler.returned:
            self.step()
            most_steps -= 1
            assert most_steps, "a sequence starves"

    def computed(self) -> int:
        return sum(map(sum, self.runner.steps))

    def _check(self, batch: Batch, before: list[Sequence]) -> None:
        scheduled = dict(batch.shares)
        assert len(scheduled) == len(batch.shares), "a sequence is twice in a step"
        assert len(self.scheduler.running) <= self.scheduler._max_running
        for seq in before:
            if seq.hold is not None and not seq.hold.is_loading and seq.num_left == 1:
                assert scheduled[seq] == 1, "a running reply is left out"
        prompts = {seq: num for seq, num in batch.shares if seq not in before or seq.num_left > 1}
        budget = BESIDE_TOKENS if len(prompts) < len(scheduled) else ALONE_TOKENS
        assert sum(prompts.values()) <= budget
        for seq, num in batch.shares:
            assert seq in self.scheduler.running
            assert seq.hold is not None
            assert seq.hold.num_blocks * BLOCK >= seq.num_computed + num

    def _compute(self, batch: Batch) -> None:
        segments = [
            Segment(seq.tokens[seq.num_computed :][:num], seq.num_computed, seq.hold.table)
            for seq, num in batch.shares
            if seq.hold is not None
        ]
        chosen = self.runner.forward(segments).argmax(1).tolist()
        for (seq, num), token in zip(batch.shares, chosen, strict=True):
            seq.num_computed += num
            self._take(seq, token)

    def _take(self, seq: Sequence, token: int | None) -> None:
        assert seq.hold is not None
        if seq.num_left or seq.request.reuse is None:
            self.cache.commit(seq.hold, seq.computed)
        if seq.num_left:
            return
        seq.request.reuse = seq.request.reuse or Reuse()
        said = self.replies.setdefault(seq, [])
        if token is not None and not seq.is_warm_up:
            said.append(token)
        if len(said) == seq.request.work.sampling.max_tokens:
            self.scheduler.remove(seq)
        elif token is not None:
            seq.append(token)


def prompt_of(num_tokens: int, first: int = 1) -> list[int]:
    """Tokens that share nothing with those of another `first`."""
    return [first, *(i % 61 for i in range(num_tokens - 1))]


def shares(batch: Batch) -> list[int]:
    return [num for _, num in batch.shares]


def test_a_prompt_alone_is_computed_in_large_pieces() -> None:
    bench = Bench()
    bench.ask(prompt_of(600))
    assert [shares(bench.step()) for _ in range(3)] == [[256], [256], [88]]


def test_a_long_prompt_beside_running_replies_comes_in_small_pieces_and_no_reply_misses_a_step() -> None:
    bench = Bench()
    replies = [bench.ask(prompt_of(8, first), num_tokens=50) for first in (1, 2, 3)]
    bench.step()
    long = bench.ask(prompt_of(300, 4), num_tokens=2)
    for piece in (128, 128, 44):
        batch = bench.step()
        assert batch.shares == [*((seq, 1) for seq in replies), (long, piece)]
    assert bench.step().shares == [(seq, 1) for seq in (*replies, long)]
    bench.run()
    assert bench.replies[long] == reply_to(prompt_of(300, 4), 2)


def test_what_one_prompt_leaves_of_a_step_goes_to_the_next_in_the_order_of_arrival() -> None:
    bench = Bench()
    for first in (1, 2, 3):
        bench.ask(prompt_of(200, first), num_tokens=9)
    assert shares(bench.step()) == [200, 56]
    assert shares(bench.step()) == [1, 128]  # beside a reply
    assert shares(bench.step()) == [1, 16, 112]
    assert shares(bench.step()) == [1, 1, 88]


def test_a_prompt_waits_while_another_computes_its_beginning_and_then_computes_only_the_rest() -> None:
    bench = Bench()
    common = prompt_of(512)
    first = bench.ask([*common, *prompt_of(300, 2)])
    second = bench.ask([*common, *prompt_of(20, 3)])
    assert bench.step().shares == [(first, 256)]
    assert bench.step().shares == [(first, 256)]
    # All that they share is there now: the second waits no longer, though the first goes on.
    assert bench.step().shares == [(first, 256)]
    assert bench.step().shares == [(first, 44), (second, 20)]
    assert bench.replies[second] == reply_to([*common, *prompt_of(20, 3)], 1)


def test_a_prefix_is_computed_once_when_all_its_users_come_together() -> None:
    bench = Bench()
    common = prompt_of(400)
    prompts = [[*common, first, first] for first in range(8)]
    sequences = [bench.ask(prompt) for prompt in prompts]
    bench.run()
    assert bench.computed() == 402 + 7 * 2
    assert [bench.replies[seq] for seq in sequences] == [reply_to(prompt, 1) for prompt in prompts]


def test_one_who_waits_for_a_prefix_does_not_hold_up_others() -> None:
    bench = Bench()
    common = prompt_of(130)
    bench.ask([*common, 7])
    waits, other = bench.ask([*common, 8]), bench.ask(prompt_of(10, 5))
    assert [seq for seq, _ in bench.step().shares][1:] == [other]
    assert waits in dict(bench.step().shares)


@pytest.mark.parametrize("how", ["another salt", "prefix caching off"])
def test_nobody_waits_for_a_prefix_that_it_may_not_use(how: str) -> None:
    bench = Bench(is_enabled=how != "prefix caching off")
    bench.ask(prompt_of(100), salt=b"a")
    bench.ask(prompt_of(100), salt=b"b" if how == "another salt" else b"a")
    assert shares(bench.step()) == [100, 100]


def test_one_who_needs_more_room_than_there_is_goes_before_smaller_ones_that_came_later() -> None:
    bench = Bench(num_blocks=16)
    bench.ask(prompt_of(30, 1), num_tokens=3)  # 8 blocks
    big = bench.ask(prompt_of(50, 2))  # 13 blocks
    small = [bench.ask(prompt_of(4, first)) for first in range(3, 8)]
    assert len(bench.step().shares) == 1
    order: list[Sequence] = []
    while bench.waiting:
        order += [seq for seq, _ in bench.step().shares if seq not in order]
    assert order.index(big) < min(order.index(seq) for seq in small)


def test_the_reserve_is_kept_for_those_who_run() -> None:
    bench = Bench(num_blocks=20, reserve_blocks=4)
    running = bench.ask(prompt_of(40, 1), num_tokens=20)  # 10 blocks now, 15 in the end
    bench.step()
    too_big = bench.ask(prompt_of(28, 2))  # 7 blocks: free are 10, of which 4 are kept
    assert bench.step().shares == [(running, 1)]
    bench.waiting.remove(too_big)
    fits = bench.ask(prompt_of(20, 3))  # 5 blocks: beside 11 of the running one and the reserve of 4
    assert fits in dict(bench.step().shares)


def test_alone_one_may_have_the_reserve_too() -> None:
    bench = Bench(num_blocks=20, reserve_blocks=4)
    seq = bench.ask(prompt_of(80, 1))  # all 20 blocks
    assert bench.step().shares == [(seq, 80)]


def test_when_blocks_run_out_the_youngest_starts_again_and_nothing_is_lost() -> None:
    bench = Bench(num_blocks=12)
    prompts = [prompt_of(12, first) for first in (1, 2, 3)]
    sequences = [bench.ask(prompt, num_tokens=24) for prompt in prompts]  # 9 blocks each in the end
    bench.run()
    assert bench.num_restarts > 0
    assert [bench.replies[seq] for seq in sequences] == [reply_to(prompt, 24) for prompt in prompts]
    assert bench.cache._holds == set()


def test_the_oldest_never_starts_again() -> None:
    bench = Bench(num_blocks=12)
    oldest = bench.ask(prompt_of(12, 1), num_tokens=24)
    for first in (2, 3):
        bench.ask(prompt_of(12, first), num_tokens=24)
    while oldest not in bench.replies or len(bench.replies[oldest]) < 24:
        assert oldest in dict(bench.step().shares)


def test_of_several_who_start_again_the_older_goes_first() -> None:
    bench = Bench(num_blocks=18)
    oldest, second, third = (bench.ask(prompt_of(20, n), num_tokens=50) for n in (1, 2, 3))
    num_together = 0
    while oldest in bench.waiting or oldest in bench.scheduler.running:
        bench.step()
        num_together += len(bench.scheduler.returned) == 2
        assert not (second in bench.scheduler.returned and third in bench.scheduler.running)
    assert num_together
    bench.run()


def test_one_who_started_again_goes_before_those_who_wait() -> None:
    bench = Bench(num_blocks=12, max_running=2)
    first, second = (bench.ask(prompt_of(16, n), num_tokens=20) for n in (1, 2))
    third = bench.ask(prompt_of(4, 3))
    while not bench.num_restarts:
        bench.step()
    assert list(bench.scheduler.returned) == [second]
    order: list[Sequence] = []
    while bench.waiting:
        order += [seq for seq, _ in bench.step().shares if seq in (second, third)]
    assert order[0] is second
    bench.run()
    assert bench.replies[first] == reply_to(prompt_of(16, 1), 20)
    assert bench.replies[second] == reply_to(prompt_of(16, 2), 20)


def test_no_more_run_together_than_may() -> None:
    bench = Bench(max_running=2)
    for first in range(5):
        bench.ask(prompt_of(8, first), num_tokens=3)
    assert len(bench.step().shares) == 2
    assert not bench.scheduler.has_room(1)
    bench.step()
    bench.step()
    assert bench.scheduler.has_room(2)
    assert len(bench.step().shares) == 2
    bench.run()


def test_one_that_fills_the_whole_pool_is_served_again_though_its_own_cached_blocks_take_the_room() -> None:
    bench = Bench(num_blocks=16)
    for _ in range(3):
        seq = bench.ask(prompt_of(64))  # all 16 blocks, and another for its last, partly cached block
        bench.run()
        assert bench.replies[seq] == reply_to(prompt_of(64), 1)


def test_one_that_leaves_a_cached_path_early_is_served_though_the_rest_of_the_path_takes_the_room() -> None:
    bench = Bench(num_blocks=16)
    bench.ask(prompt_of(64), num_tokens=0)
    bench.run()
    other = [*prompt_of(40), *[63] * 20]
    seq = bench.ask(other, num_tokens=4)
    bench.run()
    assert bench.replies[seq] == reply_to(other, 4)


def test_a_warm_up_of_what_is_cached_whole_computes_nothing() -> None:
    bench = Bench()
    bench.ask(prompt_of(64), num_tokens=0)
    bench.run()
    again = bench.ask(prompt_of(64), num_tokens=0)
    batch = bench.step()
    assert (batch.shares, batch.whole) == ([], [again])
    assert bench.computed() == 64


def test_a_reply_to_what_is_cached_whole_computes_the_last_token() -> None:
    bench = Bench()
    bench.ask(prompt_of(64))
    bench.run()
    again = bench.ask(prompt_of(64))
    assert bench.step().shares == [(again, 1)]
    assert bench.replies[again] == reply_to(prompt_of(64), 1)


def test_a_warm_up_whose_blocks_still_come_from_below_ends_once_they_are_there() -> None:
    bench = Bench(num_blocks=8, host_slots=64)
    bench.ask(prompt_of(32), num_tokens=0)
    bench.run()
    until(lambda: bench.cache.poll(time.monotonic()) or not bench.cache.is_busy)
    bench.cache.lower.evict(Tier.DEVICE, 8)
    again = bench.ask(prompt_of(32), num_tokens=0)
    bystander = bench.ask([9], num_tokens=0)
    until(lambda: bench.step() is not None and again in bench.replies)
    assert bench.computed() == 32 + (bystander in bench.replies)


def until(is_met: Any) -> None:
    deadline = time.monotonic() + 20
    while not is_met():
        assert time.monotonic() < deadline
        time.sleep(0.001)


PROMPTS = st.lists(
    st.tuples(
        st.lists(st.sampled_from([1, 2]), min_size=1, max_size=40), st.integers(0, 12), st.integers(0, 6)
    ),
    min_size=1,
    max_size=12,
)


@given(PROMPTS, st.integers(14, 40), st.integers(1, 5), st.integers(0, 3), st.booleans())
@settings(deadline=None, max_examples=60)
def test_whatever_comes_every_reply_is_right_and_nothing_is_left_held(
    asked: list[tuple[list[int], int, int]], num_blocks: int, max_running: int, reserve: int, is_enabled: bool
) -> None:
    # 52 tokens at most: 13 blocks, so each fits alone.
    bench = Bench(num_blocks, max_running=max_running, reserve_blocks=reserve, is_enabled=is_enabled)
    sequences = []
    for prompt, num_tokens, num_steps in asked:
        sequences.append((bench.ask(prompt, num_tokens), prompt, num_tokens))
        for _ in range(num_steps):
            bench.step()
    bench.run()
    for seq, prompt, num_tokens in sequences:
        assert bench.replies[seq] == reply_to(prompt, num_tokens)
    counts = bench.cache.tree.counts()[Tier.DEVICE]
    assert bench.cache.device.num_free == num_blocks - counts["new"] - counts["hit"]
    assert counts["pinned"] == 0
    assert np.all([not node.num_pins for node in bench.cache.tree.nodes()])
