"""A request that looks for a reply by meaning, and what came of it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from openclaw_cache.dialects.request import Request
from openclaw_cache.gateway.call import Call
from openclaw_cache.gateway.keys import MakeKey
from openclaw_cache.gateway.policy import Control
from openclaw_cache.types import CacheKey, Entry, Json, Likeness, Namespace

if TYPE_CHECKING:
    from openclaw_cache.gateway.semantic.decisions import Decision
    from openclaw_cache.semantic.cache import Asked, Candidate


@dataclass(frozen=True, slots=True)
class Asking:
    """A request that the exact cache could not answer."""

    call: Call
    request: Request
    namespace: Namespace
    """Who shares replies."""
    key: CacheKey
    """Its own reply's, which the exact cache has looked for if it reads."""
    control: Control
    """The caller's bounds on a reply's age."""
    value: dict[str, Json] | None
    """The body, where it had to be decoded."""
    make_key: MakeKey
    reads: bool
    """Whether a reply may be given; else the question is only got ready to be remembered."""
    writes: bool
    """Whether its own reply may be stored, and so the question be remembered."""


@dataclass(slots=True)
class Look:
    """A reply, or what is to be remembered of the question until its own reply is there."""

    decision: Decision | None = None
    entry: Entry | None = None
    asked: Asked | None = None
    found: Candidate | None = None
    """The candidate whose reply `entry` is, or else the best one that was refused."""
    stored: Entry | None = None
    """The reply of a refused candidate, where it is at hand: to be compared with the one that comes."""
    understanding: asyncio.Task[Asked | None] | None = None
    """The question on its way through the embedder: it may take longer than its request waits."""
    embedder: str = ""

    def likeness(self) -> Likeness | None:
        """What the question's own reply is to be found by; None where it is to be found by nothing."""
        asked, task = self.asked, self.understanding
        is_there = task is not None and task.done() and not task.cancelled() and task.exception() is None
        if asked is None and task is not None and is_there:
            asked = task.result()
        return None if asked is None else asked.likeness(self.embedder)
