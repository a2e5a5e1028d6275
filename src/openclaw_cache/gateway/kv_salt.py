"""Namespaces as the engine knows them: a salt that is the root of a prefix tree and part of every block hash."""

from __future__ import annotations

from typing import Final

from blake3 import blake3

from openclaw_cache.types import Namespace

HEADER: Final = "x-openclaw-kv-salt"
"""Sent to embedded engines only, and never a client's own: whoever chose it could read another's prefixes by time."""

_CONTEXT: Final = "openclaw-cache 2026-11 kv salt"


class KvSalt:
    """Salts under one fleet secret: equal on every node, and telling nothing of the namespace without the secret."""

    def __init__(self, secret: bytes) -> None:
        self._key = blake3(secret, derive_key_context=_CONTEXT).digest()

    def of(self, namespace: Namespace) -> str:
        """The salt of a namespace: 64 hex digits."""
        return blake3(namespace.encode(), key=self._key).hexdigest()
