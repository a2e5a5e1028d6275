"""Decide, before any work, what the result cache and single flight may do with a request. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Final, Literal, Self

from openclaw_cache.dialects.request import Request
from openclaw_cache.gateway import summarisers
from openclaw_cache.types import Headers, Json


class Reason(StrEnum):
    """Why a request bypasses the cache: the `detail` of `Cache-Status`. Checked in this order."""

    DISABLED = "disabled", "The operator has switched the result cache off."
    DUPLICATE_KEY = (
        "duplicate-key",
        "A JSON object of the body has a key twice, which readers read differently.",
    )
    NUMBER_RANGE = "number-range", "The body has a number that readers round differently."
    LONE_SURROGATE = "lone-surrogate", "The body has half of a UTF-16 pair, which is no text."
    UNKEYABLE = "unkeyable", "The body cannot be named by a key for another reason."
    STATE = (
        "stored-state",
        "The upstream is to keep something for the request, or to look up what it kept.",
    )
    N = "n", "The request asks for more than one choice: it wants different samples."
    TOOLS = "tools", "The request offers or continues tool calls, and `result_cache.tools` is `bypass`."
    SAMPLED = (
        "sampled",
        "The request has a temperature above 0 and no seed, and `result_cache.sampled` is `bypass`.",
    )
    SUMMARISER = (
        "summariser",
        "An agent compacts its context. It repeats the request when it rejected the summary, so a stored"
        " reply would give it the rejected text for ever.",
    )
    NO_STORE = "no-store", "`Cache-Control: no-store`: a stored reply may answer, this one is not kept."
    NO_CACHE = "no-cache", "`Cache-Control: no-cache`: the reply is computed anew and replaces a stored one."

    RIGHTS = "key-rights", "The request's API key may not read, or not write, the cache."
    DEGRADED = (
        "degraded",
        "The store does not answer, so the model's epoch is unknown: no stored reply is safe.",
    )

    meaning: str
    """One sentence for people."""

    def __new__(cls, word: str, meaning: str) -> Self:
        """Make the member `word`, a plain string to everyone, with its sentence beside it."""
        reason = str.__new__(cls, word)
        reason._value_ = word
        reason.meaning = meaning
        return reason


@dataclass(frozen=True, slots=True)
class Policy:
    """The operator's settings (`result_cache` in the configuration)."""

    enabled: bool = True
    sampled: Literal["cache", "bypass"] = "cache"
    tools: Literal["bypass", "cache"] = "bypass"


MAX_AGE_S: Final = 2**31
"""A delta-seconds value beyond this counts as this (RFC 9111, §1.2.2)."""

_DIRECTIVE: Final = re.compile(
    rb"""([!#$%&'*+\-.^_`|~0-9A-Za-z]+) \s*
         (?: = \s* (?: "((?:[^"\\]|\\.)*)" | ([^\s",]*) ) )?""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Control:
    """A request's `Cache-Control` (RFC 9111, §5.2.1)."""

    no_cache: bool = False
    no_store: bool = False
    only_if_cached: bool = False
    max_age_s: int | None = None
    min_fresh_s: int | None = None

    @classmethod
    def parse(cls, headers: Headers) -> Control:
        """Read all `cache-control` lines. Unknown directives are ignored.

        Of a repeated directive the first counts. A `max-age` that is no number counts as 0, so that nothing
        stored is fresh enough (§4.2.1), a `min-fresh` that is none as more than anything can offer.
        """
        lines = [value for name, value in headers if name == b"cache-control"]
        if not lines:
            return _NO_WISHES
        found: dict[bytes, bytes] = {}
        for name, quoted, token in _DIRECTIVE.findall(b", ".join(lines)):
            found.setdefault(name.lower(), quoted or token)
        return cls(
            no_cache=b"no-cache" in found,
            no_store=b"no-store" in found,
            only_if_cached=b"only-if-cached" in found,
            max_age_s=_seconds(found.get(b"max-age"), invalid=0),
            min_fresh_s=_seconds(found.get(b"min-fresh"), invalid=MAX_AGE_S),
        )

    def accepts(self, age_s: float, left_s: float) -> bool:
        """Whether an entry of this age, with this long left to live, may answer the request."""
        if self.max_age_s is not None and (age_s > self.max_age_s or self.max_age_s == 0):
            return False
        return self.min_fresh_s is None or left_s >= self.min_fresh_s


_NO_WISHES: Final = Control()


def _seconds(value: bytes | None, *, invalid: int) -> int | None:
    if value is None:
        return None
    if not value.isdigit():
        return invalid
    return min(int(value), MAX_AGE_S) if len(value) < 20 else MAX_AGE_S


@dataclass(frozen=True, slots=True)
class Cacheable:
    """A stored reply may answer, and the reply may be stored."""

    joinable: bool = True
    """Whether it may lead or follow a flight of identical requests."""
    reads: ClassVar[bool] = True
    writes: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Bypass:
    """The request goes to the upstream alone; the caller may still let it read or write the cache."""

    reason: Reason
    reads: bool = False
    """Whether a stored reply may answer all the same (`no-store`)."""
    writes: bool = False
    """Whether the reply may be stored all the same (`no-cache`)."""
    joinable: ClassVar[bool] = False


_SHARED: Final = Cacheable()
_ALONE: Final = Cacheable(joinable=False)


def restricted(planned: Cacheable | Bypass, *, may_read: bool, may_write: bool) -> Cacheable | Bypass:
    """What is left of a plan for a key with these rights. Sharing a flight takes both."""
    if may_read and may_write:
        return planned
    reason = planned.reason if isinstance(planned, Bypass) else Reason.RIGHTS
    return Bypass(reason, reads=planned.reads and may_read, writes=planned.writes and may_write)


def plan(request: Request, reason: Reason | None, control: Control) -> Cacheable | Bypass:
    """Decide what may be done with a request.

    The first reason in the order of `Reason` wins: those that lie in the body (`body_reason`), and last the
    caller's own wishes. A request with an explicit temperature above 0 and no seed is never joined to another:
    parallel samples of one prompt want different replies.

    Args:
        request: the parsed request.
        reason: why its body bypasses the cache, if it does.
        control: the caller's wishes.
    """
    if reason is not None:
        return Bypass(reason)
    if control.no_store:
        return Bypass(Reason.NO_STORE, reads=not control.no_cache)
    if control.no_cache:
        return Bypass(Reason.NO_CACHE, writes=True)
    return _ALONE if is_sampled(request) else _SHARED


def body_reason(
    request: Request, messages: Sequence[Json], keyable: bool, why: str, policy: Policy
) -> Reason | None:
    """Why a body bypasses the cache under these settings; None where it need not. A few µs, whatever its size.

    Args:
        request: the parsed request.
        messages: its conversation (`Dialect.messages`).
        keyable: whether the body has a key.
        why: where it has none, the word for it.
        policy: the operator's settings.
    """
    if not policy.enabled:
        return Reason.DISABLED
    if not keyable:
        return _UNKEYABLE.get(why, Reason.UNKEYABLE)
    told = _request_reason(request, policy)
    if told is None and summarisers.find(messages) is not None:
        return Reason.SUMMARISER
    return told


def _request_reason(request: Request, policy: Policy) -> Reason | None:
    if request.state:
        return Reason.STATE
    if request.n is not None and request.n != 1:
        return Reason.N
    if request.has_tools and policy.tools == "bypass":
        return Reason.TOOLS
    return Reason.SAMPLED if policy.sampled == "bypass" and is_sampled(request) else None


_UNKEYABLE: Final = {
    reason.value: reason for reason in (Reason.DUPLICATE_KEY, Reason.NUMBER_RANGE, Reason.LONE_SURROGATE)
}


def is_sampled(request: Request) -> bool:
    """Whether the caller asked for chance: a temperature that is not 0 (nor absent), and no seed."""
    return request.temperature is not None and request.temperature != 0 and request.seed is None
