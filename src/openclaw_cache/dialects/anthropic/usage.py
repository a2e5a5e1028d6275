"""Read what Anthropic says of a reply's tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import orjson

from openclaw_cache.dialects.usage import Usage, count
from openclaw_cache.types import Json

_NUM_FIRST_EVENTS: Final = 4
"""message_start comes first; a few pings may come before it."""

_NUM_LAST_EVENTS: Final = 4
"""message_delta is the last event but message_stop; pings and a `[DONE]` may come after it."""


def usage_of(usage: Json) -> Usage | None:
    """Read a `usage` object; None where it is none, or has no counts.

    Anthropic counts a prompt in three parts: what the cache gave, what was written to it, and the rest.
    """
    if not isinstance(usage, dict):
        return None
    rest, completion = count(usage.get("input_tokens")), count(usage.get("output_tokens"))
    if rest is None and completion is None:
        return None
    cached = count(usage.get("cache_read_input_tokens")) or 0
    written = _written(usage)
    return Usage(
        prompt_tokens=None if rest is None else rest + cached + written,
        completion_tokens=completion,
        cached_tokens=cached,
        cache_write_tokens=written,
    )


def _written(usage: dict[str, Json]) -> int:
    """Tokens written to the cache: the sum, or the parts by lifetime where only these are told."""
    total = count(usage.get("cache_creation_input_tokens"))
    parts = usage.get("cache_creation")
    if total is None and isinstance(parts, dict):
        return sum(count(value) or 0 for name, value in parts.items() if name.startswith("ephemeral_"))
    return total or 0


def stream_usage(events: Sequence[bytes]) -> Usage | None:
    """Read the usage of a stream that nobody merges, from its first and last few events."""
    found: dict[str, Json] = {}
    for event in (*events[:_NUM_FIRST_EVENTS], *events[-_NUM_LAST_EVENTS:]):
        if b'"usage"' in event:
            found.update(_told(event))
    return usage_of(found)


def _told(data: bytes) -> dict[str, Json]:
    """What one event says of the usage. Totals: a later one counts, a null one says nothing."""
    try:
        event = orjson.loads(data)
    except orjson.JSONDecodeError:
        return {}
    kind = event.get("type") if isinstance(event, dict) else None
    holder = event.get("message") if kind == "message_start" else event if kind == "message_delta" else None
    usage = holder.get("usage") if isinstance(holder, dict) else None
    return (
        {name: value for name, value in usage.items() if value is not None} if isinstance(usage, dict) else {}
    )
