"""Every Prometheus metric of the gateway, in one place. No prompt text and no unbounded label."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from openclaw_cache import __version__
from openclaw_cache.observe.histogram import ITL_BUCKETS, LATENCY_BUCKETS, TTFT_BUCKETS, SecondsHistogram
from openclaw_cache.observe.prices import PICODOLLARS
from openclaw_cache.observe.record import MISSES, RequestRecord
from openclaw_cache.observe.savings import Savings
from openclaw_cache.observe.window import Window

CONTENT_TYPE = CONTENT_TYPE_LATEST
WINDOW_S = 900.0

APIS = ("chat", "completions", "responses", "messages", "count_tokens", "embeddings", "relay")
OUTCOMES = ("exact", "semantic", "collapsed", "miss", "bypass", "error")
LAYERS = ("result", "semantic", "flight", "kv")
SOURCES = ("computed", "device", "host", "disk")
TTFT_SOURCES = ("result", "semantic", "flight", *SOURCES, "upstream")
UPSTREAM_RESULTS = ("ok", "client_error", "limited", "server_error", "failed")
"""Of one call: 2xx; 4xx; 429; 5xx; no reply at all."""
OTHER: Final = "other"
"""The label of what was not named when the process began: no label's values grow without bound."""
_UNTOLD_MISS: Final = "namespace"
"""Counted as `new`: where clients have keys, they may read the metrics, and by this count they could ask which prompts
another namespace has. `/admin/requests` and the history tell it, to operators."""
EVICTIONS = (
    ("result", "space"), ("result", "pattern"), ("semantic", "pattern"), ("kv", "space"), ("kv", "pattern"),
    ("memory", "pattern"),
)  # fmt: skip
DEGRADED = (
    "store_unavailable", "store_full", "entry_corrupt", "entry_key_unknown", "write_overflow",
    "epoch_unknown", "kv_host", "kv_disk", "embedding", "embedding_slow", "semantic", "judge",
    "memory_store", "memory_vectors", "memory_embedding", "history", "prefix_watch",
    "canonical", "misses", "record",
)  # fmt: skip

_LAYER_OF: Final = {"exact": "result", "semantic": "semantic", "collapsed": "flight"}


def ttft_source(outcome: str, tokens_from: Mapping[str, int]) -> str:
    """Where a reply came from, for the label of its TTFT: one of `TTFT_SOURCES`.

    Of what an upstream computed, the lowest tier that had a part of the prompt's KV, since that is what was waited
    for; `computed` where none had, `upstream` where nobody told.

    Args:
        outcome: One of `OUTCOMES`.
        tokens_from: The prompt's tokens by source; empty where they are not known.
    """
    if outcome in _LAYER_OF:
        return _LAYER_OF[outcome]
    if not tokens_from:
        return "upstream"
    return next((tier for tier in ("disk", "host", "device") if tokens_from.get(tier)), "computed")


class Metrics:
    """The gateway's instruments. One instance per process; tests make their own."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        r = self.registry
        self.requests = Counter(
            "openclaw_cache_requests", "Requests by API and outcome.", ["api", "outcome"], registry=r
        )
        self.lookup_seconds = SecondsHistogram(
            "openclaw_cache_lookup_seconds", "Time of one look-up in a layer.", "layer", LATENCY_BUCKETS, r
        )
        self.update_seconds = SecondsHistogram(
            "openclaw_cache_update_seconds", "Time to add one entry to a layer.", "layer", LATENCY_BUCKETS, r
        )
        self.ttft_seconds = SecondsHistogram(
            "openclaw_cache_ttft_seconds",
            "Seconds from the request's arrival to the first byte of its reply, by where it came from.",
            "source",
            TTFT_BUCKETS,
            r,
        )
        self.itl_seconds = SecondsHistogram(
            "openclaw_cache_itl_seconds",
            "Seconds from one token of a streamed reply to the next, as its upstream sends them.",
            None,
            ITL_BUCKETS,
            r,
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
        self._add_reasons(r)
        self._add_process(r)
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
        self.upstream_up = Gauge(
            "openclaw_cache_upstream_up",
            "Whether an upstream can be asked now (1) or not (0): a pod of it is not ejected, or its engine is ready.",
            ["upstream"],
            registry=r,
        )
        self.upstream_replies = Counter(
            "openclaw_cache_upstream_replies",
            "Calls of upstreams, repeated ones too, by what came: ok, client_error, limited, server_error, failed.",
            ["upstream", "result"],
            registry=r,
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
        self.semantic_max_wrong_ratio = Gauge(
            "openclaw_cache_semantic_max_wrong_ratio",
            "The share of wrong replies that is promised: `semantic_cache.max_wrong_ratio`.",
            ["domain"],
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

    def _add_reasons(self, r: CollectorRegistry) -> None:
        """Why something was not reused, and what was done for it."""
        self.misses = Counter(
            "openclaw_cache_misses",
            "Look-ups in the result cache that found nothing, by why.",
            ["reason"],
            registry=r,
        )
        self.prefix_breaks = Counter(
            "openclaw_cache_prefix_breaks",
            "Prompts that left the one before in their session before their common content ended, by what differed.",
            ["cause"],
            registry=r,
        )
        self.prefix_lost_tokens = Counter(
            "openclaw_cache_prefix_lost_tokens",
            "Tokens behind such a place that both prompts have, and that were computed again.",
            ["cause"],
            registry=r,
        )
        self.canonical = Counter(
            "openclaw_cache_canonical",
            "Requests in which a rule of the prefix canonicaliser found something, and whether it was applied.",
            ["rule", "applied"],
            registry=r,
        )
        self.saved_seconds = Counter(
            "openclaw_cache_saved_seconds",
            "Estimated seconds that clients did not wait, against what the same upstream took for such requests.",
            ["layer"],
            registry=r,
        )

    def _add_process(self, r: CollectorRegistry) -> None:
        """What runs, and what it takes of the machine (Linux only)."""
        ProcessCollector(registry=r)
        build = Gauge(
            "openclaw_cache_build_info",
            "Always 1; the labels say what runs.",
            ["version", "python"],
            registry=r,
        )
        build.labels(__version__, platform.python_version()).set(1)

    def _name_children(self) -> None:
        """Find the children of the hot path once: `labels` costs more than the count itself."""
        self.requests_by = {api: {o: self.requests.labels(api, o) for o in OUTCOMES} for api in APIS}
        self.ttft = {source: self.ttft_seconds.labels(source) for source in TTFT_SOURCES}
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
        for layer, reason in EVICTIONS:
            self.evictions.labels(layer, reason)
        self._spent_usd, self._saved_usd = self.cost_usd.labels("spent"), self.cost_usd.labels("saved")
        self.invalidations.labels("model")
        self.kv_lookup_seconds = self.lookup_seconds.labels("kv")
        self.kv_update_seconds = self.update_seconds.labels("kv")
        self._saved_seconds = {o: self.saved_seconds.labels(layer) for o, layer in _LAYER_OF.items()}
        self._misses = {reason: self.misses.labels(reason) for reason in MISSES if reason != _UNTOLD_MISS}
        self._misses[_UNTOLD_MISS] = self._misses["new"]
        self._breaks: dict[str, tuple[Counter, Counter]] = {}
        self._effects: dict[tuple[str, bool], Counter] = {}
        self.name_causes([OTHER])
        self.name_rules([OTHER])

    def name_causes(self, causes: Iterable[str]) -> None:
        """Say which causes a prefix can break for; any other counts as `other`."""
        for cause in causes:
            self._breaks[cause] = (self.prefix_breaks.labels(cause), self.prefix_lost_tokens.labels(cause))

    def name_rules(self, rules: Iterable[str]) -> None:
        """Say which rules the canonicaliser has; any other counts as `other`."""
        for rule in rules:
            for applied in (True, False):
                self._effects[rule, applied] = self.canonical.labels(rule, str(applied).lower())

    def replies_of(self, upstream: str) -> Callable[[str], None]:
        """What is told of each call of an upstream: one of `UPSTREAM_RESULTS`."""
        children = {result: self.upstream_replies.labels(upstream, result) for result in UPSTREAM_RESULTS}
        return lambda result: children[result].inc()

    def add(self, record: RequestRecord) -> None:
        """Count why a request missed, where its prefix broke, and what the canonicaliser did. O(1), never fails."""
        if record.miss:
            (self._misses.get(record.miss) or self.misses.labels(OTHER)).inc()
        if (found := record.prefix_break) is not None:
            breaks, lost_tokens = self._breaks.get(found.cause) or self._breaks[OTHER]
            breaks.inc()
            lost_tokens.inc(max(0, found.lost_tokens))
        for effect in record.canonical:
            (self._effects.get((effect.rule, effect.applied)) or self._effects[OTHER, effect.applied]).inc()
        if record.saved_s > 0 and (saved := self._saved_seconds.get(record.outcome)) is not None:
            saved.inc(record.saved_s)

    def count_savings(self, savings: Savings, outcome: str) -> None:
        """Count what one request cost or saved. Its provider's own cache is counted apart from ours."""
        if savings.upstream_cached_tokens:
            self.upstream_cached_tokens.inc(savings.upstream_cached_tokens)
        if savings.spent:
            self._spent_usd.inc(savings.spent / PICODOLLARS)
        if savings.saved:
            self._saved_usd.inc(savings.saved / PICODOLLARS)
        if savings.answered_prompt_tokens or savings.answered_completion_tokens:
            prompt_tokens = savings.answered_prompt_tokens - savings.would_be_cached_tokens
            self.saved_tokens_by[outcome].inc(prompt_tokens + savings.answered_completion_tokens)

    def text(self) -> bytes:
        """The exposition text of all instruments."""
        return generate_latest(self.registry)
