"""Why a sentence may state nothing: it asks, supposes, reports what others say, or is about a text."""

from __future__ import annotations

import re
from typing import Final

from openclaw_cache.memory.capture.phrases.language import chinese, english

_EN: Final = english()
_ZH: Final = chinese()

_LINK: Final = r"(?:[^,，]{1,30},\s+)?(?:(?:and|so|but|ok|okay),?\s+)?"
_QUESTION: Final = re.compile(rf"{_LINK}{_EN.any_of('question')}\b(?!\s+(?:i like|i want))", re.IGNORECASE)
_QUESTION_CHINESE: Final = re.compile(_ZH.any_of("question"))
_SUPPOSED: Final = re.compile(rf"\b{_EN.any_of('supposed')}\b|{_ZH.any_of('supposed')}", re.IGNORECASE)
_LEADING_IF: Final = re.compile(
    rf"\W*(?:(?:so|and|but|ok|well|now)\W+)?{_EN.any_of('leading_if')}\b|{_ZH.any_of('leading_if')}",
    re.IGNORECASE,
)
_REPORTED: Final = re.compile(rf"\b{_EN.any_of('reported')}\b|{_ZH.any_of('reported')}")
_ABOUT_TEXT: Final = re.compile(
    rf"\W*(?:(?:{_EN.any_of('about_text_lead')}\W+){{0,3}}{_EN.any_of('about_text')}\b|{_ZH.any_of('about_text')})",
    re.IGNORECASE,
)
_PLAYS: Final = re.compile(
    rf"\W*(?:{_EN.any_of('about_text_lead')}\W+){{0,3}}{_EN.any_of('plays')}|[^，,]{{0,4}}{_ZH.any_of('plays')}",
    re.IGNORECASE,
)
_NAMES_TEXT: Final = re.compile(rf"\b{_EN.any_of('names_text')}\b|{_ZH.any_of('names_text')}", re.IGNORECASE)
_TEXT_ABOVE: Final = re.compile(rf"\b{_EN.any_of('text_above')}|{_ZH.any_of('text_above')}", re.IGNORECASE)
_ABOUT_USER: Final = re.compile(rf"\b{_EN.any_of('about_user')}\b|{_ZH.any_of('about_user')}", re.IGNORECASE)


def is_question(words: str, mark: str) -> bool:
    """Whether a sentence asks something; `mark` is what it ends with."""
    return "?" in mark or "？" in mark or bool(_QUESTION.match(words) or _QUESTION_CHINESE.search(words))


def is_supposed(words: str, *, is_instruction: bool) -> bool:
    """Whether a sentence only supposes what it states. In an instruction an `if` is a condition."""
    return bool(_LEADING_IF.match(words) if is_instruction else _SUPPOSED.search(words))


def is_reported(words: str) -> bool:
    """Whether a sentence tells what others say."""
    return _REPORTED.search(words) is not None


def is_about_text(words: str) -> bool:
    """Whether a sentence orders something to be done with a text, or to be written."""
    return _ABOUT_TEXT.match(words) is not None


def names_text_below(words: str, *, ends_in_colon: bool) -> bool:
    """Whether what follows a sentence is a text that it speaks of, or a part to be played: not the user's own."""
    if _PLAYS.match(words):
        return True
    if ends_in_colon:
        return is_about_text(words) or not _ABOUT_USER.search(words)
    return bool(_NAMES_TEXT.search(words)) and (is_about_text(words) or is_question(words, ""))


def names_text_above(words: str) -> bool:
    """Whether a sentence speaks of the text before it as of something to work on."""
    return bool(_TEXT_ABOVE.search(words)) and (is_about_text(words) or is_question(words, ""))
