"""How much of prompts a prefix cache of a size would have had, asked for in an order."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

BLOCK_BYTES: Final = 64
"""About 16 tokens: what is reused is whole blocks."""


@dataclass(frozen=True, slots=True)
class Reuse:
    """Of some prompts, in bytes."""

    num_bytes: int
    reused_bytes: int

    @property
    def ratio(self) -> float:
        """Reused of all, 0 to 1."""
        return self.reused_bytes / self.num_bytes if self.num_bytes else 0.0


def predicted(prompts: Iterable[bytes], capacity_blocks: int | None, block_bytes: int = BLOCK_BYTES) -> Reuse:
    """What a cache of so many blocks has of each prompt when it comes, the least recently used blocks giving way.

    A block is a prompt's beginning up to its end. A prompt uses its blocks from the last to the first, so the ends of
    prompts go before what they share, as in a radix tree. None means room for all. Cost: O(blocks).
    """
    held: OrderedDict[int, None] = OrderedDict()
    num_bytes = reused = 0
    for prompt in prompts:
        names = _blocks(prompt, block_bytes)
        num_held = 0
        while num_held < len(names) and names[num_held] in held:
            num_held += 1
        num_bytes += len(prompt)
        reused += num_held * block_bytes
        if capacity_blocks is not None:
            del names[capacity_blocks:]
        for name in reversed(names):
            held[name] = None
            held.move_to_end(name)
        while capacity_blocks is not None and len(held) > capacity_blocks:
            held.popitem(last=False)
    return Reuse(num_bytes, reused)


def _blocks(prompt: Sequence[int] | bytes, block_bytes: int) -> list[int]:
    """Names of a prompt's whole blocks: each is hashed with all before it."""
    names: list[int] = []
    name = 0
    view = memoryview(bytes(prompt))
    for end in range(block_bytes, len(view) + 1, block_bytes):
        name = hash((name, bytes(view[end - block_bytes : end])))
        names.append(name)
    return names
