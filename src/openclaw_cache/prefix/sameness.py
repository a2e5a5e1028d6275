"""How much two runs of texts share: from the start, and in the same order. No work is quadratic."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from openclaw_cache.prefix.outline import utf8_size

MAX_PIECES: Final = 20_000
"""Of each side; what lies behind them is one piece. So the cost of huge prompts is bounded, at the price of a bound
from below."""

_MAX_CHARS: Final = 2_000_000
_MAX_ROUNDS: Final = 6
_MIN_RUN: Final = 8
"""Characters of a piece that have to be the same for a part of it to count: fewer are chance."""
_LONG_LINE: Final = 160
_PHRASES: Final = re.compile(r"[^.;,}。！？；，]*[.;,}。！？；，]+\s*|[^.;,}。！？；，]+")
"""A long line is cut behind punctuation, so that one changed word does not make all of it differ."""
_STAMP: Final = re.compile(r"(?:\[[^\]\n]{1,48}\]:? )+")
"""What stands before a message in a transcript: `[User]: `, `[Sun 2026-11-29 17:57 UTC] `."""

Pair = tuple[int, int]


def common_prefix(first: str, second: str) -> int:
    """Whole characters that both begin with. O(size), compared in large steps."""
    end = min(len(first), len(second))
    low, step = 0, 64
    while low < end and first.startswith(second[low : min(end, low + step)], low):
        low = min(end, low + step)
        step *= 4
    high = min(end, low + step)
    while low < high:
        middle = (low + high + 1) // 2
        if first.startswith(second[low:middle], low):
            low = middle
        else:
            high = middle - 1
    return low


def common_suffix(first: str, second: str) -> int:
    """Whole characters that both end with."""
    low, high = 0, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        if first.endswith(second[len(second) - middle :]):
            low = middle
        else:
            high = middle - 1
    return low


def shared_bytes(earlier: Sequence[str], later: Sequence[str]) -> int:
    """UTF-8 bytes of `earlier` that stand in `later` too, in the same order: whole texts, then lines and phrases.

    Never more than there are, and not always all (patience diff: texts that stand once on each side are matched first).
    Cost: O(n log n) in lines; at most `MAX_PIECES` of each side are looked at.
    """
    total = 0
    last = (0, 0)
    pairs = aligned(earlier, later)
    for pair in [*pairs, (len(earlier), len(later))]:
        total += _shared_in(earlier[last[0] : pair[0]], later[last[1] : pair[1]])
        if pair[0] < len(earlier):
            total += utf8_size(earlier[pair[0]])
        last = (pair[0] + 1, pair[1] + 1)
    return total


def _shared_in(earlier: Sequence[str], later: Sequence[str]) -> int:
    """The same for texts none of which stands whole on the other side. White space around lines does not count."""
    if not earlier or not later:
        return 0
    ours, theirs = pieces(earlier), pieces(later)
    pairs = aligned([piece.strip() for piece in ours], [piece.strip() for piece in theirs])
    total = 0
    last = (0, 0)
    for pair in [*pairs, (len(ours), len(theirs))]:
        total += _shared_ends(ours[last[0] : pair[0]], theirs[last[1] : pair[1]])
        if pair[0] < len(ours):
            total += utf8_size(ours[pair[0]])
        last = (pair[0] + 1, pair[1] + 1)
    return total


def _shared_ends(ours: Sequence[str], theirs: Sequence[str]) -> int:
    """How the first pieces of a gap begin alike, and how the last ones end alike."""
    if not ours or not theirs or (len(ours) == 1) != (len(theirs) == 1):
        return 0
    begin = _if_long(common_prefix(ours[0], theirs[0]))
    first, second = (ours[-1], theirs[-1]) if len(ours) > 1 else (ours[0][begin:], theirs[0][begin:])
    end = _if_long(common_suffix(first, second))
    return utf8_size(ours[0][:begin]) + utf8_size(first[len(first) - end :])


def _if_long(num_chars: int) -> int:
    return num_chars if num_chars >= _MIN_RUN else 0


def pieces(texts: Sequence[str]) -> list[str]:
    """Lines, and phrases of long ones; the rest of a huge text is one piece."""
    size = sum(map(len, texts))
    head = texts if size <= _MAX_CHARS else ["".join(texts)[:_MAX_CHARS]]
    found = list(islice(_pieces(head), MAX_PIECES))
    rest = size - sum(map(len, found))
    return [*found, "".join(texts)[-rest:]] if rest else found


def _pieces(texts: Sequence[str]) -> Iterator[str]:
    for text in texts:
        for line in text.splitlines(keepends=True):
            stamp = _STAMP.match(line) if line.startswith("[") else None
            if stamp is not None:
                yield stamp[0]
                line = line[stamp.end() :]  # noqa: PLW2901  (the rest of the line)
            if len(line) <= _LONG_LINE:
                if line:
                    yield line
            else:
                yield from _PHRASES.findall(line)


def aligned(first: Sequence[str], second: Sequence[str]) -> list[Pair]:
    """Places of equal texts, in order on both sides: a long common subsequence, by patience diff."""
    pairs: list[Pair] = []
    gaps = [(0, len(first), 0, len(second), 0)]
    while gaps:
        low, high, low2, high2, num_rounds = gaps.pop()
        while low < high and low2 < high2 and first[low] == second[low2]:
            pairs.append((low, low2))
            low, low2 = low + 1, low2 + 1
        while low < high and low2 < high2 and first[high - 1] == second[high2 - 1]:
            high, high2 = high - 1, high2 - 1
            pairs.append((high, high2))
        if low == high or low2 == high2:
            continue
        anchors = _anchors(first, (low, high), second, (low2, high2), once=True)
        if not anchors or num_rounds == _MAX_ROUNDS:
            pairs += _anchors(first, (low, high), second, (low2, high2), once=False)
            continue
        for anchor, anchor2 in anchors:
            pairs.append((anchor, anchor2))
            gaps.append((low, anchor, low2, anchor2, num_rounds + 1))
            low, low2 = anchor + 1, anchor2 + 1
        gaps.append((low, high, low2, high2, num_rounds + 1))
    pairs.sort()
    return pairs


def _anchors(
    first: Sequence[str], ours: Pair, second: Sequence[str], theirs: Pair, *, once: bool
) -> list[Pair]:
    """The heaviest run of equal texts in order; only those that stand once on each side, or the n-th with the n-th."""
    places: dict[str, list[int]] = {}
    for place in range(*theirs):
        places.setdefault(second[place], []).append(place)
    counts: dict[str, int] = {}
    candidates: list[Pair] = []
    for place in range(*ours):
        text = first[place]
        there = places.get(text)
        if there is None:
            continue
        nth = counts.get(text, 0)
        counts[text] = nth + 1
        if nth < len(there) and not (once and len(there) > 1):
            candidates.append((place, there[nth]))
    if once:
        candidates = [pair for pair in candidates if counts[first[pair[0]]] == 1]
    return _heaviest(candidates, first)


def _heaviest(pairs: Sequence[Pair], texts: Sequence[str]) -> list[Pair]:
    """Of pairs in order of their first place: those of largest total length whose second places rise too.

    The heaviest increasing subsequence, with a front of the totals that none reaches earlier (Jacobson and Vo, 1992).
    """
    ends: list[int] = []
    totals: list[int] = []
    heads: list[int] = []
    before: list[int] = []
    for number, (place, place2) in enumerate(pairs):
        at = bisect_left(ends, place2)
        total = len(texts[place]) + 1 + (totals[at - 1] if at else 0)
        before.append(heads[at - 1] if at else -1)
        stop = at
        while stop < len(ends) and totals[stop] <= total:
            stop += 1
        ends[at:stop] = [place2]
        totals[at:stop] = [total]
        heads[at:stop] = [number]
    found: list[Pair] = []
    number = heads[-1] if heads else -1
    while number >= 0:
        found.append(pairs[number])
        number = before[number]
    found.reverse()
    return found
