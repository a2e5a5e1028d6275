"""Every Prometheus metric of the gateway, in one place. No prompt text and no unbounded label."""

from __future__ import annotations

import time

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from openclaw_cache.observe.prices import PICODOLLARS
from openclaw_cache.observe.savings import Savings
from openclaw_cache.observe.window import Window

CONTENT_TYPE = CONTENT_TYPE_LATEST
WINDOW_S = 900.0

_LATENCY_BUCKETS = (
    0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5,
)  # fmt: skip
_TTFT_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)

APIS = ("chat", "completions", "responses", "messages", "count_tokens", "embeddings", "relay")
OUTCOMES = ("exact", "semantic", "collapsed", "miss", "bypass", "error")
LAYERS = ("result", "semantic", "flight", "kv")
SOURCES = ("computed", "device", "host", "disk")
DEGRADED = (
    "store_unavailable", "store_full", "entry_corrupt", "entry_key_unknown", "write_overflow",
    "epoch_unknown", "kv_host", "kv_disk", "embedding", "embedding_slow", "semantic", "judge",
    "memory_store", "memory_vectors", "memory_embedding",
)  # fmt: skip


class Metrics:
    """The gateway's instruments. One instance per process; tests make their own."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        r = self.registry
        self.requests = Counter(
            "openclaw_cache_requests", "Requests by API and outcome.", ["api", "outcome"], registry=r
        )
        self.lookup_seconds = Histogram(
            "openclaw_cache_lookup_seconds",
            "Time of one look-up in a layer.",
            ["layer"],
            buckets=_LATENCY_BUCKETS,
            registry=r,
        )
        self.update_seconds = Histogram(
            "openclaw_cache_update_seconds",
            "Time to add one entry to a layer.",
            ["layer"],
            buckets=_LATENCY_BUCKETS,
            registry=r,
        )
        self.ttft_seconds = Histogram(
            "openclaw_cache_ttft_seconds",
            "Seconds from the request's arrival to the first byte of its reply, by where it came from.",
            ["source"],
            buckets=_TTFT_BUCKETS,
            registry=r,
        )
        self.prompt_tokens = Counter(
            "openclaw_cache_prompt_tokens",
            "Prompt tokens of forwarded requests, by where their KV came from.",
            ["source"],
            registry=r,
        )
        self.saved_tokens = Counter(
            "openclaw_cache_saved_tokens",
            "Tokens (of kv: prompt tokens; else prompt and completion) that no model had to compute.",
            ["layer"],
            registry=r,
        )
        self.saved_prefill_seconds = Counter(
            "openclaw_cache_saved_prefill_seconds",
            "Seconds of prefill that the embedded engines did not need, by their own measure of a token's cost.",
            registry=r,
        )
        self._add_ratios(r)
        self._add_tiers(r)
        self._add_upstreams(r)
        self._add_semantic(r)
        self._name_children()

    def _add_ratios(self, r: CollectorRegistry) -> None:
        """Hits of the last minutes, by layer."""
        self.hit_window = Window(WINDOW_S)
        self.kv_window = Window(WINDOW_S)
        ratio = Gauge(
            "openclaw_cache_hit_ratio",
            "Hits / look-ups (of kv: prompt tokens) over the last 15 minutes.",
            ["layer"],
            registry=r,
        )
        ratio.labels("result").set_function(lambda: self.hit_window.ratio(time.monotonic()))
        self.semantic_window = Window(WINDOW_S)
        ratio.labels("semantic").set_function(lambda: self.semantic_window.ratio(time.monotonic()))
        ratio.labels("kv").set_function(lambda: self.kv_window.ratio(time.monotonic()))

    def _add_tiers(self, r: CollectorRegistry) -> None:
        """What is kept where, and what became of it."""
        self.evictions = Counter(
            "openclaw_cache_evictions", "Entries removed, by reason.", ["layer", "reason"], registry=r
        )
        self.invalidations = Counter(
            "openclaw_cache_invalidations", "Invalidations carried out.", ["reason"], registry=r
        )
        self.degraded = Counter(
            "openclaw_cache_degraded", "Failures of a part that became a miss.", ["what"], registry=r
        )
        self.bytes = Gauge("openclaw_cache_bytes", "Bytes in use.", ["layer", "tier"], registry=r)
        self.capacity_bytes = Gauge(
            "openclaw_cache_capacity_bytes", "Bytes that may be used.", ["layer", "tier"], registry=r
        )
        self.blocks = Gauge(
            "openclaw_cache_blocks", "KV blocks of the embedded engines.", ["tier", "state"], registry=r
        )

    def _add_upstreams(self, r: CollectorRegistry) -> None:
        """What upstreams were asked for, and what of it was kept."""
        self.upstream_retries = Counter(
            "openclaw_cache_upstream_retries", "Upstream calls repeated before any byte came.", registry=r
        )
        self.negative_hits = Counter(
            "openclaw_cache_negative_hits",
            "Requests answered with the failure that the same one had a moment ago.",
            registry=r,
        )
        self.screened = Counter(
            "openclaw_cache_screened",
            "Replies in which, or in whose prompts, secrets or personal data were found, and what was done.",
            ["what", "action"],
            registry=r,
        )
        self.upstream_cached_tokens = Counter(
            "openclaw_cache_upstream_cached_tokens",
            "Prompt tokens of forwarded requests that upstreams read from their own caches.",
            registry=r,
        )
        self.cost_usd = Counter(
            "openclaw_cache_cost_usd",
            "Money by the price table: spent on upstreams, and saved by replies that were answered here.",
            ["kind"],
            registry=r,
        )

    def _add_semantic(self, r: CollectorRegistry) -> None:
        """What was given by meaning, and how good it was."""
        self.semantic_lookups = Counter(
            "openclaw_cache_semantic_lookups",
            "Questions that could have been answered by meaning: hit, or what was against it.",
            ["verdict"],
            registry=r,
        )
        self.semantic_verified = Counter(
            "openclaw_cache_semantic_verified",
            "Candidates (hit or refused) whose reply was compared with the model's own, by outcome.",
            ["what", "outcome"],
            registry=r,
        )
        self.semantic_wrong_ratio = Gauge(
            "openclaw_cache_semantic_wrong_ratio",
            "Estimated share of wrong replies among those given by meaning, with its 95 % interval.",
            ["domain", "bound"],
            registry=r,
        )
        self.semantic_recall = Gauge(
            "openclaw_cache_semantic_recall",
            "Estimated share of the questions with a right stored reply that got it, with its 95 % interval.",
            ["domain", "bound"],
            registry=r,
        )
        self.semantic_samples = Gauge(
            "openclaw_cache_semantic_samples",
            "How many outcomes an estimate rests on.",
            ["domain", "estimate"],
            registry=r,
        )

    def _name_children(self) -> None:
        """Find the children of the hot path once: `labels` costs more than the count itself."""
        self.requests_by = {api: {o: self.requests.labels(api, o) for o in OUTCOMES} for api in APIS}
        self.ttft = {
            source: self.ttft_seconds.labels(source) for source in ("result", "semantic", "upstream")
        }
        self.result_lookup_seconds = self.lookup_seconds.labels("result")
        self.result_update_seconds = self.update_seconds.labels("result")
        self.semantic_lookup_seconds = self.lookup_seconds.labels("semantic")
        self.memory_lookup_seconds = self.lookup_seconds.labels("memory")
        self.memory_update_seconds = self.update_seconds.labels("memory")
        self.result_saved_tokens = self.saved_tokens.labels("result")
        self.saved_tokens_by = {
            "exact": self.result_saved_tokens,
            "semantic": self.saved_tokens.labels("semantic"),
            "collapsed": self.saved_tokens.labels("flight"),
        }
        self.kv_saved_tokens = self.saved_tokens.labels("kv")
        self.prompt_tokens_from = {source: self.prompt_tokens.labels(source) for source in SOURCES}
        for what in DEGRADED:  # so that a first failure is a rise from 0
            self.degraded.labels(what)

    def count_savings(self, savings: Savings, outcome: str) -> None:
        """Count what one request cost or saved. Its provider's own cache is counted apart from ours."""
        if savings.upstream_cached_tokens:
            self.upstream_cached_tokens.inc(savings.upstream_cached_tokens)
        if savings.spent:
            self.cost_usd.labels("spent").inc(savings.spent / PICODOLLARS)
        if savings.saved:
            self.cost_usd.labels("saved").inc(savings.saved / PICODOLLARS)
        if savings.answered_prompt_tokens or savings.answered_completion_tokens:
            prompt_tokens = savings.answered_prompt_tokens - savings.would_be_cached_tokens
            self.saved_tokens_by[outcome].inc(prompt_tokens + savings.answered_completion_tokens)

    def text(self) -> bytes:
        """The exposition text of all instruments."""
        return generate_latest(self.registry)
