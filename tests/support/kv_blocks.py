"""Small blocks whose bytes follow from their number, so that any process can tell what must be in them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
import xxhash
from blake3 import blake3
from numpy.typing import NDArray

from openclaw_cache.kv.codec import Codec, KvLayout
from openclaw_cache.kv.hashing import ModelIdentity
from openclaw_cache.kv.tiers import Record

LAYOUT = KvLayout(num_layers=3, num_kv_heads=2, head_dim=4, block_tokens=4)
CODEC = Codec("fp16", LAYOUT)
LAYER_BYTES = 2 * 4 * 2 * 4 * 2  # K and V, tokens, heads, values, bytes of a half
BLOCK_BYTES = 3 * LAYER_BYTES
RECORD_BYTES = 8 + 4 * 3 + 2 + 2 + 8 + 32 + 32 + 64 + 4 * 4 + 3 * 8
IDENTITY = ModelIdentity(fingerprint="f00d", kv_dtype="fp16", layout="lkv", rope="10000")


def name_of(number: int) -> bytes:
    return blake3(f"block {number}".encode()).digest()


def payload_of(name: bytes) -> bytes:
    return blake3(name).digest(length=BLOCK_BYTES)


def record_of(number: int, *, index: int | None = None, flags: int = 0, salt: bytes = b"salt") -> Record:
    payload = payload_of(name_of(number))
    layers = [payload[at : at + LAYER_BYTES] for at in range(0, BLOCK_BYTES, LAYER_BYTES)]
    return Record(
        name=name_of(number),
        parent=name_of(number - 1),
        salt=salt,
        index=number if index is None else index,
        tokens=np.arange(number, number + 4, dtype=np.int32),
        flags=flags,
        checksums=np.array([xxhash.xxh3_64_intdigest(layer) for layer in layers], np.uint64),
    )


def bare(record: Record) -> Record:
    """As the engine gives it: without checksums."""
    return replace(record, checksums=np.empty(0, np.uint64))


def payloads(numbers: list[int]) -> torch.Tensor:
    joined = b"".join(payload_of(name_of(number)) for number in numbers)
    return torch.frombuffer(bytearray(joined), dtype=torch.uint8).view(len(numbers), BLOCK_BYTES)


def layer_of(number: int, layer: int) -> bytes:
    return payload_of(name_of(number))[layer * LAYER_BYTES : (layer + 1) * LAYER_BYTES]


def slots(*numbers: int) -> NDArray[np.int32]:
    return np.array(numbers, np.int32)


def rows(raw: torch.Tensor) -> list[bytes]:
    return [row.tobytes() for row in raw.numpy()]
