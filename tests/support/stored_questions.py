"""Rows of the semantic cache for tests: what matters is given, the rest is plain."""

from __future__ import annotations

import hashlib

from openclaw_cache.semantic.partitions import Row
from openclaw_cache.types import CacheKey, Namespace


def key_of(name: str | int) -> CacheKey:
    """A key of the right length for a name."""
    return CacheKey(hashlib.sha256(str(name).encode()).digest())


def stored(
    name: str | int,
    *,
    partition: bytes = b"p",
    namespace: str = "default",
    text: str = "How do I reset my password?",
    created_at: float = 1_000.0,
    expires_at: float = 9_000.0,
) -> Row:
    """A row under the key of `name`."""
    return Row(
        key=key_of(name),
        partition=partition,
        question=text,
        domain="default",
        namespace=Namespace(namespace),
        model="m",
        created_at=created_at,
        expires_at=expires_at,
    )
