"""What no policy can beat: Belady's choice, and room for everything."""

from __future__ import annotations

import heapq

import numpy as np
from benchmarks.eviction.replay import Outcome
from benchmarks.eviction.traces import Trace
from numpy.typing import NDArray

_NEVER = np.iinfo(np.int32).max


def infinite(trace: Trace) -> Outcome:
    """Nothing is ever evicted."""
    outcome, is_known = Outcome(), np.zeros(trace.num_blocks, bool)
    for request in trace.requests:
        outcome.count(request, _num_leading(is_known[request.ids]), trace.block_tokens)
        is_known[request.ids] = True
    return outcome


def belady(trace: Trace, capacity: int) -> Outcome:
    """Evict what is asked for last, of equals the deepest (Belady 1966); the prompt at hand may go too.

    A block is asked for no later than those behind it, so what is kept of a path is its beginning.
    """
    outcome = Outcome()
    is_held, due = np.zeros(trace.num_blocks, bool), np.zeros(trace.num_blocks, np.int32)
    heap: list[tuple[int, int, int, NDArray[np.int32]]] = []
    num_held = number = 0
    for request, following in zip(trace.requests, _next_uses(trace), strict=True):
        num_hits = _num_leading(is_held[request.ids])
        outcome.count(request, num_hits, trace.block_tokens)
        is_held[request.ids], due[request.ids] = True, following
        num_held += len(request.ids) - num_hits
        bounds = np.flatnonzero(np.diff(following)) + 1
        for start, run in zip([0, *bounds.tolist()], np.split(request.ids, bounds), strict=True):
            number += 1
            heapq.heappush(heap, (-int(due[run[0]]), -start, number, run))
        while num_held > capacity:
            key, start, _, run = heapq.heappop(heap)
            current = run[is_held[run] & (due[run] == -key)]
            going = current[max(0, len(current) - (num_held - capacity)) :]
            is_held[going] = False
            num_held -= len(going)
            if len(going) < len(current):
                number += 1
                heapq.heappush(heap, (key, start, number, current[: -len(going)]))
    return outcome


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
