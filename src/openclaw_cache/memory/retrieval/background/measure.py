"""How near a question is to texts that have nothing to do with it.

A cosine says little by itself: two short Chinese texts are nearer to each other than two English ones, whatever they
say. So it is compared with those of sixteen invented sentences of the passage's language. They are about nobody's
life, and part of the package: what is recalled does not depend on what else a store has.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from statistics import fmean, pstdev
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from openclaw_cache.embedding.embedder import Vector

Language = Literal["en", "zh"]

LANGUAGES: Final[Mapping[Language, str]] = {"en": "english", "zh": "chinese"}
_NEAREST: Final = 5
"""Of the sentences: their mean is steadier than the nearest one, and nearer to a passage than the mean of all."""
_MOSTLY: Final = 2
_WORD: Final = re.compile(r"([\u3400-\u9fff])|([a-z\u00c0-\u024f0-9]+)|[^\W_]", re.IGNORECASE)


def background_texts(language: Language) -> tuple[str, ...]:
    """The sentences of a language. Reads a file of the package, once."""
    return _read(LANGUAGES[language])


@lru_cache
def _read(name: str) -> tuple[str, ...]:
    return tuple(files(__package__).joinpath(f"{name}.txt").read_text(encoding="utf-8").splitlines())


def languages_of(text: str) -> tuple[Language, ...]:
    """The languages with whose sentences a text is compared, a Han character being a word; none in another script.

    What is written in Latin letters counts as English. A text in both scripts may be near to questions of either
    language for its script alone.
    """
    num_han, num_words, num_other = _counts(text)
    if num_other > num_han + num_words:
        return ()
    if num_han == 0:
        return ("en",)
    return ("zh",) if num_han > _MOSTLY * num_words else ("en", "zh")


def num_words(text: str) -> int:
    """Words of a text; of scripts that part none, characters."""
    return sum(_counts(text))


def _counts(text: str) -> tuple[int, int, int]:
    """Han characters, words in Latin letters, letters of other scripts."""
    found = [match.lastindex for match in _WORD.finditer(text)]
    return found.count(1), found.count(2), found.count(None)


class Background:
    """The sentences' vectors under one embedder.

    Args:
        fingerprint: The embedder's.
        vectors: By language, all of length 1.
    """

    def __init__(self, fingerprint: str, vectors: Mapping[Language, Sequence[Vector]]) -> None:
        self.fingerprint = fingerprint
        self._vectors = {language: tuple(rows) for language, rows in vectors.items() if rows}
        self.spread = fmean([_spread(rows) for rows in self._vectors.values()])
        """The standard deviation of their cosines with each other: the scale of this embedder."""

    def noise(self, question: Vector) -> dict[Language, float]:
        """By language, the cosine that just any text of it has with a question. 32 dot products."""
        return {
            language: fmean(sorted((float(row @ question) for row in rows), reverse=True)[:_NEAREST])
            for language, rows in self._vectors.items()
        }


def _spread(rows: Sequence[Vector]) -> float:
    return pstdev([float(a @ b) for at, a in enumerate(rows) for b in rows[:at]] or [0.0])
