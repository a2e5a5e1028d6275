"""Block hashes: names of blocks that mean the same in every process and on every host.

A hash is chained: it covers the parent's hash and so every token before the block, the namespace's salt and
the model that computed the KV. Models and roots are named by BLAKE3 under a context of its own, every field behind
its length. A block is named by SHA-256 of a header that says what follows and how long it is, the parent's hash, the
tokens, and what else the block holds:

    header    context (48 bytes, zeros at the end), then 4 little-endian uint32: bytes of the parent's hash, bytes of
              the tokens, variant, number of contents
    parent    32 bytes
    tokens    little-endian int32
    contents  each: offset (uint32), length (uint32), that many bytes

64 bytes are one step of SHA-256, so the header is computed once and then copied: a block of 16 tokens takes two steps.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np
from blake3 import blake3

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

HASH_BYTES: Final = 32

_CONTEXT: Final = "openclaw-cache 2026-11 kv block"
_BLOCK_CONTEXT: Final = b"openclaw-cache 2026-12 kv block".ljust(48, b"\0")
_TOKEN_BYTES: Final = 4
_MAX_VARIANT: Final = 255


@dataclass(frozen=True, slots=True)
class ModelIdentity:
    """Everything about a model that decides what its KV for given tokens is.

    Attributes:
        fingerprint: of the weights.
        kv_dtype: to which K and V are rounded, and the storage codec where it loses more.
        layout: order and shape of a block's values.
        rope: kind and parameters of the position encoding.
        adapter: of a LoRA or the like; empty for none.
    """

    fingerprint: str
    kv_dtype: str
    layout: str
    rope: str
    adapter: str = ""

    def digest(self) -> bytes:
        """32 bytes that stand for all fields."""
        named = [(field.name.encode(), getattr(self, field.name).encode()) for field in fields(self)]
        return _hash(b"model", *(part for pair in named for part in pair))


def root_hash(salt: bytes, identity: ModelIdentity, block_tokens: int) -> bytes:
    """The parent (32 bytes) of every first block of a namespace (`salt`) under a model."""
    return _hash(b"root", salt, identity.digest(), block_tokens.to_bytes(4, "little"))


def block_hash(
    parent: bytes, tokens: NDArray[np.int32], *, variant: int = 0, contents: Sequence[tuple[int, bytes]] = ()
) -> bytes:
    """The name (32 bytes) of one block.

    Args:
        parent: hash of the block before, or the root's; 32 bytes.
        tokens: int32 [block_tokens].
        variant: 0 where all KV before was exact, 1 where the block was computed on a lossy prefix (0-255).
        contents: (offset in the block, hash of the content) of each image or the like whose first token stands
            in this block, by rising offset. Its further blocks are covered by the chain.

    Cost: O(len(tokens)); 1 µs for 16 tokens.

    Raises:
        ValueError: an argument breaks the rules above; token ids of another dtype could lose bits.
    """
    _check_parent(parent)
    return _block_hash(parent, _token_bytes(tokens), variant, contents)


def chain(
    root: bytes,
    tokens: NDArray[np.int32],
    block_tokens: int,
    variants: Sequence[int] | None = None,
    contents: Sequence[tuple[int, bytes]] = (),
) -> list[bytes]:
    """The names of all full blocks of `tokens`; a remainder has none.

    Args:
        root: hash that the first block hangs on: the root's, or any block's to continue from there.
        tokens: int32 [num_tokens].
        block_tokens: tokens of a block.
        variants: per full block as in `block_hash`; all 0 where None.
        contents: as in `block_hash`, with offsets in `tokens`.

    Cost: O(len(tokens)); 0.4 µs per block of 16, 7 µs per block of 512.
    """
    num_blocks = tokens.size // block_tokens
    if variants is None:
        variants = bytes(num_blocks)
    elif len(variants) != num_blocks:
        raise ValueError(f"{len(variants)} variants for {num_blocks} blocks")
    _check_parent(root)
    raw, size = _token_bytes(tokens), block_tokens * _TOKEN_BYTES
    by_block = _per_block(contents, block_tokens)
    begun = {variant: _begun(size, variant, 0).copy for variant in set(variants)}
    hashes: list[bytes] = []
    parent = root
    for start, variant in zip(range(0, num_blocks * size, size), variants, strict=True):
        if by_block and start in by_block:
            parent = _block_hash(parent, raw[start : start + size], variant, by_block[start])
        else:
            hasher = begun[variant]()
            hasher.update(parent + raw[start : start + size])
            parent = hasher.digest()
        hashes.append(parent)
    return hashes


def _per_block(
    contents: Sequence[tuple[int, bytes]], block_tokens: int
) -> dict[int, list[tuple[int, bytes]]]:
    """Contents by the byte at which their block starts, with offsets in the block."""
    by_block: dict[int, list[tuple[int, bytes]]] = {}
    for offset, content in contents:
        within = offset % block_tokens
        by_block.setdefault((offset - within) * _TOKEN_BYTES, []).append((within, content))
    return by_block


def _block_hash(parent: bytes, raw: bytes, variant: int, contents: Sequence[tuple[int, bytes]]) -> bytes:
    parts, last = [parent, raw], 0
    for offset, content in contents:
        if not last <= offset < len(raw) // _TOKEN_BYTES:
            raise ValueError(f"content at offset {offset} is outside the block or not in order")
        last = offset
        parts += [struct.pack("<II", offset, len(content)), content]
    hasher = _begun(len(raw), variant, len(contents)).copy()
    hasher.update(b"".join(parts))
    return hasher.digest()


def _check_parent(parent: bytes) -> None:
    if len(parent) != HASH_BYTES:
        raise ValueError(f"a parent's hash has {HASH_BYTES} bytes, not {len(parent)}")


@lru_cache(maxsize=64)
def _begun(num_bytes: int, variant: int, num_contents: int) -> hashlib._Hash:
    """SHA-256 of a block's header, to be copied."""
    if not 0 <= variant <= _MAX_VARIANT:
        raise OverflowError(f"a variant is 0 to {_MAX_VARIANT}, not {variant}")
    return hashlib.sha256(_BLOCK_CONTEXT + struct.pack("<4I", HASH_BYTES, num_bytes, variant, num_contents))


def _token_bytes(tokens: NDArray[np.int32]) -> bytes:
    if tokens.dtype != np.int32 or tokens.ndim != 1:
        raise ValueError(f"tokens must be int32 [num_tokens], not {tokens.dtype} {list(tokens.shape)}")
    return tokens.astype("<i4", copy=False).tobytes()


def _hash(*parts: bytes) -> bytes:
    framed: list[bytes] = []
    for part in parts:
        framed += [len(part).to_bytes(8, "little"), part]
    return blake3(b"".join(framed), derive_key_context=_CONTEXT).digest()
