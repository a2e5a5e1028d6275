"""A trace through the engine's own radix tree, under a policy.

A block of the trace is one token of the tree with one block each. Like the engine: a prompt is matched and its path
pinned, room is made for what is new, then it is inserted. A request takes no time: its hint
counts at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from openclaw_cache.kv.block import Tier
from openclaw_cache.kv.radix import RadixTree

if TYPE_CHECKING:
    from collections.abc import Callable

    from openclaw_cache.kv.eviction import Eviction
    from openclaw_cache.simulation.request import Request
    from openclaw_cache.simulation.trace import Trace


@dataclass(slots=True)
class Outcome:
    """What a policy came to: tokens asked for and found, and what its decisions were."""

    num_tokens: int = 0
    num_hit_tokens: int = 0
    num_calls: int = 0
    num_victims: int = 0
    num_evicted_blocks: int = 0
    decision_s: float = 0.0

    @property
    def hit_ratio(self) -> float:
        """Tokens found of those asked for."""
        return self.num_hit_tokens / self.num_tokens if self.num_tokens else 0.0

    @property
    def victim_us(self) -> float:
        """Microseconds of choosing per node chosen."""
        return self.decision_s / self.num_victims * 1e6 if self.num_victims else 0.0

    def count(self, request: Request, num_hit_blocks: int, block_tokens: int) -> None:
        """Take in a look-up."""
        self.num_tokens += request.num_tokens
        self.num_hit_tokens += min(num_hit_blocks * block_tokens, request.num_tokens)


def replay(
    trace: Trace, capacity: int, policy: Eviction, clock: Callable[[], float] | None = None
) -> Outcome:
    """Ask for every prompt in turn, in a tier of `capacity` blocks.

    Args:
        trace: the requests.
        capacity: blocks, of the sample where the trace is one.
        policy: a new one, as it keeps state.
        clock: seconds, to measure what the choosing takes; None measures nothing.
    """
    tree, outcome, num_held = RadixTree(1), Outcome(), 0
    for request in trace.requests:
        ids = np.asarray(request.ids[:capacity], np.int32)
        match = tree.match(b"", ids)
        outcome.count(request, match.num_tokens, trace.block_tokens)
        if match.num_tokens:
            tree.touch(match, request.at)
        tree.pin(match.node)
        num_new = len(ids) - match.num_tokens
        num_held -= _evict(tree, policy, num_held + num_new - capacity, request.at, outcome, clock)
        fitting = ids[: match.num_tokens + min(num_new, capacity - num_held)]
        done = tree.insert(b"", fitting, np.zeros(len(fitting), np.int32), now=request.at)
        num_held += len(fitting) - match.num_tokens
        tree.rhythm.hint(done.node, request.hint)
        tree.unpin(match.node)
    return outcome


def _evict(
    tree: RadixTree,
    policy: Eviction,
    num_blocks: int,
    now: float,
    outcome: Outcome,
    clock: Callable[[], float] | None,
) -> int:
    """Make room; returns the number of blocks that went."""
    if num_blocks <= 0:
        return 0
    started = clock() if clock else 0.0
    victims = tree.victims(Tier.DEVICE, num_blocks, policy, now=now)
    outcome.decision_s += clock() - started if clock else 0.0
    outcome.num_calls += 1
    outcome.num_victims += len(victims)
    num = 0
    for victim in victims:
        dropped = tree.drop(victim.node, Tier.DEVICE, victim.first, victim.last)
        num += len(dropped.slots_by_tier[Tier.DEVICE])
    outcome.num_evicted_blocks += num
    return num
