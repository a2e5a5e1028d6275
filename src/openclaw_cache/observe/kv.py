"""The engines' own figures as metrics: gauges that add up over engines, counters that outlive each of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from openclaw_cache.observe.histogram import Seconds
from openclaw_cache.observe.metrics import Metrics
from openclaw_cache.types import Json

TIERS: Final = ("device", "host", "disk")
STATES: Final = ("free", "running", "new", "hit", "pinned")


class EngineFigures:
    """Takes in what each engine says of its KV cache (`GET /kv/status`); fields that are missing count as 0."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._latest: dict[str, Mapping[str, Json]] = {}
        self._totals: dict[tuple[str, str], tuple[int | None, float]] = {}
        self._timed: dict[tuple[str, str], tuple[int | None, list[int], float]] = {}

    def take(self, upstream: str, pid: int | None, status: Mapping[str, Json]) -> None:
        """Note what the engine of an upstream says now.

        Args:
            upstream: Its name.
            pid: Its process: another one has begun to count from 0.
            status: Its answer.
        """
        self._latest[upstream] = status
        saved_s = self._gain(upstream, pid, "saved_prefill_s", _number(status.get("saved_prefill_s")))
        self._metrics.saved_prefill_seconds.inc(saved_s)
        num_evicted = sum(map(_number, _mapping(status.get("num_evicted_blocks")).values()))
        self._metrics.evictions.labels("kv", "space").inc(
            self._gain(upstream, pid, "num_evicted_blocks", num_evicted)
        )
        for tier, num in _mapping(status.get("num_failures")).items():
            if tier in TIERS:
                gain = self._gain(upstream, pid, f"failures {tier}", _number(num))
                self._metrics.degraded.labels(f"kv_{tier}").inc(gain)
        for what, seconds in (
            ("lookup_s", self._metrics.kv_lookup_seconds),
            ("update_s", self._metrics.kv_update_seconds),
        ):
            self._add_times(upstream, pid, what, _mapping(status.get(what)), seconds)
        self._set_gauges()

    def forget(self, upstream: str) -> None:
        """The engine has ended: what it held is no longer there."""
        if self._latest.pop(upstream, None) is not None:
            self._set_gauges()

    def _gain(self, upstream: str, pid: int | None, what: str, total: float) -> float:
        """How much an engine's total has grown since the last time; its whole where it has begun anew."""
        before_pid, before = self._totals.get((upstream, what), (pid, 0.0))
        self._totals[upstream, what] = (pid, total)
        return total if pid != before_pid or total < before else total - before

    def _add_times(
        self, upstream: str, pid: int | None, what: str, told: Mapping[str, Json], seconds: Seconds
    ) -> None:
        """Add what an engine has measured since the last time. Counts in other buckets are left out."""
        nums, sum_s = told.get("nums"), _number(told.get("sum"))
        now = [int(_number(num)) for num in nums] if isinstance(nums, list) else []
        if len(now) != len(seconds.counts()[0]):
            return
        before_pid, before, before_s = self._timed.get((upstream, what), (pid, [0] * len(now), 0.0))
        self._timed[upstream, what] = (pid, now, sum_s)
        if pid != before_pid or any(a < b for a, b in zip(now, before, strict=True)):
            before, before_s = [0] * len(now), 0.0
        seconds.add([a - b for a, b in zip(now, before, strict=True)], max(0.0, sum_s - before_s))

    def _set_gauges(self) -> None:
        rows = [row for status in self._latest.values() for row in tier_rows(status)]
        for tier in TIERS:
            mine = [row for row in rows if row.get("tier") == tier]
            self._metrics.bytes.labels("kv", tier).set(_sum(mine, "num_bytes"))
            self._metrics.capacity_bytes.labels("kv", tier).set(_sum(mine, "capacity_bytes"))
            blocks = [_mapping(_mapping(status.get("blocks")).get(tier)) for status in self._latest.values()]
            for state in STATES:
                self._metrics.blocks.labels(tier, state).set(_sum(blocks, state))


def tier_rows(status: Mapping[str, Json]) -> list[Mapping[str, Json]]:
    """The rows of `tiers` that are objects."""
    rows = status.get("tiers")
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _sum(rows: Iterable[Mapping[str, Json]], field: str) -> float:
    return sum(_number(row.get(field)) for row in rows)


def _mapping(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, dict) else {}


def _number(value: Json) -> float:
    """A count or amount; 0 where it is none."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 else 0
