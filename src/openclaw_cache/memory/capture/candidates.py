"""What of a turn is worth remembering."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from openclaw_cache.memory.capture import doubt
from openclaw_cache.memory.capture.orders import Order, is_forbidden, order_in
from openclaw_cache.memory.capture.own_words import own_words
from openclaw_cache.memory.capture.reading import plain, read
from openclaw_cache.memory.capture.sameness import normal
from openclaw_cache.memory.capture.secret_text import has_secret
from openclaw_cache.memory.capture.sentences import Sentence, sentences
from openclaw_cache.memory.content import text_parts
from openclaw_cache.memory.forgetting import REDACTED
from openclaw_cache.memory.record import Message

MOST: Final = 10
"""So many of one turn; the first ones."""
MOST_CHARS: Final = 500
"""A longer sentence is left alone: it would be no memory, and half of it may be a false one."""
_FEWEST_CHARS: Final = 4
_MOST_CLAUSES: Final = 8
_CLAUSE: Final = re.compile(
    r"(?:,\s+(?:and\s+|but\s+|so\s+)?|\s+(?:and|but)\s+|[，；]\s*)(?=\S)", re.IGNORECASE
)
_ASKED: Final = ("asked",)
"""Tag of what the user ordered to be remembered."""
_ALL: Final = Order(0, MOST_CHARS * 10)
"""What an order elsewhere makes of a sentence."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """Something said that is worth remembering. `text` stands in the message exactly so."""

    text: str
    kind: str
    slot: str | None
    tags: tuple[str, ...]
    at: float
    message_id: str


def candidates(messages: Sequence[Message], now: float) -> list[Candidate]:
    """What the user said in these messages that is worth remembering, at most `MOST`.

    Only the user's own words count (`own_words`): a tool's result, a pasted page, a quotation or the assistant's own
    words plant nothing, and neither do questions, suppositions, reports of what others said, or secrets. A message
    that says somewhere "don't remember this" gives nothing.

    Args:
        messages: A turn's, in order.
        now: Unix time; taken for what has no time of its own.

    Cost: about 0.2 ms a sentence.
    """
    found: dict[str, Candidate] = {}
    for message in messages:
        if message.role != "user":
            continue
        at = message.at if 0 < message.at <= now else now
        for text in text_parts(message.content):
            for said in _said(text):
                if len(found) < MOST:
                    found.setdefault(
                        normal(said.text),
                        Candidate(said.text, said.kind, said.slot, said.tags, at, message.id),
                    )
    return list(found.values())


@dataclass(frozen=True, slots=True)
class _Said:
    text: str
    kind: str
    slot: str | None
    tags: tuple[str, ...] = ()


def _said(text: str) -> Iterator[_Said]:
    words = plain(own_words(text).rstrip("\n"))  # a pasted book is megabytes of blanks by now
    spans = list(sentences(words))
    said = [words[span.start : span.end] for span in spans]
    if is_forbidden(words) or any(map(doubt.names_text_above, said)):
        return
    listed: int | None = None  # the paragraph whose sentences an order asked to remember
    awaits_list = False
    for number, (span, sentence) in enumerate(zip(spans, said, strict=True)):
        if awaits_list:
            listed, awaits_list = span.paragraph, False
        order = order_in(sentence)
        if order is None and listed == span.paragraph:
            yield from _ordered(text, words, span, _ALL)
        elif order is None:
            if doubt.names_text_below(sentence, ends_in_colon=sentence.endswith((":", "："))):
                return
            yield from _stated(text, words, span)
        elif order.start < order.end:
            yield from _ordered(text, words, span, order)
        elif not order.points_back:
            awaits_list = True
        elif number and spans[number - 1].paragraph == span.paragraph:
            yield from _ordered(text, words, spans[number - 1], _ALL)


def _ordered(text: str, words: str, span: Sentence, order: Order) -> Iterator[_Said]:
    """What the user ordered to be remembered."""
    start, end = span.start + order.start, min(span.start + order.end, span.end)
    kept = _kept(text, start, end)
    if kept is None or doubt.is_question(words[start:end], "" if order.start else span.mark):
        return
    found = read(words[start:end].strip())
    if order.is_task:
        yield _Said(kept, "task", None, _ASKED)
    elif found is None:
        yield _Said(kept, "fact", None, _ASKED)
    else:
        yield _Said(kept, found.kind, found.slot, _ASKED)


def _stated(text: str, words: str, span: Sentence) -> Iterator[_Said]:
    """What the user stated, clause by clause where each says something of its own."""
    sentence = words[span.start : span.end]
    if len(sentence) > MOST_CHARS or doubt.is_question(sentence, span.mark) or doubt.is_reported(sentence):
        return
    for start, end in _clauses(sentence):
        found = read(sentence[start:end])
        if found is None or doubt.is_supposed(sentence, is_instruction=found.is_instruction):
            continue
        if doubt.is_about_text(sentence) and not found.is_instruction:
            continue
        kept = _kept(text, span.start + start, span.start + end)
        if kept is not None:
            yield _Said(kept, found.kind, found.slot)


def _clauses(sentence: str) -> list[tuple[int, int]]:
    """Where the parts of a sentence begin and end of which each states something."""
    starts, ends = [0], []
    for gap in list(_CLAUSE.finditer(sentence))[:_MOST_CLAUSES]:
        if read(sentence[gap.end() :]) is not None and read(sentence[starts[-1] : gap.start()]) is not None:
            ends.append(gap.start())
            starts.append(gap.end())
    return list(zip(starts, [*ends, len(sentence)], strict=True))


def _kept(text: str, start: int, end: int) -> str | None:
    """The text to keep; None where there is none, or it must not be kept."""
    kept = text[start:end].strip(" \t,，;；:：、")
    if not _FEWEST_CHARS <= len(kept) <= MOST_CHARS or "\n" in kept:
        return None
    if REDACTED in kept or has_secret(kept):
        return None
    return kept
