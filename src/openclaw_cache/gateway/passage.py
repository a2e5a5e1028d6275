"""One request on its way through the gateway's steps: what it says, what was planned for it, what has come of it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import orjson

from openclaw_cache.dialects.request import Request
from openclaw_cache.gateway.call import Call, Outcome
from openclaw_cache.gateway.keys import MakeKey
from openclaw_cache.gateway.misses import Way
from openclaw_cache.gateway.policy import Bypass, Cacheable, Control
from openclaw_cache.gateway.reading import Reading
from openclaw_cache.gateway.upstream import Upstream
from openclaw_cache.observe.record import Step
from openclaw_cache.result.key import decode
from openclaw_cache.types import CacheKey, Entry, Json


class Passage(msgspec.Struct):
    """All that the steps share of one request."""

    call: Call
    reading: Reading
    value: dict[str, Json] | None
    """The body, once somebody had to decode it."""
    upstreams: Sequence[Upstream]
    """Who may answer, in order."""
    control: Control
    planned: Cacheable | Bypass
    make_key: MakeKey | None
    """None where its reply is neither looked up nor stored."""
    key: CacheKey | None
    outcome: Outcome
    asked_at: float = 0.0
    """When its reply began to be looked up, by `time.perf_counter`: the store's time counts from then."""
    way: Way | None = None
    """How it is asked, for the memory of misses, once somebody needed it."""
    is_behind: bool = False
    """Whether it goes up behind its client's back, to check a reply that was given."""

    @property
    def request(self) -> Request:
        """What the gateway decides by."""
        return self.reading.request

    @property
    def upstream(self) -> Upstream:
        """The one that is asked first."""
        return self.upstreams[0]

    def body(self) -> dict[str, Json]:
        """The decoded body: bytes that were read before were not decoded again, and most requests never need it."""
        if self.value is None:
            self.value = decode(self.call.raw).value
        return self.value

    def accepts(self, entry: Entry, now: float) -> bool:
        """Whether it takes a stored reply: its `Cache-Control` does, and the usage that it wants is there."""
        if not self.control.accepts(now - entry.created_at, entry.expires_at - now):
            return False
        return entry.has_usage or not self.request.wants_usage

    def wire_form(self, entry: Entry) -> bytes | None:
        """A stored reply as this request wants it; None where it cannot be replayed as a stream."""
        if not self.request.stream:
            return entry.reply
        try:
            return self.call.dialect.split(orjson.loads(entry.reply), self.request)
        except (ValueError, TypeError):  # TypeError: nested too deeply to be written again
            return None

    def note(self, name: str, result: str, took_s: float = 0.0) -> None:
        """Add a step to the request's path."""
        self.outcome.steps.append(Step(name, result, took_s))
