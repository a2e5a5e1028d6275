"""A trace in memory, to be replayed again and again: its requests, or a sample of their blocks."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from openclaw_cache.kv.rhythm import Hint
from openclaw_cache.simulation.numbering import UNKNOWN, Numbering
from openclaw_cache.simulation.request import Request
from openclaw_cache.simulation.sampling import is_sampled

MOST_BLOCKS: Final = 1 << 18
MOST_USES: Final = 1 << 24
"""Of blocks, over all requests: 70 MB."""


@dataclass(frozen=True, slots=True)
class Trace:
    """Requests in order of time, their blocks numbered from 0 on.

    Of a sample, the requests have the sampled blocks only, and the tokens that lie in them.
    """

    requests: list[Request]
    block_tokens: int
    num_blocks: int
    rate: float = 1.0
    num_all_tokens: int = 0
    """Prompt tokens of all requests, also in what the sample leaves out; 0: those of `requests`."""
    num_surplus_tokens: float = 0.0
    """What the sample has less than its share of all tokens in blocks (SHARDS-adj counts them as found)."""

    @property
    def num_tokens(self) -> int:
        """Prompt tokens."""
        return self.num_all_tokens or sum(request.num_tokens for request in self.requests)

    def scaled(self, num_blocks: float) -> int:
        """What a capacity is to the sample; at least one block."""
        return max(1, round(num_blocks * self.rate))

    def hit_ratio(self, num_hit_tokens: int) -> float:
        """Of all prompt tokens, by those found of the sample."""
        num_tokens = self.num_tokens
        if not num_tokens:
            return 0.0
        return min(1.0, max(0.0, (num_hit_tokens + self.num_surplus_tokens) / self.rate / num_tokens))


def collected(requests: Iterable[Request], block_tokens: int) -> Trace:
    """All requests, whole."""
    collector = Collector(block_tokens, most_blocks=None, most_uses=None)
    for request in requests:
        collector.add(request)
    return collector.trace()


class Collector:
    """Collects requests for a `Trace`; of more than it may keep, a sample of their blocks.

    Args:
        block_tokens: tokens of a block.
        rate: of the sample to begin with; 1 is all.
        most_blocks, most_uses: distinct blocks, and uses of blocks, that are kept; None is no bound.
    """

    def __init__(
        self,
        block_tokens: int,
        rate: float = 1.0,
        most_blocks: int | None = MOST_BLOCKS,
        most_uses: int | None = MOST_USES,
    ) -> None:
        self.rate = rate
        self._block_tokens = block_tokens
        self._most_blocks, self._most_uses = most_blocks, most_uses
        self._numbers = Numbering()
        self._names = array("q")  # the id of each number
        self._uses = array("i")
        self._ends = array("q", [0])  # of each request's uses
        self._at, self._num_tokens, self._hints = array("d"), array("q"), array("b")
        self._num_all_tokens = self._num_block_tokens = 0

    def add(self, request: Request) -> None:
        """Take a request in."""
        self._num_all_tokens += request.num_tokens
        in_blocks = request.num_block_tokens(self._block_tokens)
        self._num_block_tokens += in_blocks
        if self.rate >= 1:
            ids, num_tokens = request.ids, request.num_tokens
        else:
            chosen = is_sampled(request.ids, self.rate)
            ids = request.ids[chosen]
            num_tokens = len(ids) * self._block_tokens
            if len(ids) and chosen[-1]:
                num_tokens -= len(request.ids) * self._block_tokens - in_blocks
        if not len(ids):
            return
        self._keep(ids, num_tokens, request)
        while (self._most_blocks is not None and self._numbers.num > self._most_blocks) or (
            self._most_uses is not None and len(self._uses) > self._most_uses
        ):
            self._halve()

    def trace(self) -> Trace:
        """What was collected."""
        uses, ends = np.array(self._uses, np.int32), list(self._ends)
        requests = [
            Request(at, uses[start:end], num_tokens, Hint(hint))
            for at, start, end, num_tokens, hint in zip(
                self._at, ends, ends[1:], self._num_tokens, self._hints, strict=False
            )
        ]
        surplus = 0.0
        if self.rate < 1:
            surplus = self.rate * self._num_block_tokens - sum(self._num_tokens)
        return Trace(
            requests, self._block_tokens, self._numbers.num, self.rate, self._num_all_tokens, surplus
        )

    def _keep(self, ids: NDArray[np.int64] | NDArray[np.int32], num_tokens: int, request: Request) -> None:
        numbers = self._numbers.find(ids)
        new = ids[numbers == UNKNOWN]
        if len(new):
            numbers[numbers == UNKNOWN] = np.arange(self._numbers.num, self._numbers.num + len(new))
            self._numbers.add(new)
            self._names.frombytes(np.ascontiguousarray(new, np.int64).tobytes())
        self._uses.frombytes(np.ascontiguousarray(numbers, np.int32).tobytes())
        self._ends.append(len(self._uses))
        self._at.append(request.at)
        self._num_tokens.append(num_tokens)
        self._hints.append(request.hint)

    def _halve(self) -> None:
        """Leave half of the blocks out. Cost: O(uses)."""
        self.rate /= 2
        names = np.array(self._names, np.int64)
        is_kept = is_sampled(names, self.rate)
        renumbered = np.cumsum(is_kept, dtype=np.int32) - 1
        uses, ends = np.array(self._uses, np.int32), np.array(self._ends, np.int64)
        is_used = is_kept[uses]
        counts = np.concatenate([[0], np.cumsum(is_used)])[ends]
        num_tokens = np.array(self._num_tokens, np.int64)
        lengths, lasts = np.diff(ends), np.maximum(ends[1:] - 1, 0)
        in_blocks = np.minimum(num_tokens, lengths * self._block_tokens)
        lacking = np.where(is_used[lasts], lengths * self._block_tokens - in_blocks, 0)
        fewer = np.diff(counts) * self._block_tokens - lacking
        rows = np.flatnonzero(np.diff(counts) > 0)
        self._numbers, self._names = Numbering(), array("q", names[is_kept].tobytes())
        kept_names = names[is_kept]
        self._numbers.find(kept_names)
        self._numbers.add(kept_names)
        self._uses = array("i", renumbered[uses[is_used]].tobytes())
        self._ends = array("q", np.concatenate([[0], counts[1:][rows]]).astype(np.int64).tobytes())
        self._at = array("d", np.array(self._at)[rows].tobytes())
        self._num_tokens = array("q", fewer[rows].astype(np.int64).tobytes())
        self._hints = array("b", np.array(self._hints, np.int8)[rows].tobytes())
