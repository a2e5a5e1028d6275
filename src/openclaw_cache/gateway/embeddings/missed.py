"""Why vectors that were looked up were not there. One word for a request: that of its first input without one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from openclaw_cache.gateway.call import Call
from openclaw_cache.gateway.keys import MakeKey
from openclaw_cache.gateway.misses import Misses
from openclaw_cache.gateway.prompt_ids import PromptIds
from openclaw_cache.observe.record import Step
from openclaw_cache.types import CacheKey

MOST_INPUTS: Final = 256
"""Of one request that are remembered: 2 µs for each."""

_API: Final = "embeddings"


@dataclass(slots=True)
class MissedInputs:
    """Keeps a memory of inputs of its own, so that a bulk of them does not push out what is known of prompts."""

    prompt_ids: PromptIds = field(default_factory=PromptIds)
    misses: Misses = field(default_factory=Misses)

    def looked_up(
        self,
        call: Call,
        make_key: MakeKey,
        hashes: Sequence[bytes],
        keys: Sequence[CacheKey],
        found: Collection[CacheKey],
        stored: Collection[CacheKey],
        unread: Mapping[CacheKey, str],
        *,
        now: float,
        took_s: float,
    ) -> None:
        """Note on a request's outcome what its look-up came to.

        Args:
            call: The request.
            make_key: Made its keys.
            hashes: Of its inputs.
            keys: One for each.
            found: Those whose vectors answer.
            stored: Those that are stored, whether this request takes them or not.
            unread: Why it is not known of others whether they are stored.
            now: Unix seconds.
            took_s: Seconds.
        """
        outcome = call.outcome
        if outcome is None:
            return
        outcome.prompt_id = self.prompt_ids.of(_API, b"".join(hashes))
        missing = next((i for i, key in enumerate(keys) if key not in found), None)
        if missing is None:
            outcome.steps.append(Step("result", "hit", took_s))
            return
        if keys[missing] in stored:
            outcome.miss = "control"
        elif (unknown := unread.get(keys[missing])) is not None:
            outcome.miss = unknown
        else:
            prompt_id = self.prompt_ids.of(_API, hashes[missing])
            outcome.miss = self.misses.why(prompt_id, self.misses.way_of(make_key), now)
        outcome.steps.append(Step("result", f"miss ({outcome.miss})", took_s))

    def settled(self, make_key: MakeKey, hashes: Iterable[bytes], stored_until: float | None) -> None:
        """Vectors of these inputs were asked for; they are stored until then (unix seconds), or not at all (None)."""
        way = self.misses.way_of(make_key)
        for one in islice(hashes, MOST_INPUTS):
            prompt_id = self.prompt_ids.of(_API, one)
            if stored_until is None:
                self.misses.unstored(prompt_id, way)
            else:
                self.misses.stored(prompt_id, way, stored_until)
