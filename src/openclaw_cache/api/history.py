"""What happened over time, in points for a chart: `GET /admin/history`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from openclaw_cache.api.parameters import parameters, time_range_of
from openclaw_cache.errors import RequestError
from openclaw_cache.history.histogram import Histogram
from openclaw_cache.history.history import History, added_up
from openclaw_cache.history.lines import Line
from openclaw_cache.history.rollup import Rollup
from openclaw_cache.history.table import OTHER, surplus
from openclaw_cache.observe.prices import PICODOLLARS
from openclaw_cache.types import Json

DEFAULT_RANGE: Final = "last 1h"
DEFAULT_POINTS: Final = 60
MOST_POINTS: Final = 1000
_NUM_NAMES: Final = 100


class HistoryAdmin:
    """Shows the sums of a time.

    Args:
        history: All of them; None where none are kept.
        refresh: Brings what it has of the metrics up to date.
        wall: Unix seconds.
    """

    def __init__(
        self,
        history: History | None,
        refresh: Callable[[], Awaitable[None]],
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._history = history
        self._refresh = refresh
        self._wall = wall

    async def shown(self, query: bytes) -> Json:
        """Points and their sum, for `time_range` and `points` of a query. Raises RequestError."""
        asked = parameters(query, ("time_range", "points"))
        text = asked.get("time_range", DEFAULT_RANGE)
        span = time_range_of(text, self._wall())
        num_points = _points(asked.get("points"))
        history = kept(self._history)
        await self._refresh()
        series = await history.series(span.start_at, span.end_at, num_points)
        total = await added_up(series, series[0].start_at, series[0].span_s)
        shown = []
        for rollup in series:
            shown.append(point(rollup))
            await asyncio.sleep(0)  # a tenth of a millisecond each: requests go first
        return {
            "time_range": {"text": text, "start_at": span.start_at, "end_at": span.end_at},
            "step_s": series[0].span_s,
            "num_nodes": len(total.nodes),
            "is_complete": history.is_complete,
            "points": shown,
            "total": point(total),
            "by_agent": _named(total.lines_by(1)),
            "by_model": _named(total.lines_by(2)),
            "by_namespace": _named(total.lines_by(0)),
        }


def kept(history: History | None) -> History:
    """The history. Raises RequestError (409) where none is kept."""
    if history is None:
        message = "no history is kept: set observe.history: true, and start anew"
        raise RequestError(409, message, code="history_off")
    return history


def point(rollup: Rollup) -> dict[str, Json]:
    """The sums of one stretch of time."""
    line = rollup.line()
    lookups, hits = rollup.sums("lookups"), rollup.sums("lookups", column=1)
    return {
        "at": rollup.start_at,
        "requests": rollup.sums("requests", word=1),
        "hit_ratio": {
            layer: round(hits.get(layer, 0) / lookups[layer], 4) if lookups.get(layer) else None
            for layer in ("result", "semantic", "kv")
        },
        "lookups": {layer: num for layer, num in lookups.items() if num},
        "hits": {layer: num for layer, num in hits.items() if num},
        "prompt_tokens": rollup.sums("prompt_tokens"),
        "saved_tokens": _known(
            result=line.result_saved_tokens,
            semantic=line.semantic_saved_tokens,
            flight=line.flight_saved_tokens,
            kv=line.kv_saved_tokens,
        ),
        "ttft_s": {name[1]: quantiles(each) for name, each in rollup.histograms.items() if name[0] == "ttft"},
        "itl_s": quantiles(rollup.histograms.get(("itl",), Histogram())),
        "spent_usd": line.spent / PICODOLLARS,
        "saved_usd": line.saved / PICODOLLARS,
        "saved_s": line.saved_us / 1e6,
        "kv_saved_s": sum(rollup.sums("kv_saved_us").values()) / 1e6,
        "misses": rollup.sums("misses"),
        "bypasses": rollup.sums("bypasses"),
        "breaks": _joined(rollup, "breaks", ("num", "lost_tokens", "kept_tokens"), (0, 1, 2)),
        "canonical": _joined(
            rollup, "canonical", ("num", "bytes", "num_applied", "saved_tokens"), (0, 2, 3, 4)
        ),
        "evictions": rollup.sums("evictions"),
    }


def quantiles(histogram: Histogram) -> dict[str, Json]:
    """Median and 95th percentile, within 4.4 %."""
    p50, p95 = histogram.quantile(0.5), histogram.quantile(0.95)
    return {
        "p50": None if p50 is None else round(p50, 7),
        "p95": None if p95 is None else round(p95, 7),
        "num": histogram.num,
    }


def _joined(
    rollup: Rollup, family: str, fields: Iterable[str], columns: Iterable[int]
) -> dict[str, dict[str, int]]:
    """Several numbers of each row of a family, by the first word of their names."""
    found: dict[str, dict[str, int]] = {}
    for field, column in zip(fields, columns, strict=True):
        for word, num in rollup.sums(family, column=column).items():
            found.setdefault(word, {})[field] = num
    return found


def _named(lines: dict[str, Line]) -> list[Json]:
    """Lines for a table, the most requests first; the smallest of very many are one."""
    for (name,) in surplus([(each,) for each in lines], _NUM_NAMES, lambda name: lines[name[0]].num_requests):
        lines.setdefault(OTHER, Line()).absorb(lines.pop(name))
    rows = sorted(lines.items(), key=lambda item: (-item[1].num_requests, item[0]))
    return [
        {
            "name": name,
            "num_requests": line.num_requests,
            "num_answered": line.num_answered,
            "saved_tokens": line.answered_saved_tokens,
            "kv_saved_tokens": line.kv_saved_tokens,
            "computed_tokens": line.computed_tokens,
            "upstream_cached_tokens": line.upstream_cached_tokens,
            "saved_s": line.saved_us / 1e6,
            "spent_usd": line.spent / PICODOLLARS,
            "saved_usd": line.saved / PICODOLLARS,
        }
        for name, line in rows
    ]


def _known(**tokens: int) -> dict[str, int]:
    return {layer: num for layer, num in tokens.items() if num}


def _points(text: str | None) -> int:
    asked = str(DEFAULT_POINTS) if text is None else text
    num = int(asked) if asked.isascii() and asked.isdigit() and len(asked) < 5 else 0
    if not 1 <= num <= MOST_POINTS:
        raise RequestError(400, f"points: {asked[:40]!r} is not from 1 to {MOST_POINTS}", param="points")
    return num
