"""What a rekey finds of history, and how it is written today."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from openclaw_cache.history.buckets import PREFIX, Bucket
from openclaw_cache.history.coding import Codec
from openclaw_cache.history.keeping import DURATIONS_KEY

_MARGIN_S: Final = 60.0


class StoredHistory:
    """All gateways' sums and what was learnt of upstreams (a `result.rekey.Kind`).

    What seems too old to be kept is rewritten too: our clock may be wrong, and the older key is about to go. It gets an
    expiry, as somebody may be removing it at this moment, and does so once.

    Nobody else writes what a rekey rewrites: a gateway writes under a name of its own for each key
    (`history_part.written_as`). What was learnt of upstreams has one place, where the last writer wins, as ever.

    Args:
        codec: Reads all forms, writes the current one.
        wall: Unix seconds.
    """

    prefix = PREFIX

    def __init__(self, codec: Codec, *, wall: Callable[[], float] = time.time) -> None:
        self._codec = codec
        self._wall = wall

    def is_ours(self, store_key: bytes) -> bool:
        """Whether this is ours to rewrite."""
        return store_key == DURATIONS_KEY or Bucket.named(store_key) is not None

    def is_current(self, stored: bytes) -> bool:
        """Whether it is in the current form."""
        return self._codec.is_current(stored)

    def rewritten(self, store_key: bytes, stored: bytes) -> tuple[bytes, float | None]:
        """The same in the current form; it has no expiry while it is kept. Raises CorruptEntryError."""
        resealed, now = self._codec.resealed(store_key, stored), self._wall()
        bucket = Bucket.named(store_key)
        if bucket is None or bucket.resolution.keeps(bucket.start_at, now + _MARGIN_S):
            return resealed, None
        return resealed, now + bucket.resolution.keep_s
