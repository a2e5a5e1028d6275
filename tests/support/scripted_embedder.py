"""An embedder whose failures are scripted. Its vectors say which words a text has, so likeness is by hand."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence

import numpy as np

from openclaw_cache.embedding.embedder import Vector
from openclaw_cache.errors import EmbeddingError
from openclaw_cache.memory.retrieval.background import background_texts

NUM_DIMS = 64
BACKGROUND = {*background_texts("en"), *background_texts("zh")}


class ScriptedEmbedder:
    """Counts what it is asked, the background apart, which passes any gate.

    Fails while `is_down`, on texts with `poison`, and waits while `gate` is closed.
    """

    max_batch = 1
    num_dims = NUM_DIMS

    def __init__(self, fingerprint: str = "scripted:1") -> None:
        self.fingerprint = fingerprint
        self.asked: list[str] = []
        self.is_down = False
        self.poison = "\0"
        self.num_starts = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def start(self) -> None:
        self.num_starts += 1
        if self.is_down:
            raise EmbeddingError("down")

    async def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        asked = [text for text in texts if text not in BACKGROUND]
        self.asked += asked
        if asked:
            await self.gate.wait()
        if self.is_down or any(self.poison in text for text in texts):
            raise EmbeddingError("down")
        return [vector_of(text) for text in texts]

    async def aclose(self) -> None:
        pass


def vector_of(text: str) -> Vector:
    """One number for each word, by its hash: equal words, equal vectors."""
    vector = np.zeros(NUM_DIMS, np.float32)
    for word in text.lower().split():
        vector[hashlib.sha256(word.encode()).digest()[0] % NUM_DIMS] += 1
    norm = float(np.linalg.norm(vector))
    return vector / norm if norm else np.ones(NUM_DIMS, np.float32) / np.sqrt(np.float32(NUM_DIMS))
