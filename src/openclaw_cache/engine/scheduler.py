"""Which sequences compute how many tokens in the next step. No I/O, no clock, no tensors."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from openclaw_cache.kv.rhythm import Hint

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from openclaw_cache.engine.sequence import Sequence
    from openclaw_cache.kv.cache import PrefixCache
    from openclaw_cache.kv.hold import Hold

ALONE_TOKENS = 256
"""Prompt tokens of a step in which nobody waits for a next token: the larger, the fewer passes over the weights."""

BESIDE_TOKENS = 128
"""Prompt tokens of a step beside running replies: these wait for the whole step, so it is kept short."""


@dataclass(slots=True)
class Batch:
    """One step: sequences with the number of tokens each computes; `whole` ones have nothing left to compute."""

    shares: list[tuple[Sequence, int]] = field(default_factory=list)
    whole: list[Sequence] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.shares or self.whole)


class Scheduler:
    """Continuous batching (Yu et al., OSDI 2022) with chunked prefill (Agrawal et al., arXiv:2308.16369).

    Every running reply gets its next token in every step, so no stream waits for another; what the step has
    left goes to prompts, oldest first. A prompt whose beginning another one is just computing waits for that one
    and then takes it from the cache: so a prefix is computed once even when its users come together.

    Args:
        cache: Gives blocks and says what is computed already.
        max_running: Sequences that run together.
    """

    def __init__(self, cache: PrefixCache, *, max_running: int) -> None:
        self._cache = cache
        self._max_running = max_running
        self.running: list[Sequence] = []
        self.returned: deque[Sequence] = deque()
        """Sequences that have run and must start again, or forks for which there was no room; they go first."""

    def schedule(self, waiting: Iterable[Sequence]) -> Batch:
        """Choose the next step; admits sequences from `returned` and `waiting` into `running`.

        Each admitted one has blocks for all its present tokens. A sequence that cannot get its next block makes
        the youngest one start again later.
        """
        batch = Batch()
        ready = [s for s in self.running if self._is_ready(s)]
        for seq in ready:
            if seq.num_left == 1 and seq in self.running and self._extend(seq, batch):
                batch.shares.append((seq, 1))
        budget = BESIDE_TOKENS if batch.shares else ALONE_TOKENS
        for seq in ready:
            if budget > 0 and seq.num_left != 1 and seq in self.running:
                budget -= self._share(batch, seq, budget)
        for seq in [*self.returned, *waiting]:
            if budget <= 0 or len(self.running) >= self._max_running:
                break
            if self._is_being_computed(seq):
                continue
            if not self._admit(seq):
                break
            if self._is_ready(seq):
                budget -= self._share(batch, seq, budget)
        return batch

    def has_room(self, num: int) -> bool:
        """Whether `num` more sequences may run."""
        return len(self.running) + num <= self._max_running

    def remove(self, seq: Sequence) -> None:
        """Forget a sequence and give its blocks back, keeping in the cache what it has computed and its hint."""
        if seq in self.running:
            self.running.remove(seq)
        elif seq in self.returned:
            self.returned.remove(seq)
        if seq.hold is not None:
            self._cache.commit(seq.hold, seq.computed)
            if seq.hint != Hint.NONE:
                self._cache.tree.rhythm.hint(seq.hold.node, seq.hint)
            self._cache.release(seq.hold)
            seq.hold = None

    def restart(self, seq: Sequence) -> None:
        """Take a sequence's blocks away; it starts again before all others."""
        self.remove(seq)
        seq.num_computed = 0
        self.returned.appendleft(seq)

    def _is_ready(self, seq: Sequence) -> bool:
        """Whether its cached blocks are there; alone, it may start while their later layers still come."""
        hold = seq.hold
        if hold is None or not hold.is_loading:
            return hold is not None
        return len(self.running) == 1 and hold.has_first_layer

    def _share(self, batch: Batch, seq: Sequence, budget: int) -> int:
        num = min(seq.num_left, budget)
        if num:
            batch.shares.append((seq, num))
        else:
            batch.whole.append(seq)
        return num

    def _admit(self, seq: Sequence) -> bool:
        hold = self._acquire(seq, seq.most_cached)
        if hold is None and not self.running and not self._cache.is_busy:
            # Alone, and still no room: what is cached of its path may be what takes it.
            hold = self._acquire(seq, 0)
        if hold is None:
            return False
        seq.hold = hold
        seq.num_computed = hold.num_cached
        if seq in self.returned:
            self.returned.remove(seq)
        self.running.append(seq)
        return True

    def _acquire(self, seq: Sequence, most_cached: int) -> Hold | None:
        return self._cache.acquire(
            seq.request.work.salt,
            seq.tokens,
            most_cached=most_cached,
            is_volatile=seq.request.work.is_volatile,
            keeps_reserve=bool(self.running),
            counts=seq.request.reuse is None and not seq.is_warm_up,
        )

    def _extend(self, seq: Sequence, batch: Batch) -> bool:
        """Get a block for its next token, if need be from the youngest; False if that was itself."""
        while seq.hold is not None and not self._cache.extend(seq.hold, seq.num_tokens):
            youngest = self.running[-1]
            self.restart(youngest)
            batch.shares = [share for share in batch.shares if share[0] is not youngest]
        return seq.hold is not None

    def _is_being_computed(self, seq: Sequence) -> bool:
        """Whether a running prompt has yet to compute blocks that this one could take from the cache then."""
        if not self._cache.is_enabled:
            return False
        for other in self.running:
            if other.num_left <= 1 or other.request.work.salt != seq.request.work.salt:
                continue
            common = self._cache.whole_blocks(_num_common(other.tokens, seq.tokens[: seq.most_cached]))
            if common > other.num_computed and common > self._cache.num_cached(
                seq.request.work.salt, seq.tokens[:common]
            ):
                return True
        return False


def _num_common(a: NDArray[np.int32], b: NDArray[np.int32]) -> int:
    """Length of the common beginning of two token arrays."""
    num = min(len(a), len(b))
    differ = a[:num] != b[:num]
    return int(differ.argmax()) if differ.any() else num
