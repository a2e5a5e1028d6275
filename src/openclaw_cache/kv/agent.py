"""The order that knows agents: what is least likely to be called soon goes first, as long as that beats recency."""

from __future__ import annotations

import heapq
from collections import deque
from random import Random
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from openclaw_cache.kv.lru import LRU
from openclaw_cache.kv.rhythm import Hint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from openclaw_cache.kv.node import Node
    from openclaw_cache.kv.rhythm import Rhythm

Side = Literal["rhythm", "recency"]


class Went(NamedTuple):
    """A node that was chosen to go, and why.

    `value` is in calls per second of room (`kv.rhythm`); `idle_s` and `gap_s` are its time since the last use and
    between uses.
    """

    node: int
    side: Side
    value: float
    idle_s: float
    gap_s: float
    num_calls: int
    hint: str


_NUM_CANDIDATES: Final = 128
_NUM_JUDGES: Final = 16
_MAX_WENT: Final = 64
_VOTE_WEIGHT: Final = 0.01


class AgentAware:
    """Least value by `kv.rhythm` first, or least recently used, whichever has foretold the calls better.

    Every call since the last eviction is put to both sides, beside 16 of the leaves there are: would the side
    have let another go before the one that was called? Calls of what had been evicted count too. The running
    shares of yes are `score` (about the last hundred calls); the side in the lead orders.

    Of many leaves a sample of 128 is compared at a time, which costs little of the hit ratio (as in LHD).
    """

    __slots__ = ("_random", "num_by_side", "score", "side", "went")

    def __init__(self) -> None:
        self._random = Random(0)  # noqa: S311  a sample, the same in every run
        self.side: Side = "rhythm"
        self.score: dict[Side, float] = {"rhythm": 0.5, "recency": 0.5}
        self.num_by_side: dict[Side, int] = {"rhythm": 0, "recency": 0}
        self.went: deque[Went] = deque(maxlen=_MAX_WENT)

    def victims(
        self, leaves: Iterable[Node], reopened: Callable[[Node], Node | None], now: float, rhythm: Rhythm
    ) -> Iterator[Node]:
        """Yield the leaves by the side in the lead. Cost: O(leaves), O(log leaves) per node."""
        rest = list(leaves)
        rhythm.refresh(rest, now)
        self._judge(rest, now, rhythm)
        if self.side == "recency":
            order = LRU().victims(rest, reopened, now, rhythm)
        else:
            order = self._by_value(rest, reopened, now, rhythm)
        for node in order:
            self.num_by_side[self.side] += 1
            self.went.append(_why(node, self.side, now, rhythm))
            yield node

    def describe(self) -> dict[str, object]:
        """Which side leads, how well each foretells the calls, how often each chose, and the last 64 choices."""
        return {
            "side": self.side,
            "score": dict(self.score),
            "num_chosen": dict(self.num_by_side),
            "went": [each._asdict() for each in self.went],
        }

    def _by_value(
        self, rest: list[Node], reopened: Callable[[Node], Node | None], now: float, rhythm: Rhythm
    ) -> Iterator[Node]:
        if len(rest) > _NUM_CANDIDATES:
            self._random.shuffle(rest)

        def entry(node: Node) -> tuple[float, float, int, int, Node]:
            return (rhythm.value(node, now), node.last_used_at, -node.end, node.id, node)

        heap = [entry(rest.pop()) for _ in range(min(len(rest), _NUM_CANDIDATES))]
        heapq.heapify(heap)
        while heap:
            node = heapq.heappop(heap)[-1]
            yield node
            if parent := reopened(node):
                heapq.heappush(heap, entry(parent))
            if rest:
                heapq.heappush(heap, entry(rest.pop()))

    def _judge(self, leaves: list[Node], now: float, rhythm: Rhythm) -> None:
        """Let the calls since the last time vote."""
        calls, rhythm.recent = rhythm.recent, []
        if not leaves:
            return
        for call in calls:
            sample = [self._random.choice(leaves) for _ in range(_NUM_JUDGES)]
            by_value = sum(rhythm.value(node, now) < call.value for node in sample)
            by_age = sum(now - node.last_used_at > call.idle_s for node in sample)
            for side, num in (("rhythm", by_value), ("recency", by_age)):
                self.score[side] += _VOTE_WEIGHT * ((num > 0) - self.score[side])  # type: ignore[index]
        is_behind = self.score["rhythm"] < self.score["recency"]
        self.side = "recency" if is_behind else "rhythm"


def _why(node: Node, side: Side, now: float, rhythm: Rhythm) -> Went:
    idle_s = max(0.0, now - node.last_used_at)
    hint = Hint(node.hint).name.lower()
    return Went(node.id, side, rhythm.value(node, now), idle_s, node.gap_s, node.num_calls, hint)
