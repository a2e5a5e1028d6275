"""Vectors of texts under an embedder, kept between runs in ~/.cache/openclaw-cache-bench."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from benchmarks.semantic.vectors import model

_FOLDER = Path.home() / ".cache/openclaw-cache-bench"
_SAVE_EVERY = 5_000


class Kept:
    """One embedder's vectors by text, as float16. Reads and writes `memory-NAME.npz`."""

    def __init__(self, embedder: str) -> None:
        self.embedder = embedder
        self._path = _FOLDER / f"memory-{embedder}.npz"
        self._keys: dict[bytes, int] = {}
        self._rows: list[npt.NDArray[np.float16]] = []
        if self._path.exists():
            with np.load(self._path) as stored:
                self._rows = list(stored["vectors"])
                self._keys = {bytes(key): row for row, key in enumerate(stored["keys"])}

    def of(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """One row per text, in order; embeds what is not known yet."""
        missing = list(dict.fromkeys(text for text in texts if _key(text) not in self._keys))
        loaded = model(self.embedder) if missing else None
        for done, text in enumerate(missing, start=1):
            assert loaded is not None
            self._keys[_key(text)] = len(self._rows)
            self._rows.append(loaded.encode(text).astype(np.float16))
            if done % _SAVE_EVERY == 0 or done == len(missing):
                print(f"{self.embedder}: embedded {done:,} of {len(missing):,}", file=sys.stderr, flush=True)
                self._save()
        return np.stack([self._rows[self._keys[_key(text)]] for text in texts]).astype(np.float32)

    def _save(self) -> None:
        _FOLDER.mkdir(parents=True, exist_ok=True)
        part = self._path.with_suffix(".part.npz")
        keys = np.frombuffer(b"".join(self._keys), np.uint8).reshape(-1, 16)
        np.savez(part, keys=keys, vectors=np.stack(self._rows))
        part.replace(self._path)


def _key(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=16).digest()
