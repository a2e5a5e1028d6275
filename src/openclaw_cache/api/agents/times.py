"""Moments as clients write them, and as they are shown."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Final

from openclaw_cache.errors import RequestError

MOST_UNIX: Final = 253_402_300_799.0
"""The end of the year 9999: the last that ISO 8601 writes with four digits."""
LEAST_UNIX: Final = -62_135_596_800.0
_HOW: Final = "write ISO 8601, such as 2026-11-30T09:00:00+01:00, or Unix seconds"

Moment = str | int | float


def moment(value: Moment, name: str) -> float:
    """Unix time of ISO 8601 (without an offset: the server's own time) or a number of Unix seconds.

    Raises:
        RequestError: 400 that names the field.
    """
    unix = math.nan
    if isinstance(value, str):
        try:
            unix = float(value) if _is_number(value) else datetime.fromisoformat(value.strip()).timestamp()
        except (ValueError, OverflowError, OSError):
            unix = math.nan
    elif not isinstance(value, bool):
        unix = float(value)
    if not LEAST_UNIX <= unix <= MOST_UNIX:
        raise RequestError(400, f"{name}: {_HOW}", param=name)
    return unix


def shown(unix: float) -> str:
    """ISO 8601 in UTC, to the millisecond: `2026-11-30T08:00:00.000Z`."""
    bounded = min(max(unix, LEAST_UNIX), MOST_UNIX)
    return datetime.fromtimestamp(bounded, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _is_number(text: str) -> bool:
    return text.strip().removeprefix("-").replace(".", "", 1).isdigit()
