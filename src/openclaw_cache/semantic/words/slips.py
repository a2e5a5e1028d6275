"""Slips of the pen in the small words, which the rules could not read past: "teh", "wihtout"."""

from __future__ import annotations

from functools import cache
from typing import Final

from openclaw_cache.semantic.words.function_words import ENGLISH
from openclaw_cache.semantic.words.listed import listed

_OTHERS: Final = listed("""
    cannot without today tomorrow yesterday tonight monday tuesday wednesday thursday friday saturday sunday
    weekend january february march april august september october november december second seconds minute
    minutes hours weeks month months years dollar dollars pounds euros percent three seven eight eleven twelve
    thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty thirty forty fifty hundred thousand
    million never nothing
""")
"""Words of time and number, which the rules read one by one too."""

_SHORT: Final = {
    slip: word
    for word, slips in {
        "the": "teh hte thr tge",
        "and": "adn nad andd",
        "how": "hwo hoow howw",
        "who": "woh",
        "can": "cna acn cann",
        "not": "nto",
        "you": "yuo yoi u",
        "your": "ur yor youre",
        "for": "fro ofr forr",
        "why": "hwy y",
        "are": "aer r",
        "what": "wat wot waht whta",
        "does": "deos dose",
        "please": "plz pls plese",
        "because": "cuz coz becuase",
        "with": "w wiht",
        "without": "w/o witout",
    }.items()
    for slip in slips.split()
}


def corrected(word: str) -> str:
    """Return the small word that an unknown word was meant to be, or the word itself. 1 µs."""
    if word in _SHORT:
        return _SHORT[word]
    if len(word) < 4:
        return word
    known = _by_rest()
    for rest in _rests(word):
        if rest in known:
            return known[rest]
    return word


@cache
def _by_rest() -> dict[str, str]:
    """The words by what is left of them without one of their letters."""
    return {
        rest: word
        for word in sorted({*ENGLISH, *_OTHERS})
        if len(word) >= 5 and word.isalpha()
        for rest in _rests(word)
    }


def _rests(word: str) -> list[str]:
    return [word, *(word[:at] + word[at + 1 :] for at in range(1, len(word)))]
