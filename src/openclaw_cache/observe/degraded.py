"""What a failure of each part did, in words: for the log and for `analyze`."""

from __future__ import annotations

from typing import Final

_EFFECTS: Final = {
    "write_overflow": "those replies were not stored",
    "store_full": "those replies were not stored",
    "history": "figures stay in memory until the store takes them",
    "prefix_watch": "those prompts were not compared",
    "canonical": "those prompts went up as they came",
    "misses": "why those look-ups missed is not known",
    "record": "those requests are missing in what is looked back at",
    "judge": "those answers were not checked",
    "memory_store": "an agent's file could not be used",
    "memory_vectors": "searches went without vectors",
    "memory_embedding": "indexing was held up",
}
HARMLESS: Final = frozenset({"history", "prefix_watch", "canonical", "misses", "record"})
"""Parts that only look on: no client gets anything else, or later."""


def effect(what: str) -> str:
    """What a failure meant, by its word in `openclaw_cache_degraded_total`. No request ever fails for it."""
    return _EFFECTS.get(what, "each became a miss")
