"""What is recalled of itself, before a turn: how often for nothing, and how often what answers the question."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from datetime import UTC
from pathlib import Path

import numpy as np
import numpy.typing as npt
from benchmarks.memory.background import OTHER
from benchmarks.memory.stored import Stored, stored
from benchmarks.memory.vectors import Kept
from benchmarks.memory.world import LANGUAGES, NOW, Asked, Language, World, chatter, smaller

from openclaw_cache.memory.retrieval.background import Background, background_texts
from openclaw_cache.memory.retrieval.question import question
from openclaw_cache.memory.retrieval.relevance import relevant
from openclaw_cache.memory.retrieval.search import search

Rates = dict[str, dict[str, float]]
"""By language."""
_LIMIT = 40
_SHOWN = 10
_DRAWS = 20

BACKGROUNDS: dict[str, Callable[[Language], Sequence[str]]] = {
    "the background of the package": background_texts,
    "another background": OTHER.__getitem__,
}


def recalled(found: Stored, kept: Kept, questions: Sequence[Asked], background: Background) -> Rates:
    """Prompts of a hundred unrelated ones that recall something, and answers that are recalled."""
    rates = {}
    for language in LANGUAGES:
        idle = chatter(language)
        own = [asked for asked in questions if asked.language == language]
        lines = [
            len(_recall(found, background, text, row)) for text, row in zip(idle, kept.of(idle), strict=True)
        ]
        answered = [
            asked.answer in _recall(found, background, asked.text, row)
            for asked, row in zip(own, kept.of([asked.text for asked in own]), strict=True)
        ]
        rates[language] = {
            "false_of_100": 100 * float(np.mean([count > 0 for count in lines])),
            "false_lines": float(np.mean(lines)),
            "answers_recalled": float(np.mean(answered)),
        }
    return rates


def recalled_in_small(kept: Kept, num_memories: int, background: Background) -> Rates:
    """The mean over twenty stores of so few memories, drawn from all."""
    world = World()
    rates = []
    for seed in range(_DRAWS):
        memories, questions = smaller(world.memories, world.questions, num_memories, seed)
        with tempfile.TemporaryDirectory() as folder:
            rows = kept.of([written.text for written in memories])
            found = stored(Path(folder), kept.embedder, memories, rows)
            rates.append(recalled(found, kept, questions, background))
            found.store.close()
    return {
        language: {name: float(np.mean([each[language][name] for each in rates])) for name in own}
        for language, own in rates[0].items()
    }


def background_of(kept: Kept, texts: Callable[[Language], Sequence[str]]) -> Background:
    """The vectors of these texts."""
    return Background(kept.embedder, {language: list(kept.of(texts(language))) for language in LANGUAGES})


def _recall(found: Stored, background: Background, text: str, vector: npt.NDArray[np.float32]) -> list[str]:
    asked = question(text, NOW, UTC, vector=vector, limit=_LIMIT)
    hits = search(found.store, found.vectors, asked)
    return [hit.passage.owner for hit in relevant(hits, asked, background)][:_SHOWN]
