"""The semantic cache: which stored replies may answer a question that was asked in other words.

It owns no reply: it knows entries of the result cache by what they were asked, and returns their keys.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np
from blake3 import blake3

from openclaw_cache.embedding.batching import BatchingEmbedder
from openclaw_cache.embedding.embedder import Vector
from openclaw_cache.semantic.domains import DEFAULT, Domains
from openclaw_cache.semantic.learning import SIMILARITY, Learning
from openclaw_cache.semantic.partitions import Partitions, Row
from openclaw_cache.semantic.reading import Reading, read
from openclaw_cache.semantic.scoring import Scorer
from openclaw_cache.semantic.validity import Check, Pair, Verdict
from openclaw_cache.types import CacheKey, Entry, Likeness, Namespace

NUM_CANDIDATES: Final = 5
"""How many of the nearest are judged: the nearest one may be refused by a guard, and the next be right."""


NUM_READINGS: Final = 4096


@dataclass(frozen=True, slots=True)
class Asked:
    """A question as the cache understands it."""

    reading: Reading
    vector: Vector
    domain: str
    kind: CacheKey
    partition: bytes
    is_strict: bool = False
    ruled_by: str = ""
    """The domain whose rules count, where that is another one: a name of a caller's own making is no way round them."""

    def likeness(self, embedder: str) -> Likeness:
        """What a reply to it is to be found by."""
        return Likeness(
            question=self.reading.text,
            kind=self.kind,
            embedder=embedder,
            vector=self.vector.astype("<f2").tobytes(),
            domain=self.domain,
        )


@dataclass(frozen=True, slots=True)
class Candidate:
    """A stored question near to the one asked, and what the checks say."""

    row: Row
    pair: Pair
    score: float
    verdicts: Sequence[Verdict]

    @property
    def passes(self) -> bool:
        """Whether its reply may answer."""
        return all(verdict.passes for verdict in self.verdicts)

    @property
    def limit(self) -> float | None:
        """The score that it needs, where likeness was looked at."""
        return next((verdict.limit for verdict in self.verdicts if verdict.check == SIMILARITY), None)

    @property
    def refusal(self) -> str:
        """The first check that refuses it; empty where none does."""
        return next((verdict.check for verdict in self.verdicts if not verdict.passes), "")


class SemanticCache:
    """Finds and judges. Knows no clock; the only thing it waits for is the embedder.

    Args:
        embedder: Turns questions into vectors.
        fingerprint: Names the embedder: vectors of another one are never compared with its own.
        num_dims: Length of its vectors.
        partitions: Where they are kept, apart from each other where anything but the question differs.
        guards: Objections that no likeness outweighs.
        scorer: How alike two questions are, on the calibrated scale.
        learning: How alike they must be, by domain and by what was learnt.
        domains: What domain a question belongs to, where its caller does not say; None = all are of one.
    """

    def __init__(
        self,
        embedder: BatchingEmbedder,
        fingerprint: str,
        num_dims: int,
        partitions: Partitions,
        guards: Sequence[Check],
        scorer: Scorer,
        learning: Learning,
        domains: Domains | None = None,
    ) -> None:
        self.embedder = embedder
        self.fingerprint = fingerprint
        self.num_dims = num_dims
        self.partitions = partitions
        self.learning = learning
        self.outdated: dict[CacheKey, Entry] = {}
        """Entries with vectors of another embedder, which find nothing until `renewed`."""
        self._scorer = scorer
        self._guards = guards
        self._domains = domains
        # A reading takes several times the room of a row, and 100 µs to make: those of late candidates are kept.
        self._read = functools.lru_cache(NUM_READINGS)(_reading_of)

    async def understand(
        self, question: str, kind: CacheKey, namespace: Namespace, *, domain: str | None, is_strict: bool
    ) -> Asked | None:
        """Read and embed a question; None where it is too long for the model to read all of it.

        Args:
            question: Its text.
            kind: Names all else in its request (`Keyer.key` of the rest).
            namespace: Whose it is: what others asked makes it no faster.
            domain: Where the caller names it.
            is_strict: Whether the caller wants to be surer than the operator.

        Raises:
            EmbeddingError: it has no vector now.
        """
        vector = await self.embedder.embed_one(question, namespace.encode())
        if vector is None:
            return None
        found = DEFAULT if self._domains is None else self._domains.find(vector)
        name = domain or found
        ruled_by = found if self.learning.known(name) == DEFAULT else name
        return Asked(read(question), vector, name, kind, self.partition(kind, name), is_strict, ruled_by)

    async def candidates(self, asked: Asked, now: float) -> list[Candidate]:
        """The nearest stored questions, nearest first, each with its verdicts.

        Cost: a search of one partition (1 ms for 10,000 rows; of a large one on a thread), and some 100 µs a candidate.
        """
        search = functools.partial(
            self.partitions.nearest, asked.partition, asked.vector, NUM_CANDIDATES, now
        )
        found = await asyncio.to_thread(search) if self.partitions.is_slow(asked.partition) else search()
        return [self._judge(asked, row, cosine, now) for row, cosine in found]

    def kept(self, key: CacheKey, entry: Entry) -> None:
        """An entry of the result cache is there (`result.cache.Follower`)."""
        likeness = entry.likeness
        if likeness is None or likeness.embedder != self.fingerprint:
            self.partitions.remove(key)
            if likeness is not None:
                self.outdated[key] = entry
            return
        self.outdated.pop(key, None)
        vector = np.frombuffer(likeness.vector, "<f2").astype(np.float32)
        length = float(np.linalg.norm(vector))
        if vector.shape != (self.num_dims,) or not 0.5 < length < 2:
            return  # what was stored by other rules is not found, and does no harm
        row = Row(
            key=key,
            partition=self.partition(likeness.kind, likeness.domain),
            question=likeness.question,
            domain=likeness.domain,
            namespace=entry.namespace,
            model=entry.model,
            created_at=entry.created_at,
            expires_at=entry.expires_at,
        )
        self.partitions.add(row, vector / np.float32(length))

    def gone(self, key: CacheKey) -> None:
        """An entry of the result cache is no more."""
        self.partitions.remove(key)
        self.outdated.pop(key, None)
        self.learning.entries.forget(key)

    async def rebuild(self, stored: AsyncIterator[tuple[CacheKey, Entry]]) -> int:
        """Take up what is stored. Returns how many questions are known then. Raises what reading the store raises."""
        async for key, entry in stored:
            if entry.likeness is not None:
                self.kept(key, entry)
        return self.partitions.num_rows

    async def renewed(self) -> AsyncIterator[tuple[CacheKey, Entry]]:
        """Give each entry that another embedder's vector finds one of this embedder's, one at a time.

        Its owner stores it. Raises EmbeddingError; what is left then stays for another time.
        """
        while self.outdated:
            key, entry = next(iter(self.outdated.items()))
            likeness = entry.likeness
            vector = None
            if likeness is not None:
                vector = await self.embedder.embed_one(likeness.question, entry.namespace.encode())
            self.outdated.pop(key, None)
            if likeness is not None and vector is not None:
                fresh = Likeness(
                    question=likeness.question,
                    kind=likeness.kind,
                    embedder=self.fingerprint,
                    vector=vector.astype("<f2").tobytes(),
                    domain=likeness.domain,
                )
                yield key, msgspec.structs.replace(entry, likeness=fresh)

    def _judge(self, asked: Asked, row: Row, cosine: float, now: float) -> Candidate:
        age_s = max(0.0, now - row.created_at)
        domain = asked.ruled_by or asked.domain
        pair = Pair(asked.reading, self._read(row.key, row.question), cosine, domain, age_s)
        score = self._scorer.score(pair)
        verdicts = [guard.verdict(pair) for guard in self._guards]
        verdicts += self.learning.verdicts(pair, row.key, score, is_strict=asked.is_strict)
        return Candidate(row, pair, score, verdicts)

    def partition(self, kind: bytes, domain: str) -> bytes:
        """Where questions of a kind and domain are compared, and only with vectors of this embedder."""
        named = b"%b%d:%b%b" % (kind, len(domain), domain.encode(), self.fingerprint.encode())
        return blake3(named).digest(16)


def _reading_of(_key: CacheKey, question: str) -> Reading:
    """By key too: what one tenant's candidates were makes nothing faster for another."""
    return read(question)
