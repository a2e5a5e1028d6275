"""Which statements were forgotten and when, so that old messages which are seen anew do not bring them back.

A host may show what was said long ago: under another session, or after a session was dropped. Kept is not the text, nor
what would tell it: of each a hash of two bytes, which one in 65,536 other statements has too. Such a one is not taken
from messages that are older than the forgetting; from newer ones it always is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from blake3 import blake3

from openclaw_cache.memory.capture.sameness import normal

if TYPE_CHECKING:
    from openclaw_cache.memory.store import MemoryStore


def note_forgotten(store: MemoryStore, texts: Sequence[str], at: float) -> None:
    """Keep that these were forgotten at this time (Unix s). Raises MemoryStoreError."""
    with store.together():
        for label in {_label(text) for text in texts}:
            store.set_label(label, repr(at))


def was_forgotten(store: MemoryStore, text: str, said_at: float) -> bool:
    """Whether this was forgotten after it was said. Raises MemoryStoreError."""
    at = store.label(_label(text))
    return at is not None and said_at <= float(at)


def _label(text: str) -> str:
    return f"forgotten:{blake3(normal(text).encode(errors='replace')).hexdigest(length=2)}"
