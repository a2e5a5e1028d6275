"""One request and what became of it: the values that pass between the API, the gateway and its steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from openclaw_cache.dialects.dialect import Dialect
from openclaw_cache.dialects.request import Request
from openclaw_cache.dialects.usage import Usage
from openclaw_cache.types import Headers, Identity, Namespace

if TYPE_CHECKING:
    from openclaw_cache.gateway.flight import Reader

CACHE_NAME = "openclaw-cache"


@dataclass(slots=True)
class Call:
    """One request as it came in."""

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


@dataclass(slots=True)
class Outcome:
    """What happened to a request: for headers, metrics and its log line."""

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

    @property
    def is_answered(self) -> bool:
        """Whether no upstream was asked for this request's sake."""
        return self.outcome in ("exact", "semantic", "collapsed")

    def bypass(self, reason: str) -> None:
        """Note that the cache may not answer, and why."""
        self.outcome, self.detail = "bypass", reason
        self.cache_status = f"{CACHE_NAME}; fwd=bypass; detail={reason}"


@dataclass(slots=True)
class Ready:
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
