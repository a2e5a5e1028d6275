"""One look at a trace: the curve under LRU in one pass, replays under other policies, and the bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from openclaw_cache.kv.eviction import POLICIES
from openclaw_cache.simulation.bounds import belady
from openclaw_cache.simulation.curve import Curve
from openclaw_cache.simulation.replay import replay
from openclaw_cache.simulation.request import Request
from openclaw_cache.simulation.stack import MOST_BLOCKS, LruStack
from openclaw_cache.simulation.trace import MOST_BLOCKS as MOST_REPLAYED_BLOCKS
from openclaw_cache.simulation.trace import MOST_USES, Collector, Trace

LRU: Final = "lru"
BOUNDS: Final = ("belady", "held")
NAMES: Final = (*POLICIES, *BOUNDS)
"""Of policies and bounds. `belady` knows the future and may refuse a prompt; `held` must hold the one at hand."""

FEW_BLOCKS: Final = 8192
"""A sample of fewer is told to be small (SHARDS, FAST 2015, found 8 Ki enough for errors around .01)."""


@dataclass(frozen=True, slots=True)
class Study:
    """What a trace was found to be."""

    curve: Curve
    """Under LRU."""
    num_sampled_blocks: int
    trace: Trace | None
    """For replays, where any were asked for."""
    block_tokens: int
    span_s: float
    """From the first request to the last."""

    sample_curve: Curve | None = None
    """Under LRU, of the blocks that `trace` has; None where it has all."""

    def hit_ratio(self, policy: str, num_blocks: int) -> float:
        """What a cache of so many blocks finds. Under LRU it is read off the curve, else it is a replay of seconds.

        By how much LRU is off in the sample is known, and so much is taken off the others too: what is wrong with a
        sample (a few hot blocks too many, or too few) is wrong with it under every policy.
        """
        if policy == LRU or self.trace is None:
            return self.curve.hit_ratio(num_blocks)
        if num_blocks < 1:
            return 0.0
        trace, capacity = self.trace, self.trace.scaled(num_blocks)
        if policy in BOUNDS:
            outcome = belady(trace, capacity, holds_prompt=policy == "held")
        else:
            outcome = replay(trace, capacity, POLICIES[policy]())
        found = trace.hit_ratio(outcome.num_hit_tokens)
        if self.sample_curve is None:
            return found
        off = trace.hit_ratio(self.sample_curve.num_hit_tokens(capacity)) - self.curve.hit_ratio(num_blocks)
        return min(max(0.0, found - off), self.curve.best_ratio)


def study(
    requests: Iterable[Request],
    block_tokens: int,
    policies: Sequence[str] = (),
    *,
    rate: float | None = None,
    is_bounded: bool = True,
    told: Callable[[int], None] = lambda num_requests: None,
) -> Study:
    """Read a trace once.

    Args:
        requests: in order of time.
        block_tokens: tokens of a block.
        policies: which replays will be asked for; the trace is kept only if there is one.
        rate: of the sample; None begins with all.
        is_bounded: whether too many blocks make the sample smaller.
        told: called with the number of requests, now and then.
    """
    stack = LruStack(block_tokens, rate or 1.0, MOST_BLOCKS if is_bounded else None)
    collector = None
    if any(policy != LRU for policy in policies):
        most = (MOST_REPLAYED_BLOCKS, MOST_USES) if is_bounded and rate is None else (None, None)
        collector = Collector(block_tokens, rate or 1.0, *most)
    first_at, last_at, num = None, 0.0, 0
    for num, request in enumerate(requests, 1):
        stack.add(request)
        if collector is not None:
            collector.add(request)
        first_at = request.at if first_at is None else first_at
        last_at = max(last_at, request.at)
        if not num % 1000:
            told(1000)
    told(num % 1000)
    trace = None if collector is None else collector.trace()
    sample_curve = None if trace is None or trace.rate >= 1 else lru_curve(trace.requests, block_tokens)
    span_s = 0.0 if first_at is None else max(0.0, last_at - first_at)
    return Study(stack.curve(), stack.num_blocks, trace, block_tokens, span_s, sample_curve)


def lru_curve(requests: Iterable[Request], block_tokens: int) -> Curve:
    """Of all their blocks."""
    stack = LruStack(block_tokens, most_blocks=None)
    for request in requests:
        stack.add(request)
    return stack.curve()
