"""One request and what became of it: the values that pass between the API, the gateway and its steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from openclaw_cache.dialects.dialect import Dialect
from openclaw_cache.dialects.request import Request
from openclaw_cache.dialects.usage import Usage
from openclaw_cache.gateway.prompt_tokens import PromptTokens
from openclaw_cache.observe.record import CanonicalEffect, Step
from openclaw_cache.types import Headers, Identity, Namespace

if TYPE_CHECKING:
    from openclaw_cache.gateway.flight import Reader
    from openclaw_cache.gateway.pace import Pace
    from openclaw_cache.gateway.prefix_watch import Watched

CACHE_NAME = "openclaw-cache"


class Call(msgspec.Struct):
    """One request as it came in.

    A Struct, as all that each hit makes: a dataclass takes several times as long to make.
    """

    dialect: Dialect
    path: str
    query: bytes
    headers: Headers
    raw: bytes
    namespace: Namespace
    keyed: bool
    """Whether a configured key vouches for the client; then its credential stays here."""
    request_id: str
    strict: bool = False
    """Whether the body must read one way only: of two `model` members the upstream may take the other one."""
    may_read: bool = True
    """Whether a stored reply may answer."""
    may_write: bool = True
    """Whether the reply may be stored."""
    check: Callable[[str, Identity], None] = lambda _model, _identity: None
    """Raises RequestError where the client may not use this model or be this agent."""
    outcome: Outcome | None = None
    """What has become of it so far; None until it is known who is to answer. Also where it fails."""


class Outcome(msgspec.Struct):
    """What happened to a request: for headers, metrics, its log line and its record."""

    outcome: str
    cache_status: str
    model: str
    upstream: str
    namespace: Namespace
    stream: bool
    identity: Identity
    detail: str = ""
    age_s: int | None = None
    usage: Usage | None = None
    prompt_tokens: PromptTokens | None = None
    """Where the KV of its prompt came from, where an upstream was asked and told."""
    pace: Pace | None = None
    """Of its stream, where an upstream was asked for it."""
    miss: str = ""
    """Why a stored reply was not there, one of `record.MISSES`; empty where none was looked up, or it was there. Not
    for clients: it may tell of other namespaces."""
    prompt_id: str = ""
    """See `reading.Reading`."""
    steps: list[Step] = []
    """What it went through, in order."""
    watched: Watched | None = None
    """Its prompt, compared with its session's earlier ones beside the request; None where it is not."""
    canonical: Sequence[CanonicalEffect] = ()
    """What the prefix canonicaliser did, or would have done."""
    sent: bytes | None = None
    """What went upstream, where it was not what the client sent."""
    semantic_id: str = ""
    """Of the decision of the semantic cache, where there was one."""

    @property
    def is_answered(self) -> bool:
        """Whether no upstream was asked for this request's sake."""
        return self.outcome in ("exact", "semantic", "collapsed")

    def bypass(self, reason: str) -> None:
        """Note that the cache may not answer, and why."""
        self.outcome, self.detail = "bypass", reason
        self.cache_status = f"{CACHE_NAME}; fwd=bypass; detail={reason}"


class Ready(msgspec.Struct):
    """A reply that is here: a hit."""

    outcome: Outcome
    body: bytes


@dataclass(slots=True)
class Following:
    """A reply on its way: this request reads a flight. `reader.leave()` must be called in the end."""

    outcome: Outcome
    reader: Reader
    request: Request
    dialect: Dialect


@dataclass(frozen=True, slots=True)
class Invalidation:
    """What `invalidate` did: the names whose epochs changed, and whether that survives a crash."""

    names: list[str]
    served: bool
    durable: bool
