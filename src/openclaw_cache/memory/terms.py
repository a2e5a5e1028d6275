"""What a full text index sees of a text, in any language.

A term is made of letters and digits alone, so that any tokenizer of an index leaves it whole:

- Words: small letters, no accents, English ones in their basic form.
- What is written together (`foo_bar.baz`, `v2.3.1`, a path, an address, `camelCase`) is there without its joints, as
  a whole and in its parts. Between two digits a joint is a `p`, so that 2.3.1 is not 23.1.
- Scripts that part no words (Chinese, Japanese, Korean, Thai …): every pair of neighbours, and every single character.
  Traditional Chinese is written as simplified.

A question has neither the single characters, except where one stands alone, nor words that tell nothing.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from openclaw_cache.memory.question_words import ENGLISH, HAN_PARTICLES, HAN_WORDS
from openclaw_cache.semantic.words.forms import basic_form
from openclaw_cache.semantic.words.lexicon import lexicon
from openclaw_cache.semantic.words.traditional import SIMPLIFIED

MAX_QUERY_TERMS: Final = 64
"""Of a long question, half of them from its beginning and half from its end."""
_MAX_REMEMBERED: Final = 32
"""Characters of what is worth remembering: most of a text are words that stood in others."""
_MAX_TERM: Final = 64
"""Characters of a term: the rest of a longer one is left out."""
_MOST_FOLDED: Final = 256
"""Characters of a word that are looked at: accents may be most of them."""

_SHORTEST_PLURAL: Final = 4

_PAIRED: Final = (
    "\u3005\u3006\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
    "\u3041-\u3096\u309d\u309e\u30a1-\u30fa\u30fc-\u30fe\u31f0-\u31ff"  # kana
    "\u1100-\u11ff\u3131-\u318e\uac00-\ud7a3"  # Hangul
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0edf\u1000-\u104f\u1780-\u17d3"  # Thai, Lao, Myanmar, Khmer
)
_MARKS: Final = "\u0300-\u036f\u0900-\u0963\u0966-\u0dff"
"""Signs that belong to the letter before them; Python counts them to no word."""
_LETTER: Final = rf"(?:(?![{_PAIRED}])[^\W_]|[{_MARKS}])"
_PIECE: Final = re.compile(
    rf"(?P<pairs>[{_PAIRED}]+)"
    rf"|(?P<chunk>{_LETTER}+(?:[._/@:\\\-'’&+#~]{{1,3}}{_LETTER}+|,[0-9]{{3}}(?![0-9]))*)(?P<mark>\+\+|\#(?!\w))?"
)
_OUTER: Final = re.compile(r"[/@:\\&+#~]+")
_INNER: Final = re.compile(r"[._\-']+")
_CAMEL: Final = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD_AND_NUMBER: Final = re.compile(r"([^\W\d_]{2,})(\d+)\Z|(\d+)([^\W\d_]{2,})\Z")
_JOINTS: Final = re.compile(r"[._/@:\\\-'&+#~]+")
_JOINT_OF_DIGITS: Final = re.compile(rf"(?<=\d){_JOINTS.pattern}(?=\d)")
_ACCENTED: Final = re.compile(
    "[\u00c0-\u024f\u0370-\u052f\u1e00-\u1fff]|[\u0300-\u036f\u0591-\u05c7\u064b-\u065f]"
)
_OWN_LETTERS: Final = {"ø": "o", "ł": "l", "đ": "d", "ð": "d", "æ": "ae", "œ": "oe", "ı": "i", "þ": "th"}


@dataclass(frozen=True, slots=True)
class TextQuery:
    """Terms of which a text needs one to be found; the more and the rarer, the better it is."""

    terms: tuple[str, ...]


def terms(text: str) -> list[str]:
    """The terms of a text, in order, repeats kept: what is stored in the index, joined by spaces."""
    found: list[str] = []
    for match in _PIECE.finditer(_plain(text)):
        if run := match["pairs"]:
            found += _neighbours(run)
            found += run
        else:
            found += _written_together(match["chunk"], match["mark"])
    return found


def text_query(question: str) -> TextQuery:
    """What to look for; without terms where the question has none.

    Words that tell nothing are left out, unless there are no others.
    """
    telling, idle = _sorted_out(question)
    chosen = list(telling or idle)
    if len(chosen) > MAX_QUERY_TERMS:
        half = MAX_QUERY_TERMS // 2
        chosen = chosen[:half] + chosen[-half:]
    return TextQuery(tuple(chosen))


def telling_terms(question: str) -> tuple[str, ...]:
    """The terms of a question that tell what it is about; a greeting has none."""
    return tuple(_sorted_out(question)[0])


def _sorted_out(question: str) -> tuple[dict[str, None], dict[str, None]]:
    """The terms that tell something, and those that do not, each once and in order."""
    telling: dict[str, None] = {}
    idle: dict[str, None] = {}
    for match in _PIECE.finditer(_plain(question)):
        if run := match["pairs"]:
            for part in _telling_parts(run):
                telling.update(dict.fromkeys(_neighbours(part) or [part]))
            idle.update(dict.fromkeys(_neighbours(run) or [run]))
        else:
            chunk = match["chunk"]
            is_idle = not match["mark"] and _folded(chunk[:_MAX_REMEMBERED]).replace("'", "") in ENGLISH
            where = idle if is_idle else telling
            where.update(dict.fromkeys(_written_together(chunk, match["mark"])))
    return telling, idle


def _plain(text: str) -> str:
    """One form of what can be written in several; capital letters stay, they part words."""
    return unicodedata.normalize("NFKC", text).translate(SIMPLIFIED).replace("’", "'")


def _neighbours(run: str) -> list[str]:
    return [run[at : at + 2] for at in range(len(run) - 1)]


def _written_together(chunk: str, mark: str | None) -> tuple[str, ...]:
    """A chunk as a whole, then its parts, each once."""
    return _remembered(chunk, mark) if len(chunk) <= _MAX_REMEMBERED else _parted(chunk, mark)


def _parted(chunk: str, mark: str | None) -> tuple[str, ...]:
    if chunk.isascii() and chunk.isalpha() and (chunk.islower() or chunk.istitle()) and not mark:
        return (_term(chunk),)
    chunk = re.sub(r",(?=\d)", "", chunk)
    found: dict[str, None] = {}
    if mark:
        found[_term(chunk + ("plusplus" if mark == "++" else "sharp"))] = None
    else:
        found[_whole(chunk)] = None
    for outer in _OUTER.split(chunk):
        if _is_part(outer):
            found[_whole(outer)] = None
        for inner in _INNER.split(outer):
            found.update(dict.fromkeys(_term(part) for part in (inner, *_parts(inner)) if _is_part(part)))
    found.pop("", None)
    return tuple(found)


_remembered = lru_cache(maxsize=20_000)(_parted)


def _is_part(word: str) -> bool:
    """A single letter says nothing apart from what it was written with."""
    return len(word) > 1 or not word.isascii() or word.isdigit()


def _whole(chunk: str) -> str:
    """A chunk without its joints; of `Anna's` only the name."""
    chunk = re.sub(r"'[sS]\Z", "", chunk)
    return _term(_JOINTS.sub("", _JOINT_OF_DIGITS.sub("p", chunk)))


def _parts(inner: str) -> Iterator[str]:
    """Words that capital letters part, and a word and a number that stand together."""
    for part in _CAMEL.split(inner):
        if found := _WORD_AND_NUMBER.match(part):
            yield from (piece for piece in found.groups() if piece)
        else:
            yield part


def _term(word: str) -> str:
    word = _folded(word[:_MOST_FOLDED])
    if word.isascii() and word.isalpha():
        return _stem(word[:_MAX_TERM])
    if word.isdigit():
        word = word.lstrip("0") or "0"
    return word[:_MAX_TERM]


def _folded(word: str) -> str:
    """Small letters without accents."""
    word = word.casefold()
    return word if word.isascii() else _ACCENTED.sub(_without_accent, word)


def _without_accent(match: re.Match[str]) -> str:
    letter = match[0]
    return _OWN_LETTERS.get(letter) or "".join(
        part for part in unicodedata.normalize("NFD", letter) if not unicodedata.combining(part)
    )


@lru_cache(maxsize=50_000)
def _stem(word: str) -> str:
    """The word that this is a form of; of one that is in no table, without a plural's ending."""
    form = basic_form(word)
    if form != word or lexicon().knows(word) or len(word) < _SHORTEST_PLURAL:
        return form
    if word.endswith("s") and word[-2] not in "suia":
        return word[:-1]
    return word


def _telling_parts(run: str) -> list[str]:
    """What is left of a run where words and particles that tell nothing are cut out."""
    parts = [""]
    at = 0
    while at < len(run):
        idle = next((size for size in (4, 3, 2) if run[at : at + size] in HAN_WORDS), 0)
        idle = idle or int(run[at] in HAN_PARTICLES)
        if idle:
            parts.append("")
            at += idle
        else:
            parts[-1] += run[at]
            at += 1
    return [part for part in parts if part]
