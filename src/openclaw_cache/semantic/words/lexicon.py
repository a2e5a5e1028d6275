"""The tables of words: which may stand for each other, which are opposites, which forms belong to which word."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

_HERE: Final = Path(__file__).parent
_TABLES: Final = ("concepts.txt", "places.txt", "wordnet.txt")
MAX_PHRASE: Final = 3
"""Words in the longest English phrase that is looked up as one."""


@dataclass(frozen=True, slots=True)
class Lexicon:
    """What the tables say. English words stand in their basic form; `concepts` maps a word to what it may mean."""

    concepts: dict[str, frozenset[int]]
    opposites: dict[str, frozenset[str]]
    irregular: dict[str, str]
    vocabulary: frozenset[str]
    phrase_starts: frozenset[str]
    """First words of the phrases among `concepts`."""
    places: frozenset[str]
    """Words that name a place, a people or a language."""
    max_han: int
    """Characters in the longest Chinese word."""

    def knows(self, word: str) -> bool:
        """Whether it is a word at all."""
        return self.commonness(word) > 0

    def commonness(self, word: str) -> int:
        """2 for a word of the tables, 1 for one of the vocabulary only, 0 for what is no word."""
        return 2 if word in self.concepts or word in self.opposites else int(word in self.vocabulary)

    def are_opposite(self, one: str, other: str) -> bool:
        """Whether two words contradict each other."""
        return other in self.opposites.get(one, ())


@cache
def lexicon() -> Lexicon:
    """The tables, read once. 0.1 s the first time; raises OSError where the installation lacks them."""
    concepts: dict[str, set[int]] = {}
    opposites: dict[str, set[str]] = {}
    irregular: dict[str, str] = {}
    places: set[str] = set()
    number = 0
    for name in _TABLES:
        for line in (_HERE / name).read_text("utf-8").splitlines():
            kind, _, rest = line.partition(" ")
            if kind in {"=", "+"}:
                number += 1
                for word in rest.split(", "):
                    concepts.setdefault(word, set()).add(number)
                if name == "places.txt":
                    places.update(rest.split(", "))
            elif kind == "!":
                left, _, right = rest.partition(" | " if "|" in rest else ", ")
                for one in left.split(", "):
                    for other in right.split(", "):
                        opposites.setdefault(one, set()).add(other)
                        opposites.setdefault(other, set()).add(one)
            elif kind == "~":
                form, _, word = rest.partition(", ")
                irregular[form] = word
    vocabulary = (_HERE / "vocabulary.txt").read_text("utf-8").splitlines()[1:]
    known = {*concepts, *opposites}
    return Lexicon(
        concepts={word: frozenset(numbers) for word, numbers in concepts.items()},
        opposites={word: frozenset(others) for word, others in opposites.items()},
        irregular=irregular,
        vocabulary=frozenset(vocabulary),
        phrase_starts=frozenset(word.split()[0] for word in known if " " in word),
        places=frozenset(places),
        max_han=max(len(word) for word in known if "\u4e00" <= word[0] <= "\u9fff"),
    )
