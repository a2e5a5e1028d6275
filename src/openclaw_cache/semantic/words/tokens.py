"""Cut a text into tokens. Linear in its length whatever it holds: no pattern looks further than what it takes."""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple

Kind = Literal["word", "number", "code", "han", "sign", "end"]


class Token(NamedTuple):
    """A piece of text; `text` is in small letters, `raw` as it was written."""

    text: str
    raw: str
    kind: Kind
    clause: int
    """Number of the part of the sentence it stands in, as parted by punctuation."""
    opens: bool
    """Whether it is the first of its clause: there a capital letter says nothing."""
    is_quoted: bool = False
    """Whether it stands in quotation marks: there no word is small."""


HAN: Final = "\u3400-\u4dbf\u4e00-\u9fff"
_OTHER: Final = "0-9A-Za-z_\u00c0-\u1fff\u3040-\u30ff\uac00-\ud7a3"
_TOKEN: Final = re.compile(
    rf"(?P<han>[{HAN}]+)"
    rf"|(?P<chunk>[{_OTHER}]+(?:[.:/@\-'&#=]{{1,3}}[{_OTHER}]+|,[0-9]{{3}}(?![0-9]))*(?:\+\+|\#)?)"
    r"|(?P<sign>[$£€¥%‰°])"
    r"|(?P<quote>[\"“”„«»「」『』《》])"
    r"|(?P<end>[.,;:!?、。\n()\[\]|]|\s-\s)"
)
_IS_NUMBER: Final = re.compile(r"[0-9][0-9,]*(?:\.[0-9]+)?\Z").match
_STARTS_WITH_NUMBER: Final = re.compile(r"([0-9][0-9,]*(?:\.[0-9]+)?)([a-z]{1,8})\Z").match
_CLOCK: Final = re.compile(r"([0-9]{1,2})[:.h]([0-9]{2})(am|pm)?\Z").match
_LETTERS_THEN_NUMBER: Final = re.compile(r"([a-z]{2,})([0-9]+(?:\.[0-9]+)?)\Z").match
_JOINTS: Final = re.compile(r"([-/'&:]+)")
MAX_WORD: Final = 40
"""Characters; what is longer is no word of a language."""


def tokens(text: str, whole: frozenset[str]) -> list[Token]:
    """Return the tokens of a text that went through `spelling.plain`.

    Args:
        text: The text.
        whole: Words that stay in one piece though a sign stands in them ("e-mail").
    """
    found: list[Token] = []
    clause = 0
    opens = True
    quoted_from: int | None = None
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup
        raw = match.group()
        if kind == "chunk":
            if raw.isalpha() and len(raw) <= MAX_WORD:
                found.append(Token(raw.lower(), raw, "word", clause, opens))
            else:
                _add_pieces(found, raw, clause, opens, whole)
            opens = False
        elif kind == "han":
            found.append(Token(raw, raw, "han", clause, opens))
            opens = False
        elif kind == "sign":
            found.append(Token(raw, raw, "sign", clause, opens))
        elif kind == "quote":
            if quoted_from is None:
                quoted_from = len(found)
            else:
                found[quoted_from:] = [token._replace(is_quoted=True) for token in found[quoted_from:]]
                quoted_from = None
        elif not opens:
            clause += 1
            opens = True
    return found


def _add_pieces(found: list[Token], raw: str, clause: int, opens: bool, whole: frozenset[str]) -> None:
    """Append the words, numbers and codes that a run of letters, digits and signs is made of."""
    text = raw.lower()
    if text in whole:
        found.append(Token(text, raw, "word", clause, opens))
        return
    if len(text) > MAX_WORD or "@" in text or "_" in text or "=" in text or "//" in text or text[-1] in "+#":
        found.append(Token(text, raw, "code", clause, opens))
        return
    if _is_clock(text):
        found.append(Token(text, raw, "number", clause, opens))
        return
    pieces = _JOINTS.split(raw)
    for place in range(0, len(pieces), 2):
        _add_piece(found, pieces[place], pieces[place - 1] if place else "", clause, opens)
        opens = False


def _is_clock(text: str) -> bool:
    found = _CLOCK(text)
    return (
        found is not None
        and (":" in text or found[3] is not None)
        and int(found[1]) < 25
        and int(found[2]) < 60
    )


def _add_piece(found: list[Token], raw: str, mark: str, clause: int, opens: bool) -> None:
    text = raw.lower()
    if not text:
        return
    if text.isalpha():
        if mark == "'" and text == "t" and found:
            last = found.pop()
            base = last.text.removesuffix("n") or last.text
            base = {"ca": "can", "wo": "will", "sha": "shall"}.get(base, base)
            found.append(last._replace(text=base))
            found.append(Token("not", "not", "word", clause, False))
        elif mark != "'" or len(text) > 2:
            found.append(Token(text, raw, "word", clause, opens))
    elif _IS_NUMBER(text):
        found.append(Token(text, raw, "number", clause, opens))
    elif number := _STARTS_WITH_NUMBER(text):
        found.append(Token(number[1], number[1], "number", clause, opens))
        found.append(Token(number[2], number[2], "word", clause, False))
    elif named := _LETTERS_THEN_NUMBER(text):
        found.append(Token(named[1], raw[: len(named[1])], "word", clause, opens))
        found.append(Token(named[2], named[2], "number", clause, False))
    elif all(len(part) == 1 for part in text.split(".")) and text.replace(".", "").isalpha():
        found.append(Token("usa" if text == "u.s" else text.replace(".", ""), raw, "word", clause, opens))
    else:
        found.append(Token(text, raw, "code", clause, opens))
