"""What the rules see of a pair, in numbers, for the scorer to weigh beside the cosine. Pure."""

from __future__ import annotations

from dataclasses import astuple, dataclass, fields
from itertools import pairwise
from typing import ClassVar, Final

from openclaw_cache.semantic.guards.alignment import align, frame_ratio, other_quantities
from openclaw_cache.semantic.validity import Pair
from openclaw_cache.semantic.words.listed import listed

_RELATIONS: Final = frozenset(
    listed(
        """
            before after until till since during while without than more less once instead between within unless
            except if 前 之前 后 之后 以前 以后 内 以内 期间 如果 除了 没有 不 比 更
        """
    )
)


@dataclass(frozen=True, slots=True)
class Features:
    """Numbers from 0 to 1 unless said otherwise.

    0 is what two equal texts have, but for `same`, `alike`, `same_script` and `frame`, which are 1 there.
    """

    NAMES: ClassVar[tuple[str, ...]]
    """The fields in their order."""

    same: float
    """Share of the weight of both questions that is in words of the same form."""
    alike: float
    """The same, synonyms, other forms and slips of the pen included."""
    same_script: float
    """1 where both are in Chinese characters or both are not."""
    left_asked: float
    """Weight of the words that only the asked question has (not cut off at 1: a full word weighs 1)."""
    left_stored: float
    left_less: float
    """The lesser of both: what one has put in the other's place."""
    left_more: float
    heaviest: float
    """Weight of the heaviest word left over."""
    is_swap: float
    """1 where both sides have something left over."""
    left_name: float
    """1 where a name or code is left over."""
    typos: float
    """Number of slips of the pen."""
    asks_other: float
    """1 where the kinds of question are known and none is common to both."""
    negation: float
    """Difference in the number of negations."""
    left_unknown: float
    """Weight of the words left over that the tables of words do not have."""
    is_reworded: float
    """0 where only slips of the pen, case, small words and order differ, else 1."""
    numbers: float
    """Number of quantities that only one side has."""
    quantifiers: float
    """Number of words like "all" and "only" that only one side has."""
    relations: float
    """Number of words like "before", "until", "than" and "without" that only one side has."""
    reordered: float
    """Share of the common words that stand in another order."""
    frame: float
    """Share of the longer question that both have at the start and at the end, word by word (1 for equal ones)."""
    length: float
    """Difference in the number of words, by the greater number."""

    def values(self) -> tuple[float, ...]:
        """The values in the order of `NAMES`."""
        return astuple(self)


Features.NAMES = tuple(field.name for field in fields(Features))


def features(pair: Pair) -> Features:
    """Return what the rules see of a pair. 20 µs beside the alignment."""
    asked, stored = pair.asked, pair.stored
    found = align(asked, stored)
    left_asked, left_stored = found.weight_asked, found.weight_stored
    total = asked.weight + stored.weight
    same_stored = sum(word.weight for word in stored.words if word.key in asked.keys)
    left = (*found.left_asked, *found.left_stored)
    marks, other = asked.marks, stored.marks
    numbers = sum(map(len, other_quantities(asked.quantities, stored.quantities)))
    longest = max(len(asked.order), len(stored.order), 1)
    same = (found.same + same_stored) / total if total else 1.0
    return Features(
        same=same,
        alike=max(same, 1 - (left_asked + left_stored) / total) if total else 1.0,
        same_script=float(asked.has_han == stored.has_han),
        left_asked=left_asked,
        left_stored=left_stored,
        left_less=min(left_asked, left_stored),
        left_more=max(left_asked, left_stored),
        heaviest=max((word.weight for word in left), default=0.0),
        is_swap=float(bool(found.left_asked and found.left_stored)),
        left_name=float(any(word.is_name or word.is_code for word in left)),
        typos=float(found.num_typos),
        asks_other=float(bool(marks.asks and other.asks and marks.asks.isdisjoint(other.asks))),
        negation=float(abs(marks.num_negations - other.num_negations)),
        left_unknown=sum(word.weight for word in left if not word.concepts),
        is_reworded=float(bool(left) or len(found.pairs) != found.num_typos),
        numbers=float(numbers),
        quantifiers=float(len(marks.quantifiers ^ other.quantifiers)),
        relations=float(len((frozenset(asked.order) ^ frozenset(stored.order)) & _RELATIONS)),
        reordered=_reordered([word.key for word in asked.words], [word.key for word in stored.words]),
        frame=frame_ratio(asked.order, stored.order),
        length=abs(len(asked.order) - len(stored.order)) / longest,
    )


def _reordered(asked: list[str], stored: list[str]) -> float:
    """Share of neighbouring common words that stand the other way round."""
    places = {key: at for at, key in enumerate(stored)}
    common = [places[key] for key in asked if key in places]
    if len(common) < 2:
        return 0.0
    return sum(a > b for a, b in pairwise(common)) / (len(common) - 1)
