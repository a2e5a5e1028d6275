"""An engine whose "model" is arithmetic: its K/V are the token ids themselves, so a wrong block gives a wrong reply."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from openclaw_cache.engine.arena import Arena
from openclaw_cache.engine.plan import Segment
from openclaw_cache.kv.block import BlockPool, Tier
from openclaw_cache.kv.cache import PrefixCache
from openclaw_cache.kv.disk import DiskStore
from openclaw_cache.kv.eviction import LRU
from openclaw_cache.kv.lower import LowerTiers, Write
from openclaw_cache.kv.movement import Movement
from openclaw_cache.kv.radix import RadixTree
from openclaw_cache.kv.tiers import HostStore, TierStore
from support.kv_blocks import CODEC, IDENTITY, LAYOUT

BLOCK = LAYOUT.block_tokens  # 4 tokens
VOCABULARY = 64


def next_token(tokens: Sequence[int] | NDArray[np.integer]) -> int:
    """What follows these tokens; every token and its position count."""
    ids = np.asarray(tokens, np.int64)
    weights = (np.arange(1, len(ids) + 1, dtype=np.int64) * 7919 + 104_729) % 99_991
    return int((ids + 1) @ weights % 99_991 % VOCABULARY)


def reply_to(prompt: Sequence[int], num_tokens: int) -> list[int]:
    """The greedy reply, without any cache."""
    tokens = list(prompt)
    for _ in range(num_tokens):
        tokens.append(next_token(tokens))
    return tokens[len(prompt) :]


class ToyModel:
    """Says each token as its number and a blank, or as `texts` has it. `ends` are the tokens that end a reply."""

    def __init__(self, ends: frozenset[int] = frozenset()) -> None:
        self.ends = ends
        self.breaks_at: int | None = None
        """A token that cannot be decoded."""
        self.texts: dict[int, str] = {}

    def decode(self, tokens: Sequence[int]) -> str:
        return "".join(self.texts.get(token, f"{token} ") for token in tokens)

    def decode_steps(self) -> Callable[[int], str | None]:
        def step(token: int) -> str:
            if token == self.breaks_at:
                raise ValueError("a token that cannot be decoded")
            return self.decode([token])

        return step


class ToyRunner:
    """Writes each token's id as its K/V and answers from what it reads back through the block tables.

    Attributes:
        steps: of each step, the number of tokens of each segment.
        before: called at the beginning of a step.
    """

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self.steps: list[list[int]] = []
        self.before: Callable[[Sequence[Segment]], None] = lambda _segments: None

    def forward(
        self, segments: Sequence[Segment], wait_layer: Callable[[int], None] | None = None
    ) -> torch.Tensor:
        self.before(segments)
        self.steps.append([len(segment.tokens) for segment in segments])
        written = [slots_of(s.table, s.start, s.start + len(s.tokens)) for s in segments]
        all_slots = torch.cat(written)
        assert len(all_slots.unique()) == len(all_slots), "two segments write one slot"
        for layer in range(LAYOUT.num_layers):
            if wait_layer is not None:
                wait_layer(layer)
            for slots, segment in zip(written, segments, strict=True):
                values = torch.from_numpy(segment.tokens).float()[:, None, None]
                self._arena.keys_values(layer)[:, slots] = values
        logits = torch.zeros(len(segments), VOCABULARY)
        for i, segment in enumerate(segments):
            context = slots_of(segment.table, 0, segment.start + len(segment.tokens))
            read = self._arena.keys_values(LAYOUT.num_layers - 1)[1, context, -1, -1]
            logits[i, next_token(read.numpy())] = 1.0
        return logits


def slots_of(table: NDArray[np.int32], start: int, end: int) -> torch.Tensor:
    positions = np.arange(start, end)
    return torch.from_numpy(table[positions // BLOCK].astype(np.int64) * BLOCK + positions % BLOCK)


def toy_cache(
    num_blocks: int,
    *,
    reserve_blocks: int = 0,
    host_slots: int = 0,
    disk: Path | None = None,
    write: Write = "through",
    is_enabled: bool = True,
    wake: Callable[[], None] = lambda: None,
) -> tuple[PrefixCache, Arena]:
    """A prefix cache and the arena it manages; all parts are the real ones."""
    arena = Arena(LAYOUT, num_blocks, torch.float32, "cpu")
    stores: dict[Tier, TierStore] = {}
    if host_slots:
        stores[Tier.HOST] = HostStore(host_slots, CODEC)
    if disk is not None:
        stores[Tier.DISK] = DiskStore.open(disk, CODEC, IDENTITY, 10_000_000)
    movement = Movement(arena, CODEC, stores, clock=time.monotonic, wake=wake)
    tree, device = RadixTree(BLOCK), BlockPool(num_blocks, 8)
    sizes = {tier: store.num_slots for tier, store in stores.items()}
    lower = LowerTiers(tree, device, movement, sizes, IDENTITY, LRU(), write)
    if isinstance(kept := stores.get(Tier.DISK), DiskStore):
        lower.restore(kept.recover())
    cache = PrefixCache(
        tree, device, lower, movement, arena, CODEC,
        is_enabled=is_enabled, reserve_blocks=reserve_blocks,
    )  # fmt: skip
    return cache, arena
