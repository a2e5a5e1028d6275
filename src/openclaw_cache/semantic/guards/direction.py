"""Who does what to whom, from where to where: the same words in other places."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from openclaw_cache.semantic.reading import Reading, Word
from openclaw_cache.semantic.validity import Pair, Verdict
from openclaw_cache.semantic.words.lexicon import lexicon
from openclaw_cache.semantic.words.listed import listed
from openclaw_cache.semantic.words.marks import Marks

MAX_HEADS: Final = 64
"""Words in which names are looked for that belong to others."""
MAX_SWAP: Final = 24
"""Tokens between which two parts of a text are looked for that changed places."""
_HARMLESS: Final = frozenset(listed("and or & , 和 或 与 跟 同 及 还是"))
"""What stands between parts whose order means nothing."""
_ASKED: Final = frozenset(listed("who whom what which"))
_DID: Final = frozenset(listed("do does did"))
_TURNS: Final = frozenset(listed("by using via with through 被 由 用 使用 通过"))
"""Words with which a sentence may be turned round and mean the same."""


class Direction:
    """Objects where a source of one question is a target of the other, or two words have changed places."""

    name = "direction"

    def verdict(self, pair: Pair) -> Verdict:
        """Judge a pair."""
        asked, stored = pair.asked, pair.stored
        if _turned(asked.marks, stored.marks) or _turned(stored.marks, asked.marks):
            return Verdict(self.name, False, "direction")
        if (
            _changed_places(asked, stored)
            or _swapped(asked.order, stored.order)
            or _other_heads(asked, stored)
            or _asks_for_the_other_end(asked, stored)
        ):
            return Verdict(self.name, False, "order")
        if _other_targets(asked, stored):
            return Verdict(self.name, False, "direction")
        return Verdict(self.name, True)


def _turned(one: Marks, other: Marks) -> bool:
    """Whether what one leads from is what the other leads to."""
    if any((target, source) in other.links for source, target in one.links):
        return True
    return _meet(one.sources, other.targets) and not _meet(one.sources, other.sources)


def _other_targets(asked: Reading, stored: Reading) -> bool:
    """Whether both speak of two things with names, and each leads to another of them."""
    one, other = asked.marks.targets & _names(asked), stored.marks.targets & _names(stored)
    if not one or not other or _meet(one, other):
        return False
    return _meet(one, stored.keys - stored.marks.targets) and _meet(other, asked.keys - asked.marks.targets)


def _asks_for_the_other_end(asked: Reading, stored: Reading) -> bool:
    """Whether one asks who did it and the other to whom: "Who killed Caesar?" and "Who did Caesar kill?"."""
    one, other = _wanted_by(asked.order), _wanted_by(stored.order)
    if one is None or other is None or one == other or len(asked.words) != len(stored.words):
        return False
    if asked.keys != stored.keys:
        return False
    return [word.key for word in asked.words] != [word.key for word in stored.words]


def _wanted_by(order: tuple[str, ...]) -> bool | None:
    """Whether a question for a person or thing has a subject of its own ("did"); None where it is none."""
    if not order or order[0] not in _ASKED:
        return None
    return not _DID.isdisjoint(order[1:4])


def _names(reading: Reading) -> frozenset[str]:
    places = lexicon().places
    return frozenset(word.key for word in reading.words if word.is_name or word.key in places)


def _meet(some: frozenset[str], others: frozenset[str]) -> bool:
    """Whether a word of some is among others, or has one among them that may stand for it."""
    if not some.isdisjoint(others):
        return True
    concepts = lexicon().concepts
    meant = {number for word in some for number in concepts.get(word, ())}
    return any(not meant.isdisjoint(concepts.get(word, ())) for word in others) if meant else False


def _other_heads(asked: Reading, stored: Reading) -> bool:
    """Whether names that both have stand before other words: "a US licence in Spain", "a Spanish licence in the US"."""
    one = _heads(asked)
    other = _heads(stored) if one else {}
    for head, name in one.items():
        against = other.get(head)
        if against is None or against.key == name.key or not name.concepts.isdisjoint(against.concepts):
            continue
        if _has(stored, name) and _has(asked, against):
            return True
    return False


def _has(reading: Reading, name: Word) -> bool:
    return any(word.key == name.key or not word.concepts.isdisjoint(name.concepts) for word in reading.words)


def _heads(reading: Reading) -> dict[str, Word]:
    places = lexicon().places
    return {
        word.key: name
        for name, word in pairwise(reading.words[:MAX_HEADS])
        if word.place == name.place + 1
        and word.clause == name.clause
        and (name.is_name or name.key in places)
    }


def _swapped(asked: tuple[str, ...], stored: tuple[str, ...]) -> bool:
    """Whether one text is the other with two parts of it in each other's place: "A owes B" and "B owes A"."""
    if len(asked) != len(stored) or asked == stored:
        return False
    start = 0
    while asked[start] == stored[start]:
        start += 1
    end = len(asked)
    while asked[end - 1] == stored[end - 1]:
        end -= 1
    a, b = asked[start:end], stored[start:end]
    size = len(a)
    if not 3 <= size <= MAX_SWAP or sorted(a) != sorted(b):
        return False
    for first in range(1, size - 1):
        if a[:first] != b[size - first :]:
            continue
        for second in range(1, size - first):
            between = a[first : size - second]
            if a[size - second :] == b[:second] and between == b[second : size - first]:
                return _HARMLESS.isdisjoint(between)
    return False


def _changed_places(asked: Reading, stored: Reading) -> bool:
    """Whether two words stand on both sides of the same one, but the other way round."""
    if not _TURNS.isdisjoint(asked.order) or not _TURNS.isdisjoint(stored.order):
        return False
    around = _neighbours(asked)
    return any(
        sides[0] != sides[1] and around.get(middle) == (sides[1], sides[0])
        for middle, sides in _neighbours(stored).items()
    )


def _neighbours(reading: Reading) -> dict[str, tuple[str, str]]:
    """For each word, as it is written, with one on either side in the same clause: these two."""
    words = reading.words
    return {
        word.surface: (left.key, right.key)
        for left, word, right in zip(words, words[1:], words[2:], strict=False)
        if left.clause == right.clause and word.weight > 0.4
    }
