"""Other engines' indexes, from their wheels; each is imported only in a Python that has it."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
from benchmarks.radix import stubs
from benchmarks.radix.prompts import Prompt, Prompts


class SGLang:
    """SGLang's RadixCache (Python), from tokens: arrays of int64 as it holds them, a tensor of slots."""

    def __init__(self, prompts: Prompts, page_size: int) -> None:
        stubs.install("sglang")
        import torch  # noqa: PLC0415
        from sglang.srt.mem_cache import radix_cache  # noqa: PLC0415

        torch.set_num_threads(1)
        self._module, self._torch = radix_cache, torch
        self._cache = radix_cache.RadixCache.create_simulated(page_size=page_size)

    def prepare(self, prompt: Prompt) -> Any:
        tokens = array("q", prompt.tokens.astype(np.int64).tobytes())
        return tokens, self._torch.arange(len(tokens))

    def match(self, ready: Any) -> int:
        found = self._module.MatchPrefixParams(key=self._module.RadixKey(ready[0]))
        return int(self._cache.match_prefix(found).device_prefix_len)

    def insert(self, ready: Any) -> None:
        self._cache.insert(self._module.InsertParams(key=self._module.RadixKey(ready[0]), value=ready[1]))

    def unseen_bytes(self) -> int:
        found, stack = 0, [self._cache.root_node]
        while stack:
            node = stack.pop()
            found += node.value.nbytes if len(node.value) else 0
            stack.extend(node.children.values())
        return found


class VLLM:
    """vLLM's BlockPool on ready block hashes: the look-up of its cache manager; allocate, cache and free."""

    def __init__(self, prompts: Prompts) -> None:
        stubs.install("vllm")
        import torch  # noqa: PLC0415
        from vllm.v1.core.block_pool import BlockPool  # noqa: PLC0415
        from vllm.v1.core.single_type_kv_cache_manager import FullAttentionManager  # noqa: PLC0415
        from vllm.v1.kv_cache_interface import FullAttentionSpec  # noqa: PLC0415

        self._size = prompts.block_tokens
        self._find = FullAttentionManager.find_longest_cache_hit
        self._spec = FullAttentionSpec(
            block_size=self._size, num_kv_heads=1, head_size=64, dtype=torch.float16
        )
        # The null block, and one: a pool must never run dry.
        self._pool = BlockPool(prompts.num_distinct + 2, enable_caching=True, hash_block_size=self._size)

    def prepare(self, prompt: Prompt) -> list[bytes]:
        return prompt.names

    def _hit(self, names: list[bytes]) -> Any:
        found, _ = self._find(
            names,
            max_length=len(names) * self._size,
            kv_cache_group_ids=[0],
            block_pool=self._pool,
            kv_cache_spec=self._spec,
            drop_eagle_block=False,
            alignment_tokens=self._size,
        )
        return found[0]

    def match(self, ready: list[bytes]) -> int:
        return len(self._hit(ready)) * self._size

    def insert(self, ready: list[bytes]) -> None:
        known = self._hit(ready)
        self._pool.touch(known)
        blocks = [*known, *self._pool.get_new_blocks(len(ready) - len(known))]
        request = SimpleNamespace(block_hashes=ready)
        self._pool.cache_full_blocks(request, blocks, len(known), len(blocks), self._size, 0)
        self._pool.free_blocks(reversed(blocks))

    def unseen_bytes(self) -> int:
        return 0


def vllm_hashers() -> dict[str, Callable[[list[int], int], list[bytes]]]:
    """vLLM's chained block hashes under each of its functions."""
    stubs.install("vllm")
    from vllm.utils import hashing  # noqa: PLC0415
    from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash  # noqa: PLC0415

    def made(function: Callable[[Any], bytes]) -> Callable[[list[int], int], list[bytes]]:
        def hashed(tokens: list[int], block_tokens: int) -> list[bytes]:
            request = SimpleNamespace(
                all_token_ids=tokens,
                num_tokens=len(tokens),
                block_hashes=[],
                mm_features=[],
                lora_request=None,
                cache_salt=None,
                prompt_embeds=None,
            )
            return get_request_block_hasher(block_tokens, function)(request)  # type: ignore[arg-type]

        return hashed

    init_none_hash(hashing.sha256)
    names = ("sha256", "sha256_cbor", "xxhash", "xxhash_cbor")
    return {f"vllm {name}": made(getattr(hashing, name)) for name in names}
