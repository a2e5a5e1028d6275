"""The order that knows agents: what is least likely to be called soon goes first, as long as that beats recency."""

from __future__ import annotations

import heapq
from collections import deque
from random import Random
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from openclaw_cache.kv.lru import LRU
from openclaw_cache.kv.rhythm import Hint, waited_s

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from openclaw_cache.kv.block import Tier
    from openclaw_cache.kv.node import Node
    from openclaw_cache.kv.rhythm import Call, Rhythm

Side: TypeAlias = Literal["rhythm", "recency"]
Reason: TypeAlias = Literal["rhythm", "recency", "ended"]


class Went(NamedTuple):
    """A node that gave blocks up, and why.

    `reason` is the side that chose it, or that its conversation was said to be over. `value` is in calls per second
    of room (`kv.rhythm`); `idle_s` and `gap_s` are its time since the last use and between uses.
    """

    node: int
    tier: str
    reason: Reason
    value: float
    idle_s: float
    gap_s: float
    num_calls: int
    hint: str


_NUM_CANDIDATES: Final = 64
_NUM_JUDGES: Final = 16
_MAX_WENT: Final = 64
_VOTE_WEIGHT: Final = 0.01

_Entry: TypeAlias = "tuple[float, float, int, int, Node]"


class Duel:
    """Which side has foretold the calls better, in the eyes of one tier.

    Every call is put to both sides, beside 16 of the leaves that the tier has: would the side have let another go
    before the one that was called? Calls of what had been evicted count too. The running shares of yes are `score`
    (about the last hundred calls).
    """

    __slots__ = ("_num_heard", "num_gone", "score", "side")

    def __init__(self) -> None:
        self._num_heard = 0
        self.side: Side = "rhythm"
        self.score: dict[Side, float] = {"rhythm": 0.5, "recency": 0.5}
        self.num_gone: dict[Reason, int] = {"rhythm": 0, "recency": 0, "ended": 0}

    def hear(self, leaves: list[Node], now: float, rhythm: Rhythm, random: Random) -> None:
        """Let the calls since the last time vote. Cost: O(calls), 64 at most."""
        num_new = min(rhythm.num_noted - self._num_heard, len(rhythm.recent))
        self._num_heard = rhythm.num_noted
        if not num_new or not leaves:
            return
        for call in list(rhythm.recent)[-num_new:]:
            self._vote(call, [_any_of(leaves, random) for _ in range(_NUM_JUDGES)], now, rhythm)
        is_behind = self.score["rhythm"] < self.score["recency"]
        self.side = "recency" if is_behind else "rhythm"

    def _vote(self, call: Call, sample: list[Node], now: float, rhythm: Rhythm) -> None:
        by_value = any(rhythm.value(node, now) < call.value for node in sample)
        by_age = any(now - node.last_used_at > call.idle_s for node in sample)
        self.score["rhythm"] += _VOTE_WEIGHT * (by_value - self.score["rhythm"])
        self.score["recency"] += _VOTE_WEIGHT * (by_age - self.score["recency"])


class AgentAware:
    """Least value by `kv.rhythm` first, or least recently used, whichever has foretold a tier's calls better.

    Conversations that are said to be over go before all others. Of many leaves, rhythm compares a sample of 64
    at a time, which costs little of the hit ratio (as in LHD).
    """

    __slots__ = ("_random", "duels", "went")

    def __init__(self) -> None:
        self._random = Random(0)  # noqa: S311  a sample, the same in every run
        self.duels: dict[Tier, Duel] = {}
        self.went: deque[Went] = deque(maxlen=_MAX_WENT)

    def victims(
        self,
        leaves: list[Node],
        reopened: Callable[[Node], Node | None],
        now: float,
        rhythm: Rhythm,
        tier: Tier,
    ) -> Iterator[Node]:
        """The leaves by the side in the lead. Cost: O(1) per node for rhythm, O(leaves) for recency."""
        duel = self.duels.setdefault(tier, Duel())
        rhythm.refresh(leaves, now)
        duel.hear(leaves, now, rhythm, self._random)
        if duel.side == "recency" and not rhythm.num_ended:
            return LRU().victims(leaves, reopened, now, rhythm, tier)
        return self._ordered(leaves, reopened, now, rhythm, duel.side)

    def taken(self, node: Node, tier: Tier, now: float, rhythm: Rhythm) -> None:
        """Count the node under its reason."""
        duel = self.duels[tier]
        reason: Reason = "ended" if node.hint == Hint.ENDED else duel.side
        duel.num_gone[reason] += 1
        self.went.append(_why(node, tier, reason, now, rhythm))

    def describe(self) -> dict[str, object]:
        """Per tier: which side leads, how well each foretells, how many nodes went for which reason; the last 64."""
        return {
            "tiers": {
                tier.name.lower(): {
                    "side": duel.side,
                    "score": {side: round(score, 4) for side, score in duel.score.items()},
                    "num_gone": dict(duel.num_gone),
                }
                for tier, duel in sorted(self.duels.items())
            },
            "went": [each._asdict() for each in self.went],
        }

    def _ordered(
        self,
        leaves: list[Node],
        reopened: Callable[[Node], Node | None],
        now: float,
        rhythm: Rhythm,
        side: Side,
    ) -> Iterator[Node]:
        def entry(node: Node) -> _Entry:
            key = 0.0 if node.hint == Hint.ENDED else node.last_used_at
            if side == "rhythm":
                key = rhythm.value(node, now)
            return (key, node.last_used_at, -node.end, node.id, node)

        asked: list[Node] = []
        if rhythm.num_ended:  # no sample may miss them
            asked = [node for node in leaves if node.hint == Hint.ENDED]
            leaves = [node for node in leaves if node.hint != Hint.ENDED]
        if side == "recency" or len(leaves) <= _NUM_CANDIDATES:
            asked, leaves = asked + leaves, []
        else:
            asked += [_draw(leaves, self._random) for _ in range(_NUM_CANDIDATES)]
        heap = [entry(node) for node in asked]
        heapq.heapify(heap)
        while heap:
            node = heapq.heappop(heap)[-1]
            yield node
            if parent := reopened(node):
                heapq.heappush(heap, entry(parent))
            if leaves:
                heapq.heappush(heap, entry(_draw(leaves, self._random)))


def _any_of(leaves: list[Node], random: Random) -> Node:
    return leaves[int(random.random() * len(leaves))]


def _draw(leaves: list[Node], random: Random) -> Node:
    """Take any one out. Cost: O(1)."""
    at = int(random.random() * len(leaves))
    leaves[at], leaves[-1] = leaves[-1], leaves[at]
    return leaves.pop()


def _why(node: Node, tier: Tier, reason: Reason, now: float, rhythm: Rhythm) -> Went:
    idle_s = waited_s(node.last_used_at, now)
    hint = Hint(node.hint).name.lower()
    return Went(
        node.id,
        tier.name.lower(),
        reason,
        rhythm.value(node, now),
        idle_s,
        node.gap_s,
        node.num_calls,
        hint,
    )
