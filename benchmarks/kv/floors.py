"""What a warm prompt cannot be faster than: one token's forward pass at that context, and copying its bytes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from benchmarks.kv.driving import Driven, Place
from numpy.typing import NDArray
from transformers import DynamicCache

from openclaw_cache.engine.plan import Segment
from openclaw_cache.kv.block import NOWHERE, Tier


def timed(function: Callable[[], object]) -> float:
    """Seconds that a call takes."""
    began_at = time.perf_counter()
    function()
    return time.perf_counter() - began_at


async def own_forward_s(driven: Driven, prompt: list[int]) -> float:
    """Our forward pass of a prompt's last token over the blocks that hold the others, nothing around it.

    The others must fill whole blocks on the device.
    """
    tokens = np.array(prompt, np.int32)
    cache = driven.engine.loop.cache
    runner = driven.engine.loop._runner  # the pass itself, without scheduler and cache

    def run() -> float:
        table = cache.tree.match(b"", tokens).slots()[Tier.DEVICE]
        spare = cache.device.take(1, NOWHERE)
        if (
            spare is None
            or len(table) * cache.tree.block_tokens != len(tokens) - 1
            or (table == NOWHERE).any()
        ):
            raise RuntimeError("the prompt is not on the device")
        segment = Segment(tokens[-1:], len(tokens) - 1, np.append(table, spare))
        try:
            return timed(lambda: runner.forward([segment]))
        finally:
            cache.device.release(spare)

    return await driven.call(run)


class Peer:
    """transformers' own forward pass of one token, with its `DynamicCache` and its default attention.

    The cached values are random: the time does not depend on them.
    """

    def __init__(self, place: Place) -> None:
        self._network = place.load().network
        self._caches: dict[int, Any] = {}

    @torch.inference_mode()
    def forward_s(self, num_tokens: int) -> float:
        """Seconds for one token after `num_tokens` others."""
        if num_tokens not in self._caches:
            self._caches[num_tokens] = self._filled(num_tokens)
        cache = self._caches[num_tokens]
        ids = torch.tensor([[1]])
        took_s = timed(lambda: self._network(input_ids=ids, cache=cache, use_cache=True))
        cache.crop(-1)
        return took_s

    def _filled(self, num_tokens: int) -> Any:
        config = self._network.config
        head_dim = config.hidden_size // config.num_attention_heads
        cache = DynamicCache(config=config)
        for layer in range(config.num_hidden_layers):
            keys, values = torch.randn(2, 1, config.num_key_value_heads, num_tokens, head_dim)
            cache.update(keys, values, layer)
        return cache


def memcpy_s(source: NDArray[np.uint8], target: NDArray[np.uint8]) -> float:
    """Seconds to copy bytes from one array into another, both touched before."""
    return timed(lambda: np.copyto(target, source))
