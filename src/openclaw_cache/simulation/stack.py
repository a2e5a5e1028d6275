"""The hits of an LRU cache of every size, in one pass.

Mattson, Gecsei, Slutz, Traiger, "Evaluation techniques for storage hierarchies", 1970: an LRU cache of c blocks holds
the c blocks used last, so a block is found by every cache that has room for its *stack distance*, the number of
distinct blocks from it up to the one used last.

Of a prompt, the first block counts as used last, as only ends of paths are evicted. So when a request comes, every
block of its path stands nearer to the top than those behind it: distances rise along a path, and the blocks that a
cache of c holds of it are a leading run of it, those whose distance is at most c. A request is looked up before it
changes anything. A prompt longer than the cache leaves its beginning in it.

All of that is exact for an LRU that orders single blocks. The engine's tree orders *nodes*, runs of blocks that no
branch interrupts: where a call leaves a run in its middle, the rest of that run counts as used once more. That, and
calls of the same instant, is all that the two differ by (`docs/simulate.md` has how much).

Cost. Blocks that a request was the last to use are always one run at the end of its path, as later requests can only
take the beginning away. So it is enough to count, per request, how many it still has: a request costs O(path) of
copying arrays and O(log requests) for each run of its path.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from openclaw_cache.simulation.curve import Curve
from openclaw_cache.simulation.fenwick import Fenwick
from openclaw_cache.simulation.numbering import UNKNOWN, Numbering
from openclaw_cache.simulation.request import Ids, Request, TraceError
from openclaw_cache.simulation.sampling import is_sampled

MOST_BLOCKS: Final = 2_500_000
"""Kept apart at a time: about 350 MB."""

_FIRST_STAMPS: Final = 1 << 12
_BUFFERED: Final = 1 << 15
_ROOT: Final = np.iinfo(np.int64).min


class LruStack:
    """Takes requests in, one after the other, and gives the curve of hits over capacity at any time.

    Of more than `most_blocks` blocks a sample is kept, of half the rate each time there are too many (SHARDS with a
    bound, FAST 2015, section 3.2): memory does not grow with the trace.

    Args:
        block_tokens: tokens of a block.
        rate: of the sample to begin with; 1 is all.
        most_blocks: how many blocks are kept; None is no bound.
    """

    def __init__(self, block_tokens: int, rate: float = 1.0, most_blocks: int | None = MOST_BLOCKS) -> None:
        self.block_tokens = block_tokens
        self.rate = rate
        self._most_blocks = most_blocks
        self._numbers = Numbering()
        self._ids = np.empty(1024, np.int64)
        self._parents = np.empty(1024, np.int64)
        self._stamps = np.empty(1024, np.int32)  # of the request that used the block last
        self._held = Fenwick(_FIRST_STAMPS)
        self._next_stamp = 0
        self._found = _Distances()
        self._num_tokens = self._num_block_tokens = self._num_requests = 0
        self._num_sampled_tokens = 0.0

    @property
    def num_blocks(self) -> int:
        """Distinct blocks in the sample."""
        return self._numbers.num

    def add(self, request: Request) -> None:
        """Look a request up and take it in.

        Raises:
            TraceError: a block's id stands behind another block than before, or twice in a prompt.
        """
        self._num_requests += 1
        self._num_tokens += request.num_tokens
        in_blocks = request.num_block_tokens(self.block_tokens)
        self._num_block_tokens += in_blocks
        ids, parents, has_end = _sampled(request.ids, self.rate)
        if not len(ids):
            return
        lacking = len(request.ids) * self.block_tokens - in_blocks if has_end else 0
        self._num_sampled_tokens += len(ids) * self.block_tokens - lacking
        if self._next_stamp == len(self._held):
            self._restamp()
        numbers = self._look_up(ids, parents, request)
        self._use(numbers, lacking)
        if self._most_blocks is not None and self._numbers.num > self._most_blocks:
            self._halve()

    def curve(self) -> Curve:
        """Hits over capacity, of all that was taken in. Cost: O(largest distance)."""
        tokens = self._found.tokens()
        # SHARDS-adj: what a sample lacks of its share are uses of a few hot blocks, found by nearly every cache.
        tokens[0] += self.rate * self._num_block_tokens - self._num_sampled_tokens
        return Curve(
            np.maximum(np.cumsum(tokens), 0.0) / self.rate,
            rate=self.rate,
            num_tokens=self._num_tokens,
            num_requests=self._num_requests,
            num_blocks=round(self._numbers.num / self.rate),
        )

    def _look_up(self, ids: Ids, parents: Ids, request: Request) -> NDArray[np.int32]:
        """The numbers of a path's blocks, the new ones among them given theirs."""
        numbers = self._numbers.find(ids)
        is_known = numbers != UNKNOWN
        num_known = len(ids) if is_known.all() else int(is_known.argmin())
        known = numbers[:num_known]
        wrong = np.flatnonzero(self._parents[known] != parents[:num_known])
        if len(wrong) or is_known[num_known:].any():
            behind = np.flatnonzero(is_known[num_known:])
            at = int(wrong[0]) if len(wrong) else num_known + int(behind[0])
            raise TraceError(
                f"{request.place}: block {ids[at]} stood behind another block before; an id must stand for its "
                "block and for all that is before it"
            )
        if num_known < len(ids):
            num, new = self._numbers.num, ids[num_known:]
            if not self._numbers.add(new):
                raise TraceError(f"{request.place}: a block's id stands twice in this prompt")
            self._make_room()
            self._ids[num : self._numbers.num] = new
            self._parents[num : self._numbers.num] = parents[num_known:]
            self._stamps[num : self._numbers.num] = UNKNOWN
            numbers[num_known:] = np.arange(num, self._numbers.num)
        return numbers

    def _use(self, numbers: NDArray[np.int32], lacking: int) -> None:
        """Note the distance of each block, and put the path on top of the stack."""
        stamps = self._stamps[numbers]
        starts = [0, *(np.flatnonzero(np.diff(stamps)) + 1).tolist(), len(stamps)]
        runs = [(int(stamps[a]), b - a) for a, b in pairwise(starts) if stamps[a] != UNKNOWN]
        last = 0
        for stamp, num in runs:
            above = self._held.behind(stamp)
            self._found.add(above + 1, above + num, self.block_tokens)
            last = above + num
        if lacking and stamps[-1] != UNKNOWN:
            self._found.add(last, last, -lacking)
        for stamp, num in runs:
            self._held.add(stamp, -num)
        self._held.add(self._next_stamp, len(numbers))
        self._stamps[numbers] = self._next_stamp
        self._next_stamp += 1

    def _make_room(self) -> None:
        num, room = self._numbers.num, len(self._ids)
        if num > room:
            longer = max(num, 2 * room)
            self._ids = np.resize(self._ids, longer)
            self._parents = np.resize(self._parents, longer)
            self._stamps = np.resize(self._stamps, longer)

    def _restamp(self) -> None:
        """Number the requests that still have blocks anew, in their order. Cost: O(blocks × log blocks)."""
        stamps = self._stamps[: self._numbers.num]
        _, renumbered, counts = np.unique(stamps, return_inverse=True, return_counts=True)
        self._stamps[: self._numbers.num] = renumbered
        self._next_stamp = len(counts)
        self._held = Fenwick(max(_FIRST_STAMPS, 2 * len(counts)), counts.tolist())

    def _halve(self) -> None:
        """Keep half of the sample, as if it had been of that rate from the beginning."""
        self.rate /= 2
        num = self._numbers.num
        is_kept = is_sampled(self._ids[:num], self.rate)
        kept = np.flatnonzero(is_kept)
        for array in (self._ids, self._parents, self._stamps):
            array[: len(kept)] = array[kept]
        self._numbers = Numbering()
        self._numbers.find(self._ids[: len(kept)])
        self._numbers.add(self._ids[: len(kept)])
        self._found.halve()
        self._num_sampled_tokens /= 2
        self._restamp()


class _Distances:
    """How many tokens were found at each distance."""

    def __init__(self) -> None:
        self._steps = np.zeros(1024, np.float64)  # what each distance has more than the one before it
        self._buffer: list[tuple[int, int, int]] = []

    def add(self, first: int, last: int, num_tokens: int) -> None:
        """So many at every distance from `first` to `last`."""
        self._buffer.append((first, last, num_tokens))
        if len(self._buffer) >= _BUFFERED:
            self._flush()

    def tokens(self) -> NDArray[np.float64]:
        """By distance, from 0 on."""
        self._flush()
        return np.cumsum(self._steps)

    def halve(self) -> None:
        """Take half of what was found, at half of the distance: those of a sample of half the rate."""
        tokens = self.tokens()
        paired = np.append(tokens[1:], np.zeros(1 + len(tokens) % 2)).reshape(-1, 2).sum(1) / 2
        self._steps = np.diff(np.concatenate([[0.0, 0.0], paired, [0.0]]))

    def _flush(self) -> None:
        if not self._buffer:
            return
        first, last, num_tokens = np.array(self._buffer, np.int64).T
        self._buffer = []
        needed = int(last.max()) + 2
        if needed > len(self._steps):
            self._steps = np.append(
                self._steps, np.zeros(max(needed, 2 * len(self._steps)) - len(self._steps))
            )
        np.add.at(self._steps, first, num_tokens)
        np.add.at(self._steps, last + 1, -num_tokens)


def _sampled(ids: Ids, rate: float) -> tuple[Ids, Ids, bool]:
    """The ids that the sample has, what stands before each of them, and whether the last one is among them."""
    parents = np.empty(len(ids), np.int64)
    parents[:1], parents[1:] = _ROOT, ids[:-1]
    if rate >= 1:
        return ids, parents, len(ids) > 0
    places = np.flatnonzero(is_sampled(ids, rate))
    return ids[places], parents[places], len(places) > 0 and int(places[-1]) == len(ids) - 1
