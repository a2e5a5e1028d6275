"""Hybrid search in one agent's store.

Two rankings are made, one by meaning and one by full text, four times as long as what is wanted. Where the question
names a time, what is of that time makes a third, ordered by the first two. Reciprocal rank fusion makes one of them; of
what is about as good, the fresher comes first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import msgspec

from openclaw_cache.memory.retrieval.fusion import Fused, Place, Weight, fuse
from openclaw_cache.memory.retrieval.nearest import Vectors, nearest
from openclaw_cache.memory.retrieval.recency import freshness
from openclaw_cache.memory.terms import TextQuery, telling_terms, terms, text_query

if TYPE_CHECKING:
    from openclaw_cache.memory.record import Filter, Passage
    from openclaw_cache.memory.retrieval.question import Question
    from openclaw_cache.memory.retrieval.time_words import TimeRange
    from openclaw_cache.memory.store import Passages

Ranking = list[tuple[int, float]]

_OVERFETCH: Final = 4
_MOST_OVERFETCHED: Final = 100
_FAR: Final = (40, 80)
"""Between these places of a ranking stand texts that have nothing to do with the question."""
_KIN: Final = {
    "agreement": "agree",
    "decision": "decide",
    "discussion": "discuss",
    "meeting": "meet",
    "preference": "prefer",
}
"""Names of what is remembered, and the words that ask for it: "what did we decide?" finds "Decision: …"."""
_KIN_OF: Final = _KIN | {verb: name for name, verb in _KIN.items()}
_TEXT_WEIGHT: Final = 2.5
"""What full text counts beside a vector, for a text that has all of the question's terms; for others their share of it.

One rare word in common says little about what is meant. Measured by `benchmarks.memory`, as are the others.
"""
_TIME_WEIGHT: Final = 3.5
"""As much as the two other rankings together: what is of the asked time comes first, but does not shut others out."""
_FRESH_WEIGHT: Final = 0.05
"""What is new counts so much more than what is old: less than one of the first places of a ranking."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage that was found, the best one of its memory or message.

    `why` has its place and value in each ranking that has it: `vector` (cosine), `text` (BM25), `time` (its score in
    the asked time). Without a place (0) it has `terms`, the share of the question's telling terms that the text has,
    `recency`, 1 for now and half of it for each half-life, and `lead`, how far the cosine is above those of the texts
    at places 40 to 80, where there are so many.
    """

    passage: Passage
    score: float
    why: Mapping[str, Place]
    num_terms: int = 0
    """How many of the question's telling terms it has."""


def search(store: Passages, vectors: Vectors | None, question: Question) -> list[Hit]:
    """What a question finds, best first, one hit for each memory or message. Blocks; asks only the store and the index.

    Without `vectors`, or a vector in the question, it goes on with text and time.

    Raises:
        MemoryStoreError: the store failed.
    """
    if question.mode == "time" or not question.text.strip():
        return _newest(store, question)
    look = _Look(store, question)
    lists = look.rankings(vectors, question.within)
    if question.asked is not None:
        lists["time"] = look.of_the_time(vectors, question.asked)
    return look.hits(lists)


def narrowed(within: Filter, asked: TimeRange) -> Filter:
    """A filter that lets through what is of the asked time only."""
    starts = [since for since in (within.since, asked.since) if since is not None]
    ends = [until for until in (within.until, asked.until) if until is not None]
    return msgspec.structs.replace(within, since=max(starts, default=None), until=min(ends, default=None))


class _Look:
    """One search: what it has learnt of passages on its way."""

    def __init__(self, store: Passages, question: Question) -> None:
        self._store = store
        self._question = question
        self._query = _query(question.text)
        text = question.text if question.asked is None else question.asked.rest
        self._wanted = frozenset(_KIN.get(term, term) for term in telling_terms(text))
        self._passages: dict[int, Passage] = {}
        self._nums_terms: dict[int, int] = {}

    def rankings(self, vectors: Vectors | None, within: Filter) -> dict[str, Ranking]:
        """By meaning and by full text, so far as the question's mode wants them."""
        question = self._question
        num_wanted = _num_wanted(question)
        lists: dict[str, Ranking] = {}
        if question.mode != "text" and vectors is not None and question.vector is not None:
            lists["vector"] = nearest(self._store, vectors, question.vector, num_wanted, within)
        if question.mode != "vector":
            lists["text"] = self._store.match(self._query, num_wanted, within)
        return lists

    def of_the_time(self, vectors: Vectors | None, asked: TimeRange) -> Ranking:
        """What is of the asked time: first what the other rankings find there, then the newest."""
        within = narrowed(self._question.within, asked)
        best = [(fused.number, fused.score) for fused in self._fused(self.rankings(vectors, within))]
        known = {number for number, _ in best}
        newest = self._store.recent(self._question.limit, within)
        return [*best, *((number, 0.0) for number in newest if number not in known)]

    def hits(self, lists: Mapping[str, Ranking]) -> list[Hit]:
        """The fused rankings, as hits."""
        noise = _noise(lists.get("vector", ()))
        found = self._fused(lists)
        for fused in found:
            fresh = _freshness(self._passages[fused.number], self._question)
            fused.score *= 1 + _FRESH_WEIGHT * fresh
            fused.places["recency"] = Place(0, fresh)
        found.sort(key=lambda fused: (-fused.score, -self._passages[fused.number].at, fused.number))
        best: dict[str, Fused] = {}
        for fused in found:
            best.setdefault(self._passages[fused.number].owner, fused)
        return [self._hit(fused, noise) for fused in list(best.values())[: self._question.limit]]

    def _fused(self, lists: Mapping[str, Ranking]) -> list[Fused]:
        numbers = dict.fromkeys(number for ranking in lists.values() for number, _ in ranking)
        unknown = [number for number in numbers if number not in self._passages]
        admitted = self._store.admitted(unknown, self._question.within)
        self._passages |= {passage.number: passage for passage in admitted}
        known = {
            name: [entry for entry in ranking if entry[0] in self._passages]
            for name, ranking in lists.items()
        }
        return fuse(known, self._weight(has_vectors="vector" in lists))

    def _weight(self, *, has_vectors: bool) -> Weight:
        def weight(name: str, number: int) -> float:
            if name == "time":
                return _TIME_WEIGHT
            return _TEXT_WEIGHT * self._share(number) if name == "text" and has_vectors else 1.0

        return weight

    def _share(self, number: int) -> float:
        """Of the question's telling terms."""
        return self._num_terms(number) / len(self._wanted) if self._wanted else 1.0

    def _num_terms(self, number: int) -> int:
        if number not in self._nums_terms:
            had = terms(self._passages[number].text) if self._wanted else ()
            self._nums_terms[number] = len(self._wanted.intersection(_KIN.get(term, term) for term in had))
        return self._nums_terms[number]

    def _hit(self, fused: Fused, noise: float | None) -> Hit:
        why = fused.places | {"terms": Place(0, self._share(fused.number))}
        if noise is not None and "vector" in why:
            why["lead"] = Place(0, why["vector"].value - noise)
        return Hit(self._passages[fused.number], fused.score, why, self._num_terms(fused.number))


def _query(text: str) -> TextQuery:
    """What to look for in full text, kin included."""
    asked = text_query(text).terms
    return TextQuery(tuple(dict.fromkeys((*asked, *(_KIN_OF[term] for term in asked if term in _KIN_OF)))))


def _num_wanted(question: Question) -> int:
    """How much is asked of each ranking."""
    return max(question.limit, min(question.limit * _OVERFETCH, _MOST_OVERFETCHED))


def _noise(ranking: Sequence[tuple[int, float]]) -> float | None:
    """The cosine that a text of this store has that has nothing to do with the question; None in a small store."""
    start, end = _FAR
    far = ranking[start:end]
    return sum(cosine for _, cosine in far) / len(far) if len(far) == end - start else None


def _newest(store: Passages, question: Question) -> list[Hit]:
    """By time alone; a time that the question names is a bound here."""
    if question.asked is not None:
        question = replace(question, within=narrowed(question.within, question.asked))
    passages = store.admitted(store.recent(_num_wanted(question), question.within), question.within)
    hits: dict[str, Hit] = {}
    for rank, passage in enumerate(passages, start=1):
        why = {"time": Place(rank, passage.at), "recency": Place(0, _freshness(passage, question))}
        hits.setdefault(passage.owner, Hit(passage, 1 / rank, why))
    return list(hits.values())[: question.limit]


def _freshness(passage: Passage, question: Question) -> float:
    if question.half_life_s is None:
        return 0.0
    return freshness(passage.at, question.now, question.half_life_s)
