"""The block pool against a dictionary of counts, under any order of take, share and release."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from openclaw_cache.kv.block import BlockPool


class PoolMachine(RuleBasedStateMachine):
    """`holders` are lists of blocks, as sequences and tree nodes hold them; their sum is the truth."""

    @initialize(num_blocks=st.integers(1, 40), chunk_blocks=st.integers(1, 9))
    def start(self, num_blocks: int, chunk_blocks: int) -> None:
        self.pool = BlockPool(num_blocks, chunk_blocks)
        self.chunk_blocks = chunk_blocks
        self.holders: list[list[int]] = []

    def counts(self) -> Counter[int]:
        return Counter(block for holder in self.holders for block in holder)

    @rule(num=st.integers(0, 20))
    def open(self, num: int) -> None:
        held = self.counts()
        num_free = self.pool.num_blocks - len(held)
        is_free = [block not in held for block in range(self.pool.num_blocks)]
        whole = [
            first
            for first in range(0, self.pool.num_blocks, self.chunk_blocks)
            if all(is_free[first : first + self.chunk_blocks])
        ]
        taken = self.pool.take(num)
        assert (taken is None) == (num > num_free)
        if taken is None:
            return
        assert not set(taken.tolist()) & held.keys()
        assert len(set(taken.tolist())) == num
        if num and any(first + self.chunk_blocks <= self.pool.num_blocks for first in whole):
            assert taken[0] in whole
        self.holders.append(taken.tolist())

    @precondition(lambda self: any(self.holders))
    @rule(num=st.integers(1, 12), data=st.data())
    def extend(self, num: int, data: st.DataObject) -> None:
        holder = data.draw(st.sampled_from([holder for holder in self.holders if holder]))
        held = self.counts()
        after = holder[-1]
        chunk_end = min((after // self.chunk_blocks + 1) * self.chunk_blocks, self.pool.num_blocks)
        run = []
        for block in range(after + 1, chunk_end):
            if block in held:
                break
            run.append(block)
        taken = self.pool.take(num, after)
        if taken is None:
            assert num > self.pool.num_blocks - len(held)
            return
        assert taken[: len(run)].tolist() == run[:num]
        assert not set(taken.tolist()) & held.keys()
        assert len(set(taken.tolist())) == num
        holder.extend(taken.tolist())

    @precondition(lambda self: self.holders)
    @rule(data=st.data())
    def fork(self, data: st.DataObject) -> None:
        holder = data.draw(st.sampled_from(self.holders))
        shared = holder[: data.draw(st.integers(0, len(holder)))]
        self.pool.share(np.array(shared, np.int32))
        self.holders.append(shared)

    @precondition(lambda self: self.holders)
    @rule(data=st.data())
    def shrink(self, data: st.DataObject) -> None:
        index = data.draw(st.integers(0, len(self.holders) - 1))
        holder = self.holders[index]
        keep = data.draw(st.integers(0, len(holder)))
        before = self.counts()
        gone, self.holders[index] = holder[keep:], holder[:keep]
        expected = len(before) - len(self.counts())
        assert self.pool.release(np.array(gone, np.int32)) == expected

    @rule(block=st.integers(-2, 45), is_release=st.booleans())
    def touch_what_is_not_held(self, block: int, is_release: bool) -> None:
        if block in self.counts():
            return
        verb = self.pool.release if is_release else self.pool.share
        with pytest.raises(ValueError, match=f"block {block}"):
            verb(np.array([*self.counts(), block], np.int32))

    @rule(num=st.integers(1, 3))
    def release_once_too_often(self, num: int) -> None:
        held = self.counts()
        if not held:
            return
        block, count = next(iter(held.items()))
        with pytest.raises(ValueError, match=f"block {block} more often"):
            self.pool.release(np.array([block] * (count + num), np.int32))

    @invariant()
    def books_agree_with_the_holders(self) -> None:
        if not hasattr(self, "pool"):
            return
        held = self.counts()
        assert self.pool.num_free == self.pool.num_blocks - len(held)
        for block in range(self.pool.num_blocks):
            assert self.pool.num_refs(block) == held[block]
            assert self.pool.is_shared(block) == (held[block] > 1)
        self.pool.check_integrity(held)

    def teardown(self) -> None:
        if not hasattr(self, "pool"):
            return
        for holder in self.holders:
            self.pool.release(np.array(holder, np.int32))
        assert self.pool.num_free == self.pool.num_blocks
        everything = self.pool.take(self.pool.num_blocks)
        assert everything is not None
        assert sorted(everything.tolist()) == list(range(self.pool.num_blocks))


TestPool = PoolMachine.TestCase
TestPool.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
