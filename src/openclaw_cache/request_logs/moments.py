"""When a request was sent, from what logs write."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Final

from openclaw_cache.types import Json

_FIELDS: Final = (
    "at", "timestamp", "time", "ts", "t", "startedDateTime", "created_at", "started_at", "createdAt",
)  # fmt: skip
_UNITS: Final = ((1e17, 1e-9), (1e14, 1e-6), (1e11, 1e-3))
"""From this number on, it counts nanoseconds, microseconds, milliseconds."""


def moment(record: dict[str, Json]) -> float | None:
    """Unix seconds of the first field that says when; None where none does."""
    for field in _FIELDS:
        if (found := _seconds(record.get(field))) is not None:
            return found
    return None


def _seconds(value: Json) -> float | None:
    if isinstance(value, str):
        return _of_text(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e20:
        return None
    return float(value) * next((unit for least, unit in _UNITS if value >= least), 1.0)


def _of_text(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        pass
    else:
        return _seconds(number) if math.isfinite(number) else None
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    try:
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    except (OverflowError, ValueError):
        return None
