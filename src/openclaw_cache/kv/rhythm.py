"""When a path will be called again: learnt from its own gaps, and from how long others like it have waited.

A *call* is a hit of a path; its *idle time* is what has passed since the path's last use. Agents call in rhythms: a
tool loop every few seconds, a person every few minutes, a finished conversation never again. So what a block is
worth is not its age, but how likely it is called soon, given that it has been idle for so long.

`value` is a Gittins index: the largest ratio, over all times to wait, of the chance of a call within that time
to the expected time waited. Kept blocks cost room for as long as they wait, so this is calls per second of room
(Gittins 1979; as an eviction order: Beckmann, Chen, Cidon, "LHD", NSDI 2018). The chances come from counts of calls and
of time waited, per kind of path and half octave of idle time. A path evicted while it waits counts as waiting for
as long as it did, so what is learnt is not skewed by what is evicted (Kaplan and Meier 1958). Where little has
been seen, a kind takes over the chances of all kinds, and these those of recency: the longer idle, the less likely.

Pure: no clock, no I/O. The times are the caller's.
"""

from __future__ import annotations

import math
from collections import deque
from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openclaw_cache.kv.node import Node

Float64s: TypeAlias = NDArray[np.float64]

_NUM_BINS: Final = 40
_STARTS: Final = 2.0 ** (np.arange(_NUM_BINS + 1) / 2) - 1
_WIDTHS: Final = np.diff(_STARTS)
_START_S: Final[list[float]] = _STARTS.tolist()
_FROM_THEN_ON: Final[Float64s] = np.triu(np.ones((_NUM_BINS, _NUM_BINS + 1)))

_MOST_IDLE_S: Final = 1e9
_GAP_WEIGHT: Final = 0.4
_MAX_OCTAVE: Final = 7
_MAX_CALLS: Final = 2
_FEW_CHILDREN: Final = 4
# Strength of the prior in calls, and the chance of a call per half octave that it starts from.
_PRIOR_CALLS: Final = 32.0
_PRIOR_RATIO: Final = 0.15
_HALVE_AFTER: Final = 4000
_REFRESH_AFTER: Final = 64
_MAX_WAITING: Final = 256
_MAX_GHOSTS: Final = 4096
_NAME_TOKENS: Final = 16
_MAX_CALLS_KEPT: Final = 64


class Hint(IntEnum):
    """What is known of who calls a path, beyond its rhythm."""

    NONE = 0
    TOOL = 1
    """A tool is running; its result will come with the next call."""
    IDLE = 2
    """The turn is over: a person is to answer."""
    ENDED = 3
    """The conversation is over."""


class Kind(NamedTuple):
    """What paths are told apart by: those of a kind share what is learnt.

    The gaps are in octaves, -1 where there was none. What is learnt of a kind is drawn to what is learnt of the
    wider ones: those that have its first four, and its first two, in common.
    """

    place: int
    """0: the end of what was called last; 1, 2: the call went another way (of few, of many) since; +3: has branches."""
    hint: int
    num_calls: int
    gap: int
    last_gap: int

    def widening(self) -> tuple[_Key, ...]:
        """All paths, the wider kinds, and the kind itself."""
        return (None, self[:2], self[:4], self)


_Key: TypeAlias = tuple[int, ...] | None


class Call(NamedTuple):
    """A call that came: how long the path had been idle, and what it was worth just before."""

    idle_s: float
    value: float


class Ghost(NamedTuple):
    """What is remembered of an evicted path."""

    gap_s: float
    last_gap_s: float
    num_calls: int
    hint: int
    last_used_at: float

    def kind(self) -> Kind:
        """The kind of the path when it was there."""
        return _kind(0, self.hint, self.num_calls, self.gap_s, self.last_gap_s)


class Rhythm:
    """What a tree has learnt of its calls.

    Attributes:
        recent: the last 64 calls of leaves and of what had been evicted, oldest first.
        num_noted: how many of these there have been in all.
        num_calls, num_returns: calls of what was there; calls of what had been evicted, as far as remembered.
        num_ended: how many nodes have ever been said to be over.
    """

    __slots__ = (
        "_counts",
        "_ghosts",
        "_num_fresh",
        "_num_seen",
        "_values",
        "_waiting",
        "num_calls",
        "num_ended",
        "num_noted",
        "num_returns",
        "recent",
    )

    def __init__(self) -> None:
        self._counts: dict[_Key, Float64s] = {}
        self._values: dict[Kind, list[float]] = {}
        self._ghosts: dict[int, Ghost] = {}
        # Seconds waited by what still waits, as of the last `refresh`.
        self._waiting: dict[_Key, Float64s] = {}
        self._num_seen = self._num_fresh = 0
        self.num_calls = self.num_returns = self.num_noted = self.num_ended = 0
        self.recent: deque[Call] = deque(maxlen=_MAX_CALLS_KEPT)

    def called(self, node: Node, now: float) -> None:
        """A node is called; `last_used_at` still says when it was before. Cost: O(1)."""
        idle_s, kind = waited_s(node.last_used_at, now), kind_of(node)
        node.hint, node.is_passed = Hint.NONE, False
        self.num_calls += 1
        if not node.last_used_at:  # it outlived a restart: nobody knows when it was used
            return
        if node.is_leaf:
            self._note(idle_s, kind)
        self._count(kind, idle_s, is_call=True)
        _take_gap(node, idle_s)

    def began(self, node: Node, now: float) -> None:
        """A node is new, with its first tokens. It goes on with the rhythm of the path that it continues."""
        ghost = self._ghosts.pop(_name(node), None)
        parent = node.parent
        if ghost is not None:
            idle_s, kind = waited_s(ghost.last_used_at, now), ghost.kind()
            self.num_returns += 1
            self._note(idle_s, kind)
            self._count(kind, idle_s, is_call=True)
            node.gap_s, node.num_calls = ghost.gap_s, ghost.num_calls
            _take_gap(node, idle_s)
        elif parent is not None and parent.parent is not None and len(parent.children) < _FEW_CHILDREN:
            node.gap_s, node.num_calls, node.last_gap_s = parent.gap_s, parent.num_calls, parent.last_gap_s

    def hint(self, node: Node, hint: Hint) -> None:
        """Say what is known of a path's next call. The call itself takes it off."""
        node.hint = hint
        self.num_ended += hint == Hint.ENDED

    def evicted(self, node: Node, now: float) -> None:
        """A node goes. What it had waited counts, and its rhythm is remembered for a while."""
        if not node.last_used_at:
            return
        self._count(kind_of(node), waited_s(node.last_used_at, now), is_call=False)
        name = _name(node)
        self._ghosts.pop(name, None)
        self._ghosts[name] = Ghost(node.gap_s, node.last_gap_s, node.num_calls, node.hint, node.last_used_at)
        if len(self._ghosts) > _MAX_GHOSTS:
            del self._ghosts[next(iter(self._ghosts))]

    def value(self, node: Node, now: float) -> float:
        """Calls per second of room that a node is worth at `now`. Cost: O(1), amortised."""
        if node.hint == Hint.ENDED:
            return 0.0
        return self._value(kind_of(node), waited_s(node.last_used_at, now))

    def refresh(self, leaves: Sequence[Node], now: float) -> None:
        """Take in what has been seen since the last time, if that is enough to change much.

        `leaves`: what still waits, or an even sample of it; without it only waits that were short would count.
        Cost: O(leaves), once every 64 calls and evictions; else O(1).
        """
        if self._num_fresh < _REFRESH_AFTER:
            return
        self._num_fresh = 0
        self._values.clear()
        self._waiting.clear()
        step = max(1, -(-len(leaves) // _MAX_WAITING))
        by_kind: dict[Kind, tuple[list[int], list[float]]] = {}
        for node in leaves[::step]:
            if not node.last_used_at:  # it outlived a restart: nobody knows how long it has waited
                continue
            idle_s, kind = waited_s(node.last_used_at, now), kind_of(node)
            last = min(_NUM_BINS - 1, int(2 * math.log2(1 + idle_s)))
            num_in, rest_s = by_kind.setdefault(kind, ([0] * _NUM_BINS, [0.0] * _NUM_BINS))
            num_in[last] += 1
            rest_s[last] += idle_s - _START_S[last]
        for kind, (num_in, rest_s) in by_kind.items():
            num_past = sum(num_in) - np.cumsum(num_in)
            for key in kind.widening():
                waited = self._waiting.setdefault(key, np.zeros(_NUM_BINS))
                waited += step * (num_past * _WIDTHS + rest_s)

    def _value(self, kind: Kind, idle_s: float) -> float:
        values = self._values.get(kind)
        if values is None:
            values = self._values[kind] = index(self._chances(kind)).tolist()
        position = min(2 * math.log2(1 + idle_s), _NUM_BINS - 1.0)
        i = int(position)
        if i == _NUM_BINS - 1:
            return values[i]
        return values[i] + (values[i + 1] - values[i]) * (position - i)

    def _note(self, idle_s: float, kind: Kind) -> None:
        self.recent.append(Call(idle_s, self._value(kind, idle_s)))
        self.num_noted += 1

    def _count(self, kind: Kind, idle_s: float, *, is_call: bool) -> None:
        """Add one wait to its kind and to the wider ones."""
        last = min(_NUM_BINS - 1, int(2 * math.log2(1 + idle_s)))
        # Half a second more: a call that comes at once says "soon", not "with infinite chance per second".
        waited = idle_s - _START_S[last] + 0.5 * is_call
        for key in kind.widening():
            counts = self._counts.get(key)
            if counts is None:
                counts = self._counts[key] = np.zeros((2, _NUM_BINS))
            counts[0, last] += is_call
            counts[1, :last] += _WIDTHS[:last]
            counts[1, last] += waited
        self._num_seen += 1
        self._num_fresh += 1
        if self._num_seen >= _HALVE_AFTER:
            self._num_seen = 0
            for key in self._counts:
                self._counts[key] *= 0.5

    def _chances(self, kind: Kind) -> Float64s:
        """Calls per second in each bin, float64 [40]: the kind's own, drawn to those of the wider ones."""
        per_s = _PRIOR_RATIO / (_STARTS[:-1] + _WIDTHS / 2 + 1)
        for key in kind.widening():
            counts = self._counts.get(key)
            if counts is not None:
                prior = _PRIOR_CALLS * np.minimum(per_s * _WIDTHS, 1)
                waited = counts[1] + self._waiting.get(key, 0.0)
                per_s = (counts[0] + prior) / (waited + prior / per_s)
        return per_s


def waited_s(since_at: float, now: float) -> float:
    """The time between, none where the clock has gone back, and no more than 30 years."""
    return min(max(0.0, now - since_at), _MOST_IDLE_S)


def index(per_s: Float64s) -> Float64s:
    """The Gittins index at the start of every bin, float64 [40], for these chances of a call per second.

    Cost: O(bins²), in a few array operations.
    """
    expected = np.concatenate([[0.0], np.cumsum(per_s * _WIDTHS)])
    # Row i: from the start of bin i on. The chance that no call has come by the start of bin j, and by its end.
    no_call = np.exp(np.minimum(expected[:-1, None] - expected, 0.0)) * _FROM_THEN_ON
    waited = np.cumsum(no_call[:, :-1] * (-np.expm1(-per_s * _WIDTHS) / per_s), axis=1)
    calls = _FROM_THEN_ON[:, :-1] - no_call[:, 1:] * _FROM_THEN_ON[:, :-1]
    found: Float64s = (calls / np.where(waited > 0, waited, 1.0)).max(axis=1)
    return found


def kind_of(node: Node) -> Kind:
    """The kind of a node. Cost: O(1)."""
    parent, place = node.parent, 0
    if node.is_passed:
        place = 1
    elif parent is not None and parent.parent is not None and parent.last_used_at > node.last_used_at:
        place = 1 if len(parent.children) < _FEW_CHILDREN else 2
    if len(node.children) > 1:
        place += 3
    return _kind(place, node.hint, node.num_calls, node.gap_s, node.last_gap_s)


def _kind(place: int, hint: int, num_calls: int, gap_s: float, last_gap_s: float) -> Kind:
    if not num_calls:
        return Kind(place, hint, 0, -1, -1)
    return Kind(place, hint, min(_MAX_CALLS, num_calls), _octave(gap_s), _octave(last_gap_s))


def _octave(gap_s: float) -> int:
    return min(_MAX_OCTAVE, int(1 + gap_s).bit_length() - 1)


def _take_gap(node: Node, idle_s: float) -> None:
    """The node was called after so long."""
    node.gap_s = _averaged(node.gap_s, idle_s) if node.num_calls else idle_s
    node.last_gap_s = idle_s
    node.num_calls += 1


def _averaged(gap_s: float, idle_s: float) -> float:
    """The geometric running mean, which one long pause does not spoil."""
    return float((1 + gap_s) ** (1 - _GAP_WEIGHT) * (1 + idle_s) ** _GAP_WEIGHT - 1)


def _name(node: Node) -> int:
    """What a node is found by when it comes back: where it begins, and with what. Wrong ones do no harm."""
    return hash((node.root, node.start, node.tokens[:_NAME_TOKENS].tobytes()))
