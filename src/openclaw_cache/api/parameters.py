"""What an operator's question has in its query."""

from __future__ import annotations

from collections.abc import Collection
from datetime import tzinfo
from urllib.parse import parse_qsl

from openclaw_cache.errors import RequestError
from openclaw_cache.units import TimeRange, parse_time_range


def parameters(query: bytes, known: Collection[str]) -> dict[str, str]:
    """The parameters of a query, each once. Raises RequestError for one that is not known, or is given twice."""
    found: dict[str, str] = {}
    for name, value in parse_qsl(query.decode("latin-1"), keep_blank_values=True):
        if name not in known:
            raise RequestError(400, f"unknown parameter {name!r}; known are {', '.join(known)}", param=name)
        if name in found:
            raise RequestError(400, f"{name}: it is given twice", param=name)
        found[name] = value
    return found


def time_range_of(text: str, now: float, zone: tzinfo | None = None) -> TimeRange:
    """A range of time as `units.parse_time_range` reads it. Raises RequestError."""
    try:
        return parse_time_range(text, now, zone)
    except ValueError as e:
        raise RequestError(400, f"time_range: {e}", param="time_range") from None
