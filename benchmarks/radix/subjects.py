"""What is measured: ours, and a plain dictionary of block hashes."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from benchmarks.radix.prompts import Prompt, Prompts

from openclaw_cache.kv.hash_index import HashIndex
from openclaw_cache.kv.radix import RadixTree

BLOCK = 16


class Subject(Protocol):
    """An index. `prepare` is not timed: it brings a prompt into the form that the index takes."""

    def prepare(self, prompt: Prompt) -> object: ...

    def match(self, ready: object) -> int:
        """How many leading tokens are known."""

    def insert(self, ready: object) -> None: ...

    def unseen_bytes(self) -> int:
        """Memory that Python's allocators know nothing of."""


class Tree:
    """Our radix tree, from tokens."""

    def __init__(self, prompts: Prompts) -> None:
        self._tree = RadixTree(BLOCK)
        self._now = 0

    def prepare(self, prompt: Prompt) -> Prompt:
        return prompt

    def match(self, ready: Prompt) -> int:
        return self._tree.match(b"", ready.tokens).num_blocks * BLOCK

    def insert(self, ready: Prompt) -> None:
        self._now += 1
        self._tree.insert(b"", ready.tokens, ready.token_slots, now=self._now)

    def unseen_bytes(self) -> int:
        return 0


class Index:
    """Our index over ready block hashes."""

    def __init__(self, prompts: Prompts) -> None:
        self._index = HashIndex()
        self._block_tokens = prompts.block_tokens

    def prepare(self, prompt: Prompt) -> Prompt:
        return prompt

    def match(self, ready: Prompt) -> int:
        return self._index.match(ready.names).num_blocks * self._block_tokens

    def insert(self, ready: Prompt) -> None:
        self._index.insert(ready.names, ready.slots)

    def unseen_bytes(self) -> int:
        return 0


class Dictionary:
    """A dictionary of block hashes, walked from the front."""

    def __init__(self, prompts: Prompts) -> None:
        self._slots: dict[bytes, int] = {}
        self._block_tokens = prompts.block_tokens

    def prepare(self, prompt: Prompt) -> tuple[list[bytes], list[int]]:
        return prompt.names, prompt.slots.tolist()

    def match(self, ready: tuple[list[bytes], list[int]]) -> int:
        num = 0
        for name in ready[0]:
            if name not in self._slots:
                break
            num += 1
        return num * self._block_tokens

    def insert(self, ready: tuple[list[bytes], list[int]]) -> None:
        self._slots.update(zip(*ready, strict=True))

    def unseen_bytes(self) -> int:
        return 0


def random_tokens(num: int) -> np.ndarray:
    """Tokens to hash, the same in every process."""
    return np.random.default_rng(0).integers(0, 150_000, num).astype(np.int32)
