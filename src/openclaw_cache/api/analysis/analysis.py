"""What happened in a stretch of time, and what would help: `GET /admin/analyze`."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from openclaw_cache.api.analysis import sections
from openclaw_cache.api.analysis.diagnosis import Kind, diagnosis, load_shift
from openclaw_cache.api.analysis.findings import findings
from openclaw_cache.api.analysis.semantic import SemanticAnalysis
from openclaw_cache.api.analysis.worth import engine_seconds, worth
from openclaw_cache.api.parameters import parameters, time_range_of
from openclaw_cache.history.rollup import Rollup
from openclaw_cache.prefix.causes import CAUSES
from openclaw_cache.types import Json
from openclaw_cache.units import TimeRange

DEFAULT_RANGE: Final = "last 1h"


class Sums(Protocol):
    """What is asked of the history."""

    async def between(self, start_at: float, end_at: float) -> Rollup:
        """The sums of a time."""
        ...


class Analysis:
    """Looks back.

    Args:
        semantic: What the semantic cache's own record says.
        history: The sums of any time; None where none are kept.
        status: What `/admin/status` says now.
        fresh: Brings what the history has of the metrics up to date.
        wall: Unix seconds.
    """

    def __init__(
        self,
        semantic: SemanticAnalysis,
        history: Sums | None,
        status: Callable[[], Awaitable[Json]],
        fresh: Callable[[], Awaitable[None]],
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._semantic = semantic
        self._history = history
        self._status = status
        self._fresh = fresh
        self._wall = wall

    async def shown(self, query: bytes) -> Json:
        """All sections for the `time_range` of a query. Takes up to a second, beside the loop. Raises RequestError."""
        text = parameters(query, ("time_range",)).get("time_range", DEFAULT_RANGE)
        span = time_range_of(text, self._wall())
        shown: dict[str, Json] = {
            "time_range": {"text": text, "start_at": span.start_at, "end_at": span.end_at},
            "semantic": await self._semantic.shown(span),
        }
        return shown if self._history is None else shown | await self._looked_back(self._history, span, shown)

    async def _looked_back(self, history: Sums, span: TimeRange, shown: dict[str, Json]) -> dict[str, Json]:
        """Everything that the sums of this time and of the one before tell."""
        length = span.end_at - span.start_at
        await self._fresh()
        now = await history.between(span.start_at, span.end_at)
        # What is told begins with a whole minute (or hour, or day): the time before ends there, so none is in both.
        before = await history.between(now.start_at - length, now.start_at)
        status = await self._status()
        value = worth(now, engine_seconds(status))
        found: dict[str, Json] = {
            "compared_with": {"start_at": now.start_at - length, "end_at": now.start_at},
            "num_nodes": len(now.nodes),
            "requests": sections.requests(now, before),
            "saved": sections.saved(now),
            "hit_ratio": sections.hit_ratios(now, before),
            "misses": sections.misses(now),
            "prefixes": sections.prefixes(now, _advice),
            "top_prompts": sections.top_prompts(now),
            "waste": sections.waste(now),
            "memory": sections.memory(now),
            "latency": sections.latencies(now),
            "invalidations": now.sums("invalidations"),
        }
        read = found | {"semantic": shown["semantic"], "lines": now.lines_by(3)}
        shift = load_shift(_kinds(now), _kinds(before), (_mean_prompt(now), _mean_prompt(before)))
        return found | {
            "findings": findings(read, status, value, prices_known=value.usd_per_token is not None),
            "diagnosis": diagnosis(read, status, shift),
            "load": shift,
        }


def _advice(cause: str) -> str:
    known = CAUSES.get(cause)
    return "" if known is None else known.fix


def _kinds(rollup: Rollup) -> dict[Kind, int]:
    """Requests by agent and model."""
    found: dict[Kind, int] = {}
    for (_namespace, agent, model, _upstream), line in rollup.lines.items():
        found[agent, model] = found.get((agent, model), 0) + line.num_requests
    return found


def _mean_prompt(rollup: Rollup) -> float:
    line = rollup.line()
    num_tokens = line.forwarded_prompt_tokens + line.answered_prompt_tokens
    return num_tokens / line.num_requests if line.num_requests else 0.0
