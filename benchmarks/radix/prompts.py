"""The prompts of a trace, as token ids and as ready block hashes.

A block of the trace becomes as many random tokens as it has, always the same for the same block; its name stands
in for the chained hash. Both are made anew for each prompt, as a server would have them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from benchmarks.eviction.traces import TRACES, data_folder
from numpy.typing import NDArray

_VOCABULARY = 150_000
_NAME_BYTES = 32
_BATCH = 100


@dataclass(frozen=True, slots=True)
class Prompt:
    """Tokens (int32 [n], whole blocks), the names of its blocks, and a slot for each of them and each 16 tokens."""

    tokens: NDArray[np.int32]
    names: list[bytes]
    slots: NDArray[np.int32]
    token_slots: NDArray[np.int32]


class Prompts:
    """Requests of a trace.

    Args:
        paths: the ids of each one's blocks.
        block_tokens: of a block of the trace.

    Attributes:
        num_distinct: blocks among them.
    """

    def __init__(self, paths: list[NDArray[np.int32]], block_tokens: int) -> None:
        self._paths = paths
        self.block_tokens = block_tokens
        self.num_distinct = len(np.unique(np.concatenate(paths)))
        self._num_ids = 1 + max(int(path.max()) for path in paths)
        self._names = hashlib.shake_256(b"names").digest(self._num_ids * _NAME_BYTES)

    @classmethod
    def of_trace(cls, trace: str, num_requests: int) -> Prompts:
        """The first requests of a trace. Cost: reads the whole trace, up to a minute."""
        loaded = TRACES[trace](data_folder(), "whole")
        return cls([request.ids for request in loaded.requests[:num_requests]], loaded.block_tokens)

    @classmethod
    def load(cls, file: str) -> Prompts:
        """What `save` has written."""
        with np.load(file) as held:
            return cls(np.split(held["ids"], held["ends"][:-1]), int(held["block_tokens"]))

    def save(self, file: str) -> None:
        """Write them for other processes (.npz)."""
        ends = np.cumsum([len(path) for path in self._paths])
        np.savez(file, ids=np.concatenate(self._paths), ends=ends, block_tokens=self.block_tokens)

    def first(self, num: int) -> Prompts:
        """The first `num` of them."""
        return Prompts(self._paths[:num], self.block_tokens)

    def __len__(self) -> int:
        return len(self._paths)

    @property
    def mean_blocks(self) -> float:
        """Blocks of a prompt."""
        return sum(map(len, self._paths)) / len(self._paths)

    def batches(self) -> Iterator[list[Prompt]]:
        """The prompts in order, some at a time: the tokens of all would not fit into memory."""
        for first in range(0, len(self._paths), _BATCH):
            yield [self._prompt(ids) for ids in self._paths[first : first + _BATCH]]

    def _prompt(self, ids: NDArray[np.int32]) -> Prompt:
        places = ids.astype(np.uint64)[:, None] * self.block_tokens + np.arange(
            self.block_tokens, dtype=np.uint64
        )
        mixed = (places + 1) * np.uint64(0x9E3779B97F4A7C15)
        tokens = ((mixed >> np.uint64(33)) % _VOCABULARY).astype(np.int32).ravel()
        table = self._names
        names = [table[at : at + _NAME_BYTES] for at in (ids.astype(np.int64) * _NAME_BYTES).tolist()]
        num_slots = len(tokens) // 16
        return Prompt(
            tokens, names, np.arange(len(ids), dtype=np.int32), np.arange(num_slots, dtype=np.int32)
        )
