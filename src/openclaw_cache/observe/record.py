"""What is known of one request when it is over. No text of prompts or replies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from openclaw_cache.observe.savings import Savings

MISSES: Final = (
    "new",  # the prompt was not seen before, as far as is remembered
    "expired",  # its reply was stored, and has become too old
    "evicted",  # its reply was stored, and gave way to others
    "corrupt",  # its reply is stored, and cannot be read: damaged, or encrypted with a key that is not known here
    "version",  # its reply was stored under another epoch or model identity
    "namespace",  # another namespace has asked it; replies are not shared
    "headers",  # it was asked with other headers that can change a reply
    "unstored",  # it was asked, and its reply was not fit to be stored
    "control",  # its reply is stored, and the request did not accept it: Cache-Control, or usage that it lacks
    "store",  # the store could not be asked
)
"""Why a reply that was looked up was not there, one word each."""


class Step(msgspec.Struct, frozen=True, gc=False):
    """One room that a request went through."""

    name: str
    """`door`, `read`, `plan`, `result`, `semantic`, `flight`, `canonical`, `upstream`, `kv`, `store`."""
    result: str
    """What came of it, one word or two: `miss (evicted)`, `bypass (tools)`, `joined`, `200`."""
    took_s: float


class PrefixBreak(msgspec.Struct, frozen=True, gc=False):
    """Where a prompt first left the one before it in its session, in its client's own terms."""

    cause: str
    """One word of `prefix.causes.CAUSES`."""
    label: str
    """What it is about, for people: `tool "openclaw" is missing`, `"Current time" in the system prompt`."""
    pointer: str
    """The place in the request's body, a JSON pointer (RFC 6901)."""
    at_byte: int
    """How many bytes of the prompt, in the order in which a model reads it, were the same."""
    kept_tokens: int
    """Tokens before the break."""
    lost_tokens: int
    """Tokens behind the break that stand in both prompts, and had to be computed again."""


class CanonicalEffect(msgspec.Struct, frozen=True, gc=False):
    """What one rule of the prefix canonicaliser did to a request, or would have done."""

    rule: str
    num_places: int
    num_bytes: int
    """Bytes that were dropped or moved."""
    applied: bool


class RequestRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One request, for history, the savings ledger and the list of the last requests.

    A Struct because every hit makes one, and a frozen dataclass takes several times as long to make.
    """

    request_id: str
    at: float
    """Unix seconds of its arrival."""
    api: str
    outcome: str
    """One of `metrics.OUTCOMES`."""
    status: int
    detail: str = ""
    """Why it bypassed the cache."""
    miss: str = ""
    """One of `MISSES`; empty where nothing was looked up, or it was there."""
    error: str = ""
    model: str = ""
    upstream: str = ""
    namespace: str = ""
    agent: str | None = None
    session: str | None = None
    stream: bool = False
    prompt_id: str = ""
    """A keyed hash that names the request's canonical body, 16 hex digits; empty where it has none."""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    tokens_from: Mapping[str, int] = {}
    """Prompt tokens of a forwarded request by source: `metrics.SOURCES`."""
    savings: Savings = Savings()
    ttft_s: float | None = None
    itl_sum_s: float = 0.0
    """Seconds between the events of a streamed reply that carry content, all together."""
    num_itl: int = 0
    """How many such intervals there were; 0 where another request's flight was joined."""
    duration_s: float = 0.0
    saved_s: float = 0.0
    """Estimated seconds that the client did not wait: against what the same upstream took for such a request."""
    steps: Sequence[Step] = ()
    prefix_break: PrefixBreak | None = None
    lost: int | None = None
    """Picodollars that the break cost: the price of input less that of cached input, for the lost tokens. None where
    there is no break, or no price."""
    canonical: Sequence[CanonicalEffect] = ()
    canonical_saved_tokens: int | None = None
    """Of the prompt: not computed because of what the canonicaliser applied; below 0 where it cost more than it
    brought. None where nothing was applied, or prompts are not compared."""
    semantic_id: str = ""
    """Of the decision of the semantic cache, for `GET /admin/explain/ID`."""
