"""Prompts as paths of blocks: of tokens where there is a tokenizer, else of as many bytes as make so many tokens.

A block's id is a hash of 64 bits over its content and the id of the block before it, from the model's name on: models
share nothing. Only whole blocks have an id, as in an engine.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import numpy as np

from openclaw_cache.kv.rhythm import Hint
from openclaw_cache.prefix.outline import Outline
from openclaw_cache.prefix.tokens import ASCII_BYTES_PER_TOKEN
from openclaw_cache.simulation.request import Request

Encode: TypeAlias = Callable[[str], Sequence[int]]

BLOCK_TOKENS: Final = 16
_TOKEN_BYTES: Final = 4
_MOST_KEPT: Final = 4096


class PromptBlocks:
    """Turns prompts into requests of a trace.

    Args:
        block_tokens: tokens of a block.
        encode: token ids of a text; None goes by bytes.

    Attributes:
        unit_bytes: what makes a token here: of text, where it goes by bytes; of a token's number, where it does not.
    """

    def __init__(self, block_tokens: int = BLOCK_TOKENS, encode: Encode | None = None) -> None:
        self.block_tokens = block_tokens
        self._encode = encode
        self._block_bytes = (
            block_tokens * _TOKEN_BYTES if encode else round(block_tokens * ASCII_BYTES_PER_TOKEN)
        )
        self.unit_bytes = self._block_bytes / block_tokens
        self._encoded: OrderedDict[str, bytes] = OrderedDict()

    def request(
        self, prompt: Outline, at: float, *, session: str = "", place: str = "", hint: Hint = Hint.NONE
    ) -> Request:
        """The request of a prompt. Cost: O(size); a part that was tokenised lately is not tokenised again."""
        content = b"".join(self._bytes(part.text) for part in prompt.parts)
        size, view = self._block_bytes, memoryview(content)
        name = hashlib.blake2b(prompt.model.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        names = []
        for start in range(0, len(content) - size + 1, size):
            digest = hashlib.blake2b(name, digest_size=8)
            digest.update(view[start : start + size])
            name = digest.digest()
            names.append(name)
        ids = np.frombuffer(b"".join(names), np.int64)
        return Request(at, ids, round(len(content) / self.unit_bytes), hint, session, place)

    def _bytes(self, text: str) -> bytes:
        if self._encode is None:
            return text.encode("utf-8", "surrogatepass") + b"\n"
        found = self._encoded.get(text)
        if found is None:
            found = np.asarray(self._encode(text), np.int32).tobytes()
            self._encoded[text] = found
            if len(self._encoded) > _MOST_KEPT:
                self._encoded.popitem(last=False)
        return found
