"""Read the usage object of a response."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import orjson

from openclaw_cache.dialects.usage import Usage, count
from openclaw_cache.types import Json

_NUM_LAST_EVENTS: Final = 3
"""Only the last event has the usage; some servers send `[DONE]` or a comment of their own after it."""


def usage_of(reply: dict[str, Json]) -> Usage | None:
    """Return what a response says of its tokens; None where it counts neither input nor output.

    `input_tokens` is the whole prompt. What the cache had and took of it stands in `input_tokens_details`, and is
    never more than the prompt together.
    """
    usage = reply.get("usage")
    if not isinstance(usage, dict):
        return None
    prompt, completion = count(usage.get("input_tokens")), count(usage.get("output_tokens"))
    if prompt is None:
        return None if completion is None else Usage(completion_tokens=completion)
    details = usage.get("input_tokens_details")
    nested = details if isinstance(details, dict) else {}
    cached = min(count(nested.get("cached_tokens")) or 0, prompt)
    written = min(count(nested.get("cache_write_tokens")) or 0, prompt - cached)
    return Usage(prompt, completion, cached, written)


def stream_usage(events: Sequence[bytes]) -> Usage | None:
    """Return the same of a stream's payloads. Parses at most the last three."""
    for event in reversed(events[-_NUM_LAST_EVENTS:]):
        if b'"input_tokens"' not in event:
            continue
        try:
            payload = orjson.loads(event)
        except orjson.JSONDecodeError:
            continue
        response = payload.get("response") if isinstance(payload, dict) else None
        if isinstance(response, dict) and (usage := usage_of(response)) is not None:
            return usage
    return None
