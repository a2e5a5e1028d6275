"""The savings ledger over HTTP: `GET /admin/savings`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC
from typing import Final, NamedTuple

from openclaw_cache.api.history import kept
from openclaw_cache.api.parameters import parameters, time_range_of
from openclaw_cache.errors import RequestError
from openclaw_cache.history.buckets import DAY_S, DAYS, floor
from openclaw_cache.history.history import History
from openclaw_cache.history.ledger import DIMENSIONS, Ledger
from openclaw_cache.history.ledger_forms import as_csv, as_json
from openclaw_cache.types import Json
from openclaw_cache.units import TimeRange

DEFAULT_RANGE: Final = "last 30d"
DEFAULT_BY: Final = "day"
FORMATS: Final = ("json", "csv")


class Csv(NamedTuple):
    """An answer that is a file, not JSON."""

    body: bytes
    content_type: bytes = b"text/csv; charset=utf-8"
    disposition: bytes = b'attachment; filename="savings.csv"'


class SavingsAdmin:
    """Adds up what was spent and saved. Days are days of UTC, also in the range of time.

    Args:
        history: The sums of any time; None where none are kept.
        wall: Unix seconds.
    """

    def __init__(self, history: History | None, wall: Callable[[], float] = time.time) -> None:
        self._history = history
        self._wall = wall

    async def shown(self, query: bytes) -> Json:
        """The ledger for `time_range`, `by` and `format` (`Csv` where asked) of a query. Raises RequestError."""
        asked = parameters(query, ("time_range", "by", "format"))
        form = asked.get("format", FORMATS[0])
        if form not in FORMATS:
            message = f"format: {form!r} is none: write {' or '.join(FORMATS)}"
            raise RequestError(400, message, param="format")
        text, by = asked.get("time_range", DEFAULT_RANGE), dimensions(asked.get("by", DEFAULT_BY))
        span = time_range_of(text, self._wall(), UTC)
        history = kept(self._history)
        ledger = await _ledger(history, span, by, self._wall())
        if form == "csv":
            return Csv(as_csv(ledger).encode())
        return {
            "time_range": {"text": text, "start_at": span.start_at, "end_at": span.end_at},
            "is_complete": history.is_complete,
            **as_json(ledger),
        }


def dimensions(text: str) -> list[str]:
    """What sums are by, from `day,agent`; nothing is one sum. Raises RequestError."""
    by = [each.strip() for each in text.split(",") if each.strip()]
    for each in by:
        if each not in DIMENSIONS:
            raise RequestError(
                400, f"by: {each!r} is none: write some of {', '.join(DIMENSIONS)}", param="by"
            )
        if by.count(each) > 1:
            raise RequestError(400, f"by: {each!r} is given twice", param="by")
    return by


async def _ledger(history: History, span: TimeRange, by: Sequence[str], now: float) -> Ledger:
    ledger = Ledger(by)
    start_at, end_at = max(span.start_at, now - DAYS.keep_s - DAY_S), min(span.end_at, now)
    if "day" not in by:
        ledger.add(await history.between(start_at, end_at))
        return ledger
    for day_at in range(floor(start_at, DAY_S), floor(end_at, DAY_S) + 1, DAY_S):
        begin, end = max(start_at, day_at), min(end_at, day_at + DAY_S)
        if begin < end:
            ledger.add(await history.between(begin, end))
    return ledger
