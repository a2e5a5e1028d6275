"""From a form of an English word to the word: plurals, past tenses, participles."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from openclaw_cache.semantic.words.lexicon import lexicon
from openclaw_cache.semantic.words.listed import listed

_ENDINGS: Final = (
    ("ies", ("y", "ie")),
    ("ves", ("f", "fe", "ve")),
    ("es", ("e", "")),
    ("s", ("",)),
    ("ied", ("y",)),
    ("ed", ("e", "")),
    ("ing", ("e", "")),
)
_KEEP: Final = frozenset(
    listed(
        """
            always aboard news series species sms ios aws gps less unless business address access process pass
            class miss yes this his its thus bus plus gas virus status bonus campus basis analysis thing king
            ring spring string wing bring sing during nothing something anything everything morning evening
            ceiling need feed speed seed indeed hundred sacred red bed shed bleed exceed proceed succeed glasses
            jeans trousers pants
        """
    )
)
_SPELLINGS: Final = (
    ("isation", "ization"),
    ("ise", "ize"),
    ("yse", "yze"),
    ("our", "or"),
    ("tre", "ter"),
    ("ogue", "og"),
    ("icence", "icense"),
    ("efence", "efense"),
)


@lru_cache(maxsize=20_000)
def basic_form(word: str) -> str:
    """Return the word that `word`, in small letters, is a form of; itself where it is none or is not known."""
    known = lexicon()
    if word in known.irregular:
        return known.irregular[word]
    if len(word) <= 3 or word in _KEEP:
        return word
    for ending, others in _ENDINGS:
        if not word.endswith(ending):
            continue
        stem = word[: -len(ending)]
        if len(stem) < 2 or (ending == "s" and stem[-1] in "siu"):
            continue
        found = [stem + other for other in others if len(stem + other) > 2 and known.knows(stem + other)]
        if found:
            return _one_spelling(max(found, key=known.commonness))
        if ending in {"ed", "ing"} and stem[-1] == stem[-2] and known.knows(stem[:-1]):
            return _one_spelling(stem[:-1])
    return _one_spelling(word)


def _one_spelling(word: str) -> str:
    """American spelling where both are words and only the ending tells them apart."""
    for british, american in _SPELLINGS:
        if word.endswith(british) and len(word) > len(british) + 2:
            other = word[: -len(british)] + american
            if lexicon().knows(other):
                return other
    return word


@lru_cache(maxsize=20_000)
def root(word: str) -> str:
    """Return what is left of a basic form without the endings that make one kind of word of another."""
    for ending in _DERIVED:
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return word[: -len(ending)]
    return word


_DERIVED: Final = tuple(
    listed(
        """
            ations ation ments ment ness ables able ibles ible ances ance ences ence ities ity ally ly ions ion
            als al ive ing ers er ors or ship ful ed es e y
        """
    )
)
