"""Block pool: which blocks of an arena are free, and how many holders each of the others has.

Only indices live here, no bytes: the same pool serves the device's tensors, host memory and the slots of a
file. Contiguous blocks can be read without a copy, so the pool hands out runs: the chunk, not the block, is the
unit of allocation.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final

import numpy as np

from openclaw_cache.errors import OpenClawCacheError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray


class Tier(IntEnum):
    """Where a block's bytes are, fastest first."""

    DEVICE = 0
    HOST = 1
    DISK = 2


NOWHERE: Final = -1
"""The slot number (int32) that means "in no slot"."""


class IntegrityError(OpenClawCacheError):
    """The books of the KV cache contradict each other: a bug, never a consequence of load or of a fault."""


class BlockPool:
    """Reference counts and free blocks of an arena of `num_blocks` blocks.

    A free block waits in its chunk; the chunks are sorted by their number of free blocks, so that new
    holders start in the emptiest one: wholly free chunks first, from their first block. Not thread-safe.

    Args:
        num_blocks: blocks of the arena; 0 makes a pool that never has room.
        chunk_blocks: blocks of a chunk; the last chunk may be shorter.
    """

    __slots__ = ("_chunk_blocks", "_chunks_by_free", "_filled", "_free", "_num_free", "_refs")

    def __init__(self, num_blocks: int, chunk_blocks: int = 32) -> None:
        if num_blocks < 0 or chunk_blocks < 1:
            raise ValueError(f"no pool of {num_blocks} blocks in chunks of {chunk_blocks}")
        self._chunk_blocks = chunk_blocks
        self._refs = np.zeros(num_blocks, np.int32)
        self._num_free = num_blocks
        # Per chunk a bit mask of its free blocks. Per number of free blocks the chunks that have as many (a dict
        # is an ordered set with removal in O(1)), and a bit mask of the numbers for which there is a chunk.
        self._free = [0] * -(-num_blocks // chunk_blocks)
        self._chunks_by_free: list[dict[int, None]] = [{} for _ in range(chunk_blocks + 1)]
        self._filled = 0
        # Backwards, because the chunk added last is taken first: the arena fills from its start, and what was
        # just freed (its pages are committed and warm) goes before what was never used.
        for chunk in reversed(range(len(self._free))):
            self._put(chunk, (1 << min(chunk_blocks, num_blocks - chunk * chunk_blocks)) - 1)

    @property
    def num_blocks(self) -> int:
        """Blocks of the arena."""
        return self._refs.size

    @property
    def num_free(self) -> int:
        """Blocks that nobody holds."""
        return self._num_free

    def num_refs(self, block: int) -> int:
        """Holders of a block; 0 where it is free."""
        return int(self._refs[self._checked(block)])

    def is_shared(self, block: int) -> bool:
        """Whether a block has more than one holder, so that writing into it needs a copy first."""
        return bool(self._refs[self._checked(block)] > 1)

    def take(self, num: int, after: int = NOWHERE) -> NDArray[np.int32] | None:
        """Take free blocks, each with one holder; all of them or, where there are too few, None.

        Args:
            num: how many.
            after: the holder's last block: the new ones continue right behind it in its chunk as far as those
                are free, so that a sequence that grows block by block stays one run.

        Returns:
            int32 [num], in the order in which they should be filled. Cost: O(1) per block.
        """
        # Plain integers: shifting by numpy's would make the masks numpy's too, and those overflow.
        num, after = int(num), int(after)
        if num < 0:
            raise ValueError(f"cannot take {num} blocks")
        if num > self._num_free:
            return None
        taken: list[int] = []
        if after != NOWHERE:
            chunk, bit = divmod(self._checked(after), self._chunk_blocks)
            self._take_run(chunk, bit + 1, num, taken)
        while len(taken) < num:
            neighbour = (taken[-1] if taken else after) // self._chunk_blocks + 1
            chunk = self._emptiest(neighbour)
            mask = self._free[chunk]
            self._take_run(chunk, (mask & -mask).bit_length() - 1, num, taken)
        blocks = np.array(taken, np.int32)
        self._refs[blocks] = 1
        self._num_free -= num
        return blocks

    def claim(self, blocks: NDArray[np.int32]) -> None:
        """Take these very blocks, each with one holder: what a file held before a restart. Cost: O(len(blocks)).

        Raises:
            ValueError: one of them is not free, is listed twice, or is not of this arena.
        """
        for block in blocks.tolist():
            chunk, bit = divmod(self._checked(block), self._chunk_blocks)
            if not self._free[chunk] >> bit & 1:
                raise ValueError(f"cannot claim block {block}: it is held")
            self._put(chunk, self._free[chunk] & ~(1 << bit))
            self._refs[block] = 1
            self._num_free -= 1

    def share(self, blocks: NDArray[np.int32]) -> None:
        """Add a holder to each block; a block that is listed twice gets two. Cost: O(len(blocks)).

        Raises:
            ValueError: a block is free or not of this arena; nothing has changed then.
        """
        self._check_held(blocks, "share")
        np.add.at(self._refs, blocks, 1)

    def release(self, blocks: NDArray[np.int32]) -> int:
        """Take a holder from each block and return how many blocks became free. Cost: O(len(blocks)).

        Raises:
            ValueError: a block is free (or has fewer holders than times it is listed) or not of this arena;
                nothing has changed then.
        """
        self._check_held(blocks, "release")
        np.subtract.at(self._refs, blocks, 1)
        left = self._refs[blocks]
        if left.size and left.min() < 0:
            np.add.at(self._refs, blocks, 1)
            raise ValueError(f"cannot release block {blocks[left.argmin()]} more often than it is held")
        freed: dict[int, int] = {}
        for block in set(blocks[left == 0].tolist()):
            chunk, bit = divmod(block, self._chunk_blocks)
            freed[chunk] = freed.get(chunk, 0) | 1 << bit
        for chunk, mask in freed.items():
            self._put(chunk, self._free[chunk] | mask)
        num_freed = sum(mask.bit_count() for mask in freed.values())
        self._num_free += num_freed
        return num_freed

    def check_integrity(self, held: Mapping[int, int] | NDArray[np.integer]) -> None:
        """Compare the books with what the holders say. Cost: O(num_blocks); for idle times and tests.

        Args:
            held: per block the number of holders that name it: a mapping of those above 0, or an array
                [num_blocks].

        Raises:
            IntegrityError: a count differs from the holders', the free lists contradict the counts, or free and
                held blocks do not add up to the arena.
        """
        counts = self._as_counts(held)
        if (wrong := np.flatnonzero(counts != self._refs)).size:
            block = int(wrong[0])
            raise IntegrityError(
                f"block {block} is held {counts[block]} times and counted {self._refs[block]} times"
                f" ({wrong.size} such blocks)"
            )
        for chunk, mask in enumerate(self._free):
            first = chunk * self._chunk_blocks
            is_free = self._refs[first : first + self._chunk_blocks] == 0
            if mask != int.from_bytes(np.packbits(is_free, bitorder="little").tobytes(), "little"):
                raise IntegrityError(f"the free blocks of chunk {chunk} are not those without a holder")
        num_held = int(np.count_nonzero(self._refs))
        if self._num_free + num_held != self.num_blocks:
            raise IntegrityError(f"{self._num_free} free + {num_held} held blocks are not {self.num_blocks}")
        listed = sorted(self._listed())
        expected = sorted((chunk, mask.bit_count()) for chunk, mask in enumerate(self._free) if mask)
        filled = sum(1 << num for num, chunks in enumerate(self._chunks_by_free) if chunks)
        if listed != expected or filled != self._filled:
            raise IntegrityError("the lists of chunks with free blocks contradict the chunks")

    def _listed(self) -> Iterator[tuple[int, int]]:
        for num_free, chunks in enumerate(self._chunks_by_free):
            for chunk in chunks:
                yield chunk, num_free

    def _as_counts(self, held: Mapping[int, int] | NDArray[np.integer]) -> NDArray[np.integer]:
        if isinstance(held, np.ndarray):
            if held.shape != self._refs.shape:
                raise IntegrityError(f"holders of {held.shape} blocks, the arena has {self.num_blocks}")
            return held
        counts = np.zeros(self.num_blocks, np.int64)
        for block, count in held.items():
            if not 0 <= block < self.num_blocks:
                raise IntegrityError(f"block {block} is held, the arena has {self.num_blocks}")
            counts[block] = count
        return counts

    def _checked(self, block: int) -> int:
        # A negative index would silently mean a block at the arena's end.
        if not 0 <= block < self.num_blocks:
            raise ValueError(f"no block {block} in an arena of {self.num_blocks}")
        return block

    def _check_held(self, blocks: NDArray[np.int32], verb: str) -> None:
        if not blocks.size:
            return
        self._checked(int(blocks.min()))
        self._checked(int(blocks.max()))
        refs = self._refs[blocks]
        if not refs.all():
            raise ValueError(f"cannot {verb} block {blocks[refs.argmin()]}: it is free")

    def _emptiest(self, neighbour: int) -> int:
        """The chunk with the most free blocks; `neighbour`, where it is one of them, continues the run."""
        chunks = self._chunks_by_free[self._filled.bit_length() - 1]
        if neighbour in chunks:
            return neighbour
        # Not next(reversed()), which would walk over removed keys again and again.
        chunk, _ = chunks.popitem()
        chunks[chunk] = None
        return chunk

    def _take_run(self, chunk: int, bit: int, num: int, taken: list[int]) -> None:
        """Append the free blocks from `bit` on, up to the first held one or until `taken` has `num`."""
        rest = self._free[chunk] >> bit
        run = min((~rest & (rest + 1)).bit_length() - 1, num - len(taken))
        if not run:
            return
        first = chunk * self._chunk_blocks + bit
        taken.extend(range(first, first + run))
        self._put(chunk, self._free[chunk] & ~(((1 << run) - 1) << bit))

    def _put(self, chunk: int, mask: int) -> None:
        """Set a chunk's free blocks and list it under their number."""
        if old := self._free[chunk].bit_count():
            chunks = self._chunks_by_free[old]
            del chunks[chunk]
            if not chunks:
                self._filled &= ~(1 << old)
        self._free[chunk] = mask
        if new := mask.bit_count():
            self._chunks_by_free[new][chunk] = None
            self._filled |= 1 << new
