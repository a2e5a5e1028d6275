"""What no request's record tells: evictions, failures, sizes and latencies, as the metrics have counted them since."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Final

from prometheus_client.registry import Collector

from openclaw_cache.history.rollup import Gauge, Rollup
from openclaw_cache.history.table import Name
from openclaw_cache.observe.histogram import SecondsHistogram
from openclaw_cache.observe.metrics import Metrics

_INFINITE: Final = float("inf")


class Figures:
    """Reads how much the process's counters have grown since the last time.

    Durations come in the buckets of the metric, and are spread evenly inside them.

    Args:
        metrics: The process's.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._before: dict[tuple[str, Name], float] = {}

    def take(self, rollup: Rollup, node: str, at: float) -> None:
        """Add to a rollup what has come since the last time. Cost: 0.5 ms."""
        metrics = self._metrics
        self._take_counts(rollup, "evictions", metrics.evictions, ("layer", "reason"))
        self._take_counts(rollup, "invalidations", metrics.invalidations, ("reason",))
        self._take_counts(rollup, "degraded", metrics.degraded, ("what",))
        for _, value in _samples(metrics.saved_prefill_seconds, "_total"):
            if saved_us := self._grown("kv_saved_us", ("kv",), round(value * 1e6)):
                rollup.count("kv_saved_us", ("kv",), round(saved_us))
        self._take_seconds(rollup, "lookup", metrics.lookup_seconds)
        self._take_seconds(rollup, "update", metrics.update_seconds)
        self._take_seconds(rollup, "itl", metrics.itl_seconds)
        for what, gauge in (("bytes", metrics.bytes), ("capacity_bytes", metrics.capacity_bytes)):
            for labels, value in _samples(gauge, ""):
                name = (node, what, labels["layer"], labels["tier"])
                rollup.gauges[name] = Gauge(at, round(value), round(value))

    def _take_counts(self, rollup: Rollup, family: str, counter: Collector, labels: Name) -> None:
        for values, value in _samples(counter, "_total"):
            name = tuple(values[label] for label in labels)
            if grown := round(self._grown(family, name, value)):
                rollup.count(family, name, grown)

    def _take_seconds(self, rollup: Rollup, what: str, metric: SecondsHistogram) -> None:
        edges = list(pairwise((0.0, *metric.bounds, _INFINITE)))
        for layer, seconds in metric.children().items():
            for (least_s, most_s), num in zip(edges, seconds.counts()[0], strict=True):
                if grown := round(self._grown(what, (layer, str(most_s)), num)):
                    rollup.observe((what, layer) if layer else (what,)).add_between(least_s, most_s, grown)

    def _grown(self, family: str, name: Name, value: float) -> float:
        before = self._before.get((family, name), 0.0)
        self._before[family, name] = value
        return max(0.0, value - before)


def _samples(collector: Collector, suffix: str) -> Iterator[tuple[Mapping[str, str], float]]:
    for metric in collector.collect():
        for sample in metric.samples:
            if sample.name == metric.name + suffix:
                yield sample.labels, sample.value
