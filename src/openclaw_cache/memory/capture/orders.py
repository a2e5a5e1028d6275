"""Orders to remember something, and orders not to."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from openclaw_cache.memory.capture.phrases.language import chinese, english

_EN: Final = english()
_ZH: Final = chinese()
_FOLD: Final = re.IGNORECASE | re.DOTALL

_ORDER: Final = re.compile(
    rf"\W*(?:{_EN.any_of('polite')}\b[\s,:;!.—–-]*){{0,4}}(?P<verb>{_EN.any_of('remember')})\b"
    r"(?P<rest>(?: (?:this|these|the following|it|of)(?: (?:for later|down|facts?|things?|points?|rules?|please))?)?"
    r"\s*(?P<link>\bthat\b|[:：,—–-]+|\bto\b)?\s*(?P<body>.*))\Z",
    _FOLD,
)
_ORDER_CHINESE: Final = re.compile(
    rf"[\W\x00]*(?:{_ZH.any_of('polite')}[，,：: ]*){{0,5}}{_ZH.any_of('remember')}"
    rf"{_ZH.any_of('this_too')}?(?P<link>[，,：:\s]*)(?P<body>.*)\Z",
    re.DOTALL,
)
_AFTERWARDS: Final = re.compile(
    rf"(?P<body>\S.{{3,400}}?)\s*[,;—–-]+\s*(?:(?:so|and|please|pls) ){{0,3}}{_EN.any_of('remember_that')}\W*\Z",
    _FOLD,
)
_AFTERWARDS_CHINESE: Final = re.compile(
    rf"(?P<body>\S.{{2,300}}?)[，,；;]\s*{_ZH.any_of('remember_that')}[\s~～]*\Z", re.DOTALL
)
_POINTS_BACK: Final = re.compile(
    rf"(?:\W|\b{_EN.any_of('points_back')}\b|{_ZH.any_of('points_back')})*\Z", _FOLD
)
_NO_BODY: Final = re.compile(_EN.any_of("nothing_to_remember"), _FOLD)
_NO_BODY_CHINESE: Final = re.compile(_ZH.any_of("nothing_to_remember"))
_TELLS: Final = re.compile(rf"\b{_EN.any_of('tells')}\b|'s\b|'m\b|'re\b|\d", re.IGNORECASE)
_FORBIDDEN: Final = re.compile(f"{_EN.any_of('forbidden')}|{_ZH.any_of('forbidden')}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Order:
    """An order to remember. `start` and `end` bound what is to be remembered; equal where it stands elsewhere."""

    start: int
    end: int
    is_task: bool = False
    points_back: bool = False
    """What is to be remembered was said before."""


def order_in(words: str) -> Order | None:
    """The order to remember that a sentence is, if it is one."""
    for pattern in (_AFTERWARDS, _AFTERWARDS_CHINESE):
        if afterwards := pattern.match(words):
            return Order(afterwards.start("body"), afterwards.end("body"))
    return _english(words) or _chinese(words)


def is_forbidden(words: str) -> bool:
    """Whether a text says somewhere that it is not to be remembered."""
    return _FORBIDDEN.search(words) is not None


def _english(words: str) -> Order | None:
    order = _ORDER.match(words)
    if not order:
        return None
    body, link = order["body"], (order["link"] or "").lower()
    if not body.strip(" :,.") or _POINTS_BACK.match(order["rest"]):
        return _elsewhere(words, link)
    if link == "to":
        return None if _NO_BODY.match(f"to {body}") else Order(order.start("verb"), len(words), is_task=True)
    is_plain = link not in {"that", ":", "："}
    if is_plain and (_NO_BODY.match(body) or not _TELLS.search(body)):
        return None
    return Order(order.start("body"), len(words))


def _chinese(words: str) -> Order | None:
    order = _ORDER_CHINESE.match(words)
    if not order:
        return None
    body = order["body"]
    if _POINTS_BACK.match(body):
        return _elsewhere(words, order["link"].strip())
    return None if _NO_BODY_CHINESE.match(body) or len(body) < 3 else Order(order.start("body"), len(words))


def _elsewhere(words: str, link: str) -> Order:
    """What is to be remembered follows a colon, or went before."""
    return Order(len(words), len(words), points_back=link not in {":", "："})
