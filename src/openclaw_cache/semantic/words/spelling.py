"""One way to write what can be written in many: width, case, look-alikes, invisible characters, variants of Han."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from openclaw_cache.semantic.words.traditional import SIMPLIFIED

_INVISIBLE: Final = re.compile(
    r"[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]+"
)
_APOSTROPHES: Final = {ord(c): "'" for c in "\u2018\u2019\u201b\u02bc\uff07\u00b4\u0060"}
_DASHES: Final = {ord(c): "-" for c in "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"}
_SIGNS: Final = {**_APOSTROPHES, **_DASHES}
_LIKE_LATIN: Final = str.maketrans(
    "АВЕКМНОРСТХаеорсухіјѕԁһӏΑΒΕΖΗΙΚΜΝΟΡΤΥΧοαν",
    "ABEKMHOPCTXaeopcyxijsdhlABEZHIKMNOPTYXoav",
)
_FOREIGN: Final = re.compile(r"[\u0370-\u052f]")
_LETTER_RUN: Final = re.compile(r"[^\W\d_]+")
_IS_PLAIN: Final = re.compile(r"[\x00-\x7f]*\Z").match


def plain(text: str) -> str:
    """Return `text` so that what looks the same is the same. Case stays. Linear: 1 µs for ASCII, 20 for Chinese."""
    if _IS_PLAIN(text):
        return text.replace("`", "'")
    text = unicodedata.normalize("NFKC", text)
    text = _INVISIBLE.sub("", text).translate(_SIGNS)
    if _FOREIGN.search(text):
        text = _LETTER_RUN.sub(_unmask, text)
    return text.translate(SIMPLIFIED)


def _unmask(run: re.Match[str]) -> str:
    """A word that mixes Latin letters with Greek or Cyrillic ones is meant to be Latin; a purely Greek one is not."""
    word = run.group()
    return word.translate(_LIKE_LATIN) if any("a" <= c <= "z" for c in word.lower()) else word
