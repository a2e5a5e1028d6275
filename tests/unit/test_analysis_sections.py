"""The sections of an analysis are the sums of its time, and of the time before; by hand."""

from __future__ import annotations

from collections.abc import Mapping

from openclaw_cache.api.analysis import sections
from openclaw_cache.api.analysis.analysis import Analysis
from openclaw_cache.history.buckets import floor
from openclaw_cache.history.rollup import Gauge, Rollup
from openclaw_cache.observe.record import PrefixBreak
from openclaw_cache.observe.savings import Savings
from openclaw_cache.types import Json
from openclaw_cache.units import TimeRange
from support.records import NOON, answered, missed


def rollup(*records: object) -> Rollup:
    found = Rollup(round(NOON), 60)
    for record in records:
        found.add(record)  # type: ignore[arg-type]
    return found


def test_where_prompts_broke_is_a_mean_and_the_dearest_comes_first() -> None:
    def broke(cause: str, kept: int, lost: int) -> PrefixBreak:
        return PrefixBreak(cause, f"the {cause}", "/tools/0", 4 * kept, kept, lost)

    shown = sections.prefixes(
        rollup(
            missed(prefix_break=broke("id", 100, 9000), lost=1_000_000),
            missed(prefix_break=broke("date", 100, 500), lost=3_000_000),
            missed(prefix_break=broke("date", 301, 500), lost=4_000_000),
            missed(prefix_break=broke("path", 10, 90_000)),
        ),
        str.upper,
    )
    rows = [(row["cause"], row["num"], row["lost_tokens"], row["lost_usd"]) for row in shown["causes"]]
    assert rows == [("date", 2, 1000, 7e-6), ("id", 1, 9000, 1e-6), ("path", 1, 90_000, None)]
    assert [row["first_token"] for row in shown["causes"]] == [200, 100, 10]
    assert (shown["num_breaks"], shown["lost_tokens"]) == (4, 100_000)


def test_a_miss_costs_what_it_came_to_and_one_that_we_answered_after_all_nothing() -> None:
    dear = missed(
        miss="expired", savings=Savings(computed_tokens=40, spent=5_000_000, saved=0), completion_tokens=2
    )
    joined = answered("collapsed", miss="expired")
    unpriced = missed(miss="evicted", savings=Savings(computed_tokens=7), completion_tokens=1)
    now = rollup(dear, joined, unpriced)
    assert sections.misses(now) == [
        {"reason": "expired", "num": 2, "share": 0.6667, "computed_tokens": 42, "spent_usd": 5e-6},
        {"reason": "evicted", "num": 1, "share": 0.3333, "computed_tokens": 8, "spent_usd": None},
    ]
    waste = sections.waste(now)
    assert (waste["num_expired_asked_again"], waste["num_evicted_asked_again"]) == (2, 1)
    assert waste["tokens_computed_again"] == 50


def test_memory_is_that_of_all_gateways() -> None:
    now = rollup(answered())
    for node, last, most in (("a", 100, 300), ("b", 50, 70)):
        now.gauges[node, "bytes", "result", "memory"] = Gauge(NOON, last, most)
        now.gauges[node, "capacity_bytes", "result", "memory"] = Gauge(NOON, 500, 500)
    (row,) = sections.memory(now)
    assert (row["bytes"], row["most_bytes"], row["capacity_bytes"], row["used_ratio"]) == (
        150,
        370,
        1000,
        0.15,
    )
    # The hit saved 110 tokens.
    assert (row["layer_saved_tokens"], row["layer_bytes_per_saved_token"]) == (110, 1.36)


class Minutes:
    """Sums by whole minutes, as the history has them."""

    def __init__(self, minutes: Mapping[float, Rollup]) -> None:
        self._minutes = minutes

    async def between(self, start_at: float, end_at: float) -> Rollup:
        found = Rollup(floor(start_at, 60), 0)
        for at, one in self._minutes.items():
            if at + 60 > start_at and at < end_at:
                found.absorb(one)
        return found


class Off:
    async def shown(self, span: TimeRange) -> Json:
        return {"state": "off"}


async def test_no_minute_is_in_the_time_and_in_the_time_before_it_too() -> None:
    """At 12:03:30 `last 1m` is told from 12:02 on, and compared with 12:01."""
    minutes = {}
    for number, num in enumerate((1, 10, 100, 1000)):
        minutes[NOON + 60 * number] = found = Rollup(round(NOON) + 60 * number, 60)
        for _ in range(num):
            found.add(answered())

    async def status() -> Json:
        return {}

    async def fresh() -> None:
        return None

    analysis = Analysis(Off(), Minutes(minutes), status, fresh, wall=lambda: NOON + 210)  # type: ignore[arg-type]
    shown = await analysis.shown(b"time_range=last+1m")
    assert (shown["requests"]["num"], shown["requests"]["before"]) == (1100, 10)
    assert shown["compared_with"] == {"start_at": NOON + 60, "end_at": NOON + 120}
    # Of each, the prompt that was answered counts: 100 tokens.
    assert (shown["load"]["prompt_tokens"], shown["load"]["prompt_tokens_before"]) == (100, 100)
