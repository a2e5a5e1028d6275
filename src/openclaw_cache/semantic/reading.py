"""What the rules read in one question: its words, numbers and the marks of what it asks. Made once per text. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from openclaw_cache.semantic.words import function_words
from openclaw_cache.semantic.words.forms import basic_form, root
from openclaw_cache.semantic.words.lexicon import MAX_PHRASE, Lexicon, lexicon
from openclaw_cache.semantic.words.listed import listed
from openclaw_cache.semantic.words.marks import HAN_WORDS, Marks, marks_of
from openclaw_cache.semantic.words.numerals import HAN as HAN_NUMERALS
from openclaw_cache.semantic.words.quantities import Quantity, month_number, read_han_number, read_number
from openclaw_cache.semantic.words.slips import corrected
from openclaw_cache.semantic.words.spelling import plain
from openclaw_cache.semantic.words.tokens import Token, tokens

MAX_READ: Final = 20_000
"""Characters that are read word by word. No model of sentences takes in as much, so such a text is never compared."""


class Word(NamedTuple):
    """A word with matter in it."""

    key: str
    """Its basic form."""
    surface: str
    """As it was written, in small letters."""
    concepts: frozenset[int]
    """What it may mean: words that share one may stand for each other."""
    root: str
    weight: float
    """How much it says, 0 to 1."""
    clause: int
    place: int
    """Number of its token, function words included."""
    is_name: bool
    is_code: bool
    is_asked: bool
    """Whether it follows "which" or "what": "which city" asks no more than "what"."""
    parts: tuple[Word, ...]
    """The words of a phrase."""


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """One question as the rules see it. Equal to none but itself, so that pairs are looked up fast."""

    text: str
    normal: str
    """The text in one spelling: width, look-alikes and case made equal."""
    words: tuple[Word, ...]
    keys: frozenset[str]
    weight: float
    """Sum over its words."""
    quantities: tuple[Quantity, ...]
    codes: frozenset[str]
    marks: Marks
    order: tuple[str, ...]
    """All tokens in basic form, function words included."""
    has_han: bool
    has_latin: bool
    is_whole: bool
    """False where the text was too long to read all of it."""


def read(text: str) -> Reading:
    """Read a question. Linear in its length, 300 µs at most for a short one; takes any text."""
    normal = plain(text[:MAX_READ])
    words = lexicon()
    found_tokens = [_mended(token, words) for token in tokens(normal, _WHOLE or _load_whole(words))]
    reader = _Reader(words, found_tokens)
    reader.run()
    order = tuple(reader.order)
    found = tuple(reader.words)
    return Reading(
        text=text,
        normal=normal.casefold(),
        words=found,
        keys=frozenset(word.key for word in found),
        weight=sum(word.weight for word in found),
        quantities=tuple(reader.quantities),
        codes=frozenset(word.key for word in found if word.is_code),
        marks=marks_of(order, reader.clauses, reader.deeds),
        order=order,
        has_han=reader.has_han,
        has_latin=reader.has_latin,
        is_whole=len(text) <= MAX_READ,
    )


_WHOLE: frozenset[str] = frozenset()


def _load_whole(words: Lexicon) -> frozenset[str]:
    global _WHOLE  # noqa: PLW0603  filled once from the tables
    _WHOLE = frozenset(
        word for word in words.concepts if not word.replace(" ", "").isalpha() and " " not in word
    )
    return _WHOLE


def _mended(token: Token, words: Lexicon) -> Token:
    """The token without a slip of the pen, where it was meant to be a small word."""
    if token.kind != "word" or len(token.text) < 3 or token.text in function_words.ENGLISH:
        return token
    if words.knows(basic_form(token.text)):
        return token
    meant = corrected(token.text)
    return token if meant == token.text else token._replace(text=meant)


class _Reader:
    """One pass over the tokens of a text."""

    def __init__(self, lexicon: Lexicon, found: list[Token]) -> None:
        self.words: list[Word] = []
        self.quantities: list[Quantity] = []
        self.order: list[str] = []
        self.clauses: list[int] = []
        self.deeds: set[int] = set()
        """Places of tokens that tell what is done, not to whom: "from biting"."""
        self.has_han = any(token.kind == "han" for token in found)
        self.has_latin = any(token.kind == "word" for token in found)
        self._lexicon = lexicon
        self._tokens = found
        latin = [token for token in found if token.kind == "word"]
        capitals = sum(token.raw[:1].isupper() for token in latin)
        self._has_begun = -1
        """The clause in which a word stood already that opens no question."""
        self._tells_names = len(latin) < 3 or capitals * 2 <= len(latin) + 1
        """In a text all in capitals or in title case a capital letter says nothing."""

    def run(self) -> None:
        """Read all tokens."""
        at = 0
        before = ""
        while at < len(self._tokens):
            token = self._tokens[at]
            if token.kind == "han":
                self._read_han(token, 0, before)
            elif token.kind == "number" and at + 1 < len(self._tokens) and self._tokens[at + 1].kind == "han":
                at += 1
                self._read_number_before_han(token, self._tokens[at], before)
                token = self._tokens[at]
            elif token.kind in {"word", "number"} and (number := read_number(self._tokens, at)):
                self._add_quantity(number[0], token.clause)
                at = number[1] - 1
            elif token.kind == "word":
                at += self._read_word(at) - 1
            elif token.kind == "code":
                self._add(token.text, token, is_code=True)
            before = token.text if token.kind == "han" else ""
            at += 1

    def _read_word(self, at: int) -> int:
        """Take a word, or a phrase that stands for one. Returns the number of tokens taken."""
        token = self._tokens[at]
        form = basic_form(token.text)
        if form in self._lexicon.phrase_starts or form in _FILLER_STARTS:
            taken = self._read_phrase(at, form)
            if taken:
                return taken
        month = month_number(token.text)
        if month is not None and (token.text not in {"may", "mar", "march"} or self._is_date(at)):
            self._add_quantity(Quantity("month#", month), token.clause)
            return 1
        small = token.text
        is_small = small in function_words.ENGLISH or form in function_words.ENGLISH
        if is_small and (token.is_quoted or self.has_han):
            self._add(token.text, token)
        elif is_small and self._is_initials(token):
            self._add("usa" if small == "us" else small, token, is_name=small not in _COMMON_CAPITALS)
        elif is_small:
            self._add_small(small, token)
        else:
            self._add(form, token, is_name=self._is_name(token))
        return 1

    def _read_phrase(self, at: int, form: str) -> int:
        token = self._tokens[at]
        for length in range(min(MAX_PHRASE, len(self._tokens) - at), 1, -1):
            parts = self._tokens[at : at + length]
            if any(part.kind != "word" for part in parts):
                continue
            forms = [form, *(basic_form(part.text) for part in parts[1:])]
            phrase = " ".join(forms)
            if (
                phrase in function_words.FILLERS
                and not token.is_quoted
                and (at < 2 or at + length == len(self._tokens))
            ):
                return length
            if phrase in self._lexicon.concepts or phrase in self._lexicon.opposites:
                self._add(phrase, token, surface=" ".join(part.text for part in parts))
                return length
        return 0

    def _is_name(self, token: Token) -> bool:
        if self.has_han:
            return not self._lexicon.knows(basic_form(token.text))
        raw = token.raw
        if not raw[0].isupper() or not self._tells_names:
            return False
        if token.text in _COMMON_CAPITALS:
            return False
        return self._has_begun == token.clause or (len(raw) > 1 and raw[1:].lower() != raw[1:])

    def _is_initials(self, token: Token) -> bool:
        """Whether a small word is written as initials, where others are not ("IT", "US")."""
        return len(token.raw) > 1 and token.raw.isupper() and self._tells_names and token.text not in _SHOUTED

    def _add_small(self, text: str, token: Token) -> None:
        self.order.append(text)
        self.clauses.append(token.clause)
        if text not in function_words.OPENERS:
            self._has_begun = token.clause

    def _is_date(self, at: int) -> bool:
        """Whether a number stands beside a word that is not always a month."""
        beside = self._tokens[max(0, at - 2) : at + 3]
        if any(token.kind == "number" for token in beside):
            return True
        before = self._tokens[at - 1] if at else None
        return (
            before is not None
            and before.clause == self._tokens[at].clause
            and before.text in {"in", "by", "since"}
        )

    def _add_quantity(self, quantity: Quantity, clause: int) -> None:
        self.quantities.append(quantity)
        self.order.append("#")
        self.clauses.append(clause)

    def _add(
        self,
        key: str,
        token: Token,
        *,
        is_name: bool = False,
        is_code: bool = False,
        surface: str | None = None,
    ) -> None:
        asked = bool(self.order) and self.order[-1] in _ASKS_FOR
        word = self._word(key, token, is_name, is_code, asked, surface or token.text)
        self.words.append(word)
        if token.text.endswith("ing") and key != token.text:
            self.deeds.add(len(self.order))
        self.order.append(key)
        self.clauses.append(token.clause)
        if key not in function_words.OPENERS:
            self._has_begun = token.clause

    def _word(self, key: str, token: Token, is_name: bool, is_code: bool, asked: bool, surface: str) -> Word:
        concepts = self._lexicon.concepts.get(key, _NONE)
        is_light = key in function_words.LIGHT or key in function_words.HAN_LIGHT
        weight = 0.25 if is_light else 0.5 if token.kind == "han" and len(key) == 1 else 1.0
        parts: tuple[Word, ...] = ()
        if token.kind == "word" and (" " in key or "-" in key):
            pieces = key.replace("-", " ").split()
            if function_words.ENGLISH.isdisjoint(pieces):
                parts = tuple(self._word(piece, token, False, False, asked, piece) for piece in pieces)
                weight = max(part.weight for part in parts)
        found = root(key) if token.kind == "word" and not parts and not is_name else key
        place = len(self.order)
        return Word(
            key, surface, concepts, found, weight, token.clause, place, is_name, is_code, asked, parts
        )

    def _read_number_before_han(self, number: Token, run: Token, before: str) -> None:
        if ":" in number.text or number.text.endswith("m"):
            found = read_number([number], 0)
            if found is not None:
                self._add_quantity(found[0], number.clause)
            self._read_han(run, 0, "")
            return
        value = float(number.text.replace(",", "")[:300])
        end = 0
        while end < len(run.text) and run.text[end] in HAN_NUMERALS and end < 20:
            end += 1
        quantity = read_han_number(run.text, 0, end, before=before, digits=value)
        if quantity is not None:
            self._add_quantity(quantity[0], number.clause)
            self._read_han(run, quantity[1], "")

    def _read_han(self, token: Token, start: int, before: str) -> None:
        """Cut a run of Chinese characters into the longest words that are known, else into characters."""
        text = token.text
        at = start
        longest = self._lexicon.max_han
        while at < len(text):
            for length in range(min(longest, len(text) - at), 1, -1):
                piece = text[at : at + length]
                if piece in self._lexicon.concepts or piece in self._lexicon.opposites or piece in _HAN_WHOLE:
                    break
            else:
                length, piece = 1, text[at]
            if length == 1 and piece in HAN_NUMERALS:
                end = at + 1
                while end < len(text) and text[end] in HAN_NUMERALS and end - at < 20:
                    end += 1
                number = read_han_number(
                    text, at, end, before=before + text[max(0, at - 4) : at], digits=None
                )
                if number is not None:
                    self._add_quantity(number[0], token.clause)
                    at = number[1]
                    continue
            if piece in _HAN_MARKS and 0 < at < len(text) - 1 and text[at - 1] == text[at + 1]:
                self._add_small("吗", token)
                at += 2
                continue
            if not token.is_quoted and (piece in function_words.HAN or piece in _HAN_MARKS):
                self._add_small(piece, token)
            elif piece != "第":
                self._add(piece, token)
            at += length


_NONE: Final[frozenset[int]] = frozenset()
_SHOUTED: Final = frozenset(("not", "no", "never", "all", "any", "only", "please", "ok", "asap"))
_COMMON_CAPITALS: Final = frozenset(listed("pc tv atm wifi sms gps faq id pin cv ai app ok sim url hr ceo"))
"""Words that are mostly written in capitals, and name nothing in particular."""
_ASKS_FOR: Final = frozenset(listed("which what 哪个 哪些 哪 什么 哪种"))
_FILLER_STARTS: Final = frozenset(filler.split()[0] for filler in function_words.FILLERS)
_HAN_MARKS: Final = frozenset("不没无未别非勿莫")
_HAN_WHOLE: Final = function_words.HAN | (
    function_words.HAN_WITH_NUMERALS
    | function_words.HAN_WITH_NEGATIONS
    | function_words.HAN_LIGHT
    | HAN_WORDS
)
