"""What no policy can beat: Belady's choice, the same for an engine that holds what it computes, room for everything."""

from __future__ import annotations

import heapq
from itertools import pairwise
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from openclaw_cache.simulation.replay import Outcome
from openclaw_cache.simulation.request import Ids
from openclaw_cache.simulation.trace import Trace

_NEVER: Final = np.iinfo(np.int32).max

# (-next use, -place in the path, running number, blocks)
_Run: TypeAlias = tuple[int, int, int, Ids]


def infinite(trace: Trace) -> Outcome:
    """Nothing is ever evicted."""
    outcome, is_known = Outcome(), np.zeros(trace.num_blocks, bool)
    for request in trace.requests:
        outcome.count(request, _num_leading(is_known[request.ids]), trace.block_tokens)
        is_known[request.ids] = True
    return outcome


def belady(trace: Trace, capacity: int, *, holds_prompt: bool = False) -> Outcome:
    """Evict what is asked for last, of equals the deepest (Belady 1966); the prompt at hand may go too.

    A block is asked for no later than those behind it, so what is kept of a path is its beginning.

    Args:
        trace: what is asked for.
        capacity: blocks.
        holds_prompt: the prompt at hand stays whole until the next one, as it must where it is computed in the pool;
            of one that is larger than the pool only the beginning is taken in.
    """
    outcome = Outcome()
    is_held, due = np.zeros(trace.num_blocks, bool), np.zeros(trace.num_blocks, np.int32)
    heap: list[_Run] = []
    num_held = number = 0
    for request, next_uses in zip(trace.requests, _next_uses(trace), strict=True):
        num_taken = capacity if holds_prompt else len(request.ids)
        ids, following = request.ids[:num_taken], next_uses[:num_taken]
        num_hits = _num_leading(is_held[ids])
        outcome.count(request, num_hits, trace.block_tokens)
        is_held[ids], due[ids] = True, following
        num_held += len(ids) - num_hits
        bounds = np.flatnonzero(np.diff(following)) + 1
        prompt: list[_Run] = []
        for start, end in pairwise([0, *bounds.tolist(), len(ids)]):
            number += 1
            prompt.append((-int(due[ids[start]]), -start, number, ids[start:end]))
        if not holds_prompt:
            _push(heap, prompt)
        while num_held > capacity:
            key, start, _, run = heapq.heappop(heap)
            current = run[is_held[run] & (due[run] == -key)]
            going = current[max(0, len(current) - (num_held - capacity)) :]
            is_held[going] = False
            num_held -= len(going)
            if len(going) < len(current):
                number += 1
                heapq.heappush(heap, (key, start, number, current[: -len(going)]))
        if holds_prompt:
            _push(heap, prompt)
    return outcome


def _push(heap: list[_Run], more: list[_Run]) -> None:
    for run in more:
        heapq.heappush(heap, run)


def _next_uses(trace: Trace) -> list[NDArray[np.int32]]:
    """For every request and block of it, the number of the next request that has the block."""
    following = np.full(trace.num_blocks, _NEVER, np.int32)
    found = []
    for i in range(len(trace.requests) - 1, -1, -1):
        ids = trace.requests[i].ids
        found.append(following[ids])
        following[ids] = i
    return found[::-1]


def _num_leading(is_there: NDArray[np.bool_]) -> int:
    return len(is_there) if is_there.all() else int(is_there.argmin())
