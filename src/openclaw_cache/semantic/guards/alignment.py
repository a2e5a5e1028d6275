"""Which words of one question answer to which of another, and which are left over. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from openclaw_cache.semantic.reading import Reading, Word
from openclaw_cache.semantic.words.lexicon import lexicon
from openclaw_cache.semantic.words.quantities import Quantity

MAX_LEFT: Final = 48
"""Words left over on one side beyond which no likeness among them is looked for: such texts differ anyway."""


@dataclass(frozen=True, slots=True)
class Alignment:
    """What is left of two questions where the words that answer to each other are taken away."""

    left_asked: tuple[Word, ...]
    left_stored: tuple[Word, ...]
    same: float
    """Weight of the words of the asked question that stand in the stored one too."""
    alike: float
    """Weight of those that have a synonym, another form or a slip of the pen there."""
    num_typos: int
    pairs: tuple[tuple[Word, Word], ...]
    """Words that answer to each other without being the same."""
    other_asked: tuple[Word, ...]
    other_stored: tuple[Word, ...]
    """Words of one side that are not word for word on the other, whatever answers to them there."""

    @property
    def weight_asked(self) -> float:
        """Weight of what only the asked question says."""
        return sum(word.weight for word in self.left_asked)

    @property
    def weight_stored(self) -> float:
        """Weight of what only the stored question says."""
        return sum(word.weight for word in self.left_stored)


_Pairs = list[tuple[Word, Word]]
_Lefts = tuple[list[Word], list[Word]]
_Test = Callable[[Word, Word], bool]


@lru_cache(maxsize=64)
def align(asked: Reading, stored: Reading) -> Alignment:
    """Align two questions. Some 10 µs; kept for the last pairs, since each rule asks for it."""
    shared = asked.keys & stored.keys
    left = [word for word in asked.words if word.key not in shared]
    right = [word for word in stored.words if word.key not in shared]
    if not left and not right:
        return Alignment((), (), asked.weight, 0.0, 0, (), (), ())
    other_asked, other_stored = tuple(left), tuple(right)
    same = asked.weight - sum(word.weight for word in left)
    pairs: list[tuple[Word, Word]] = []
    typos = 0
    if len(left) <= MAX_LEFT and len(right) <= MAX_LEFT:
        left, right = _match(left, right, pairs, _are_alike)
        if left and right:
            left, right = _match_parts(left, right, pairs)
            before = len(pairs)
            left, right = _match(left, right, pairs, _is_typo)
            typos = len(pairs) - before
        if left and right:
            left, right = _match_initials(left, right, pairs)
        if left and right and _squeezed(left) == _squeezed(right):
            pairs.append((left[0], right[0]))
            left, right = [], []
        left = [word for word in left if not _is_said(word, stored, asked)]
        right = [word for word in right if not _is_said(word, asked, stored)]
    alike = asked.weight - same - sum(word.weight for word in left)
    return Alignment(tuple(left), tuple(right), same, alike, typos, tuple(pairs), other_asked, other_stored)


def _match(left: list[Word], right: list[Word], pairs: _Pairs, test: _Test) -> _Lefts:
    rest = []
    for word in left:
        for other in right:
            if test(word, other):
                pairs.append((word, other))
                right = [left_over for left_over in right if left_over is not other]
                break
        else:
            rest.append(word)
    return rest, right


def _are_alike(one: Word, other: Word) -> bool:
    if one.concepts.isdisjoint(other.concepts) and (one.root != other.root or len(one.root) < 4):
        return False
    return not lexicon().are_opposite(one.key, other.key)


def _match_parts(left: list[Word], right: list[Word], pairs: _Pairs) -> _Lefts:
    """Take phrases to pieces where as a whole they have no match ("exchange rate" and "exchnage rate")."""
    if not any(word.parts for word in (*left, *right)):
        return left, right
    pieces, others = ([part for word in words for part in (word.parts or (word,))] for words in (left, right))
    common = {word.key for word in pieces} & {word.key for word in others}
    pieces = [word for word in pieces if word.key not in common]
    others = [word for word in others if word.key not in common]
    return _match(pieces, others, pairs, _are_alike)


def _match_initials(left: list[Word], right: list[Word], pairs: _Pairs) -> _Lefts:
    """Match initials with the words that they stand for."""
    for words, others in ((left, right), (right, left)):
        for word in words:
            if 2 <= len(word.key) <= 5 and word.key.isalpha() and word.is_name:
                for start in range(len(others) - len(word.key) + 1):
                    meant = others[start : start + len(word.key)]
                    if "".join(other.key[0] for other in meant) == word.key:
                        pairs.append((word, meant[0]))
                        words.remove(word)
                        del others[start : start + len(meant)]
                        return left, right
    return left, right


def _squeezed(words: list[Word]) -> str:
    """The letters of words, however they are joined ("web site", "website")."""
    return "".join(word.surface for word in words).replace(" ", "").replace("-", "")


def _is_said(word: Word, there: Reading, here: Reading) -> bool:
    """Whether the other question says the same with a word that is matched already ("credit card", "card")."""
    if word.is_name or word.is_code:
        return False
    if word.parts and all(_is_said(part, there, here) for part in word.parts):
        return True
    if word.key in there.keys:
        return True
    if not word.concepts and not lexicon().knows(word.key):
        return any(_is_typo(word, other) for other in there.words[:MAX_LEFT])
    known = lexicon().opposites.get(word.key, frozenset())
    if not known.isdisjoint(there.keys) and known.isdisjoint(here.keys):
        return False
    return bool(word.concepts) and any(not word.concepts.isdisjoint(other.concepts) for other in there.words)


def _is_typo(one: Word, other: Word) -> bool:
    """Whether one is no word, and by a letter or two from the other, which is one.

    Where neither is known, as with most names, only a letter doubled or swapped with its neighbour counts.
    """
    if one.is_code or other.is_code:
        return False
    a, b = one.surface, other.surface
    if one.parts == other.parts == () and (" " in a) != (" " in b):
        return _is_typo_in_phrase(one, other)
    if (
        len(a) < 4
        or len(b) < 4
        or abs(len(a) - len(b)) > 2
        or not a.isascii()
        or a.endswith(b)
        or b.endswith(a)
    ):
        return False
    known = lexicon()
    knows_one, knows_other = known.knows(one.key), known.knows(other.key)
    if knows_one and knows_other:
        return False
    if not knows_one and not knows_other:
        return len(a) > 4 and (_undoubled(a) == _undoubled(b) or _are_swapped(a, b))
    return distance_within(a, b, 1 if min(len(a), len(b)) < 7 else 2)


def _is_typo_in_phrase(one: Word, other: Word) -> bool:
    """Whether one is a verb with a small word ("take out"), and the other that verb with a slip ("taaking")."""
    phrase, word = (one, other) if " " in one.surface else (other, one)
    verb = phrase.surface.split(" ", 1)[0]
    if len(verb) < 4 or lexicon().knows(word.key):
        return False
    return distance_within(verb, word.surface, 1)


def _undoubled(word: str) -> str:
    return "".join(letter for letter, before in zip(word, " " + word, strict=False) if letter != before)


def _are_swapped(a: str, b: str) -> bool:
    """Whether two neighbouring letters have changed places."""
    places = [place for place, (one, other) in enumerate(zip(a, b, strict=False)) if one != other]
    if len(a) != len(b) or len(places) != 2 or places[1] != places[0] + 1:
        return False
    return a[places[0]] == b[places[1]] and a[places[1]] == b[places[0]]


def distance_within(a: Sequence[str], b: Sequence[str], limit: int) -> bool:
    """Whether `a` becomes `b` by at most `limit` letters put in, left out, changed or swapped with a neighbour."""
    if abs(len(a) - len(b)) > limit:
        return False
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, one in enumerate(a, 1):
        current = [i]
        for j, other in enumerate(b, 1):
            cost = min(row[j] + 1, current[j - 1] + 1, row[j - 1] + (one != other))
            if i > 1 and j > 1 and one == b[j - 2] and a[i - 2] == other:
                cost = min(cost, before[j - 2] + 1)
            current.append(cost)
        if min(current) > limit:
            return False
        before, row = row, current
    return row[-1] <= limit


def other_quantities(
    asked: Sequence[Quantity], stored: Sequence[Quantity]
) -> tuple[list[Quantity], list[Quantity]]:
    """Return the quantities of each side that have no equal on the other."""
    if asked == stored:
        return [], []
    one, other = list(asked), list(stored)
    if len(one) > MAX_LEFT or len(other) > MAX_LEFT:
        return one, other
    for quantity in asked:
        for candidate in other:
            same_unit = quantity.unit == candidate.unit or not quantity.unit or not candidate.unit
            if same_unit and quantity.value == candidate.value:
                one.remove(quantity)
                other.remove(candidate)
                break
    return _told(one, other), _told(other, one)


def _told(quantities: list[Quantity], others: list[Quantity]) -> list[Quantity]:
    """Leave out what may be left out, where the other side has nothing else of that unit in its place."""
    return [
        quantity
        for quantity in quantities
        if not quantity.is_loose or any(other.unit == quantity.unit for other in others)
    ]


def frame_ratio(asked: Sequence[str], stored: Sequence[str]) -> float:
    """Share of the longer text that both have at its start and at its end, word by word."""
    longer, shorter = max(len(asked), len(stored)), min(len(asked), len(stored))
    if not longer:
        return 1.0
    start = 0
    while start < shorter and asked[start] == stored[start]:
        start += 1
    end = 0
    while end < shorter - start and asked[-1 - end] == stored[-1 - end]:
        end += 1
    return (start + end) / longer
