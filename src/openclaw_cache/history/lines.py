"""What the savings ledger adds up: one line for each namespace, agent, model and upstream."""

from __future__ import annotations

from typing import Final

import msgspec

from openclaw_cache.history.table import Name, others, place, surplus
from openclaw_cache.observe.record import RequestRecord

NUM_LINES: Final = 256
UNKNOWN: Final = "unknown"

_LAYERS: Final = {"exact": "result", "semantic": "semantic", "collapsed": "flight"}


class Line(msgspec.Struct, array_like=True):
    """Sums of requests. Of a prompt forwarded, computed + upstream's cache + ours are all of it: none counts twice."""

    num_requests: int = 0
    num_answered: int = 0
    """By us: exact, semantic, collapsed."""
    num_priced: int = 0
    """The money is of these."""
    computed_tokens: int = 0
    """Of prompts."""
    upstream_cached_tokens: int = 0
    """Of prompts: in a provider's own cache. Not ours."""
    kv_saved_tokens: int = 0
    """Of prompts: in the KV cache of our own engines."""
    completion_tokens: int = 0
    """Of replies that upstreams made."""
    answered_prompt_tokens: int = 0
    answered_completion_tokens: int = 0
    would_be_cached_tokens: int = 0
    """Of the answered prompts: the provider would have had them in its cache anyway. Not ours."""
    result_saved_tokens: int = 0
    semantic_saved_tokens: int = 0
    flight_saved_tokens: int = 0
    saved_us: int = 0
    """Estimated microseconds that clients did not wait, where we answered."""
    spent: int = 0
    """Picodollars."""
    saved: int = 0
    """Picodollars."""

    @property
    def answered_saved_tokens(self) -> int:
        """Of prompts and replies: not computed, because we answered. Without those of the KV cache."""
        return self.result_saved_tokens + self.semantic_saved_tokens + self.flight_saved_tokens

    @property
    def forwarded_prompt_tokens(self) -> int:
        """Of all prompts that went upstream, wherever their tokens came from."""
        return self.computed_tokens + self.upstream_cached_tokens + self.kv_saved_tokens

    def absorb(self, other: Line) -> None:
        """Add another's sums to these."""
        for field in FIELDS:
            setattr(self, field, getattr(self, field) + getattr(other, field))


FIELDS: Final = Line.__struct_fields__
Lines = dict[Name, Line]
"""By (namespace, agent, model, upstream)."""


def answering_layer(record: RequestRecord) -> str | None:
    """Which layer answered: `result`, `semantic` or `flight`; None where an upstream was asked for this request's sake.

    A request that joined another's flight and got a reply that broke off is an error, and was answered by its flight.
    """
    if record.outcome == "error" and record.savings.answered_prompt_tokens:
        return "flight"
    return _LAYERS.get(record.outcome)


def line_of(lines: Lines, record: RequestRecord) -> Line:
    """The line that a request is counted in; a new one where there is room, else that of the others."""
    name = (
        record.namespace or UNKNOWN,
        record.agent or UNKNOWN,
        record.model or UNKNOWN,
        record.upstream or UNKNOWN,
    )
    found = lines.get(name)
    return lines.setdefault(place(lines, name, NUM_LINES), Line()) if found is None else found


def add_answered(line: Line, record: RequestRecord, layer: str) -> None:
    """Count a request that a layer of ours answered."""
    savings = record.savings
    prompt, reply, cached = (
        savings.answered_prompt_tokens,
        savings.answered_completion_tokens,
        savings.would_be_cached_tokens,
    )
    line.num_requests += 1
    line.num_answered += 1
    line.answered_prompt_tokens += prompt
    line.answered_completion_tokens += reply
    if cached:
        line.would_be_cached_tokens += cached
    if record.saved_s > 0:
        line.saved_us += int(record.saved_s * 1e6 + 0.5)
    if layer == "result":
        line.result_saved_tokens += prompt - cached + reply
    elif layer == "semantic":
        line.semantic_saved_tokens += prompt - cached + reply
    else:
        line.flight_saved_tokens += prompt - cached + reply
    if savings.spent is not None:
        line.num_priced += 1
        line.saved += savings.saved or 0


def add_forwarded(line: Line, record: RequestRecord, kv_tokens: int | None) -> None:
    """Count a request that we did not answer; `kv_tokens` were in our own engine's cache, None where it has none."""
    savings = record.savings
    line.num_requests += 1
    line.computed_tokens += savings.computed_tokens
    if kv_tokens is None:
        line.upstream_cached_tokens += savings.upstream_cached_tokens
    else:
        line.kv_saved_tokens += kv_tokens
    line.completion_tokens += record.completion_tokens or 0
    if savings.spent is not None:
        line.num_priced += 1
        line.spent += savings.spent
        line.saved += savings.saved or 0


def absorb(lines: Lines, other: Lines) -> None:
    """Add other lines to these, without a bound. Cost: O(lines)."""
    for name, line in other.items():
        ours = lines.get(name)
        if ours is None:
            lines[name] = msgspec.structs.replace(line)
        else:
            ours.absorb(line)


def trim(lines: Lines, max_lines: int = NUM_LINES) -> None:
    """Put the lines with the fewest requests together as `other` where there are more than `max_lines`."""
    for name in surplus(lines, max_lines, lambda name: lines[name].num_requests):
        absorb(lines, {others(name): lines.pop(name)})
