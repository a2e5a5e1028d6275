"""What is taken from the metrics: what has grown since the last time, and no more."""

from __future__ import annotations

import pytest

from openclaw_cache.history.figures import Figures
from openclaw_cache.history.rollup import Rollup
from openclaw_cache.observe.metrics import Metrics

NODE = "0" * 16


def test_counters_count_once_and_gauges_as_they_are() -> None:
    metrics = Metrics()
    figures = Figures(metrics)
    metrics.evictions.labels("result", "space").inc(5)
    metrics.invalidations.labels("model").inc()
    metrics.degraded.labels("store_unavailable").inc(2)
    metrics.saved_prefill_seconds.inc(1.25)
    metrics.bytes.labels("kv", "host").set(1000)
    metrics.capacity_bytes.labels("kv", "host").set(4000)
    first, second = Rollup(0, 60), Rollup(60, 60)
    figures.take(first, NODE, 10.0)
    metrics.evictions.labels("result", "space").inc(3)
    metrics.saved_prefill_seconds.inc(0.5)
    metrics.bytes.labels("kv", "host").set(500)
    figures.take(second, NODE, 70.0)
    assert first.tables["evictions"] == {("result", "space"): [5]}
    assert second.tables["evictions"] == {("result", "space"): [3]}
    assert first.tables["degraded"] == {("store_unavailable",): [2]}
    assert first.tables["invalidations"] == {("model",): [1]}
    assert "invalidations" not in second.tables
    assert first.absorb(second).sums("kv_saved_us") == {"kv": 1_750_000}
    gauge = first.gauges[NODE, "bytes", "kv", "host"]
    assert (gauge.last, gauge.most) == (500, 1000)


def test_durations_come_as_often_as_they_were_counted_near_to_where_they_were() -> None:
    metrics = Metrics()
    figures = Figures(metrics)
    for _ in range(1000):
        metrics.lookup_seconds.labels("result").observe(0.00004)
    for _ in range(9):
        metrics.itl_seconds.all.observe(0.012)
    first, second = Rollup(0, 60), Rollup(60, 60)
    figures.take(first, NODE, 10.0)
    metrics.itl_seconds.all.observe(0.012)
    figures.take(second, NODE, 70.0)
    lookup = first.histograms["lookup", "result"]
    assert lookup.num == 1000
    # They lie in the metric's bucket from 25 to 50 µs.
    assert 25e-6 <= (lookup.quantile(0.5) or 0) <= 50e-6
    assert (first.histograms["itl",].num, second.histograms["itl",].num) == (9, 1)
    assert ("lookup", "result") not in second.histograms
    assert second.histograms["itl",].quantile(0.5) == pytest.approx(0.0125, rel=0.25)
