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
_BATCH = 20


@dataclass(frozen=True, slots=True)
class Prompt:
    """Tokens (int32 [n], whole blocks), the names of its blocks, and a slot for each of them and each 16 tokens."""

    tokens: NDArray[np.int32]
    names: list[bytes]
    slots: NDArray[np.int32]
    token_slots: NDArray[np.int32]


class Prompts:
    """The first requests of a trace.

    Attributes:
        block_tokens: of a block of the trace.
        num_distinct: blocks among them.
    """

    def __init__(self, trace: str, num_requests: int) -> None:
        loaded = TRACES[trace](data_folder(), "whole")
        self._paths = [request.ids for request in loaded.requests[:num_requests]]
        self.block_tokens = loaded.block_tokens
        self.num_distinct = len(np.unique(np.concatenate(self._paths)))
        self._num_ids = 1 + max(int(path.max()) for path in self._paths)
        self._names = hashlib.shake_256(b"names").digest(self._num_ids * _NAME_BYTES)

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
