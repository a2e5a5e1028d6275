"""The sums of a stretch of time: everything that is kept of requests when they are over. Pure: no I/O, no clock.

Whole numbers only, so that it does not matter in which order records and rollups are added.
"""

from __future__ import annotations

from typing import Final, Self

import msgspec

from openclaw_cache.history import lines, table
from openclaw_cache.history.histogram import Histogram
from openclaw_cache.history.lines import NUM_LINES, Line, Lines
from openclaw_cache.history.prompts import TopPrompts
from openclaw_cache.history.table import Name, Table
from openclaw_cache.observe.metrics import ttft_source
from openclaw_cache.observe.record import RequestRecord

NUM_ROWS: Final = 64
"""Of each table."""

_MOST_INT: Final = 2**63 - 1


class Gauge(msgspec.Struct, array_like=True, order=True):
    """An amount that goes up and down: what it was when it was last read, and the most that it was."""

    at: float
    last: int
    most: int


class Rollup(msgspec.Struct, array_like=True):
    """Sums from `start_at` (unix seconds) on, for `span_s` seconds.

    `tables` has a table for each family, by name:

    - `requests` (api, outcome, status), `errors` (error), `bypasses` (reason): how many;
    - `misses` (reason): how many; of those that went upstream: tokens of prompt and reply that were computed,
      picodollars, how many have a price;
    - `lookups` (layer): how many, and how many hits; of `kv` they are prompt tokens; `flight` has hits only;
    - `prompt_tokens` (source): of forwarded requests;
    - `breaks` (cause, label): how many, tokens lost, tokens kept, picodollars lost, how many have a price;
    - `canonical` (rule): requests, places, bytes, applied, tokens saved;
    - `evictions` (layer, reason), `invalidations` (reason), `degraded` (what): how many;
    - `kv_saved_us` (`kv`): microseconds of prefill that our own engines did not need.
    """

    start_at: int
    span_s: int
    tables: dict[str, Table] = {}
    lines: Lines = {}
    histograms: dict[Name, Histogram] = {}
    """(`ttft`, source), (`itl`,), (`lookup`, layer), (`update`, layer)."""
    prompts: TopPrompts = msgspec.field(default_factory=TopPrompts)
    gauges: dict[Name, Gauge] = {}
    """(node, `bytes` or `capacity_bytes`, layer, tier)."""
    nodes: set[str] = set()
    """Which gateways have something in it."""

    def count(self, family: str, name: Name, *amounts: int) -> None:
        """Add amounts to a row. Cost: O(1)."""
        rows = self.tables.get(family)
        if rows is None:
            rows = self.tables[family] = {}
        table.add(rows, name, amounts, NUM_ROWS)

    def count_one(self, family: str, name: Name, num: int = 1) -> None:
        """The same for a family with one amount, and faster: a hit has few microseconds to spare."""
        try:
            self.tables[family][name][0] += num
        except KeyError:
            self.count(family, name, num)

    def observe(self, name: Name) -> Histogram:
        """The histogram of this name, made where there is none."""
        found = self.histograms.get(name)
        if found is None:
            found = self.histograms[name] = Histogram()
        return found

    def add(self, record: RequestRecord, *, is_own_engine: bool = False) -> None:
        """Count one request. Cost: O(1), 3 to 8 µs.

        Args:
            record: Of a request that is over.
            is_own_engine: Whether an embedded engine of ours was its upstream: then what it had cached is our
                KV cache's saving, and no provider's.
        """
        self.count_one("requests", (record.api, record.outcome, str(record.status)))
        layer = lines.answering_layer(record)
        line = lines.line_of(self.lines, record)
        if layer is None:
            lines.add_forwarded(line, record, self._kv_tokens(record) if is_own_engine else None)
            self._add_forwarded(record)
        else:
            lines.add_answered(line, record, layer)
            self._look_up(layer, int(layer != "flight"), 1)
        if record.error:
            self.count_one("errors", (record.error,))
        if record.miss:
            self._add_miss(record, is_forwarded=layer is None)
        if record.outcome not in ("exact", "semantic"):
            for step in record.steps:
                if step.name == "semantic" and step.result.startswith("miss"):
                    self._look_up("semantic", 1, 0)
        if record.ttft_s is not None and record.outcome != "error":
            self.observe(("ttft", ttft_source(record.outcome, record.tokens_from))).add(record.ttft_s)
        if record.prompt_id:
            self.prompts.add(record, record.at + record.duration_s)

    def _add_miss(self, record: RequestRecord, *, is_forwarded: bool) -> None:
        """Count a look-up that missed, with what the request came to cost."""
        tokens = record.savings.computed_tokens + (record.completion_tokens or 0) if is_forwarded else 0
        spent = record.savings.spent if is_forwarded else None
        self.count("misses", (record.miss,), 1, tokens, spent or 0, int(spent is not None))
        self.count("lookups", ("result",), 1, 0)

    def _look_up(self, layer: str, num: int, num_hits: int) -> None:
        try:
            row = self.tables["lookups"][layer,]
        except KeyError:
            self.count("lookups", (layer,), num, num_hits)
            return
        row[0] += num
        row[1] += num_hits

    def _kv_tokens(self, record: RequestRecord) -> int:
        """Count a look-up in our own engine's cache; returns how many tokens it had."""
        computed = record.tokens_from.get("computed", record.savings.computed_tokens)
        cached = sum(record.tokens_from.values()) - record.tokens_from.get("computed", 0)
        cached = cached or record.savings.upstream_cached_tokens
        if computed or cached:
            self._look_up("kv", computed + cached, cached)
        return cached

    def _add_forwarded(self, record: RequestRecord) -> None:
        if record.outcome == "bypass":
            self.count_one("bypasses", (record.detail or lines.UNKNOWN,))
        for source, num in record.tokens_from.items():
            if num:
                self.count_one("prompt_tokens", (source,), num)
        broken = record.prefix_break
        if broken is not None and broken.cause:
            amounts = (
                1,
                broken.lost_tokens,
                broken.kept_tokens,
                record.lost or 0,
                int(record.lost is not None),
            )
            self.count("breaks", (broken.cause, table.shortened(broken.label)), *amounts)
        self._add_canonical(record)

    def _add_canonical(self, record: RequestRecord) -> None:
        """Count rules. What they saved together is shared out evenly, so that the sum over rules is what was saved."""
        applied = [effect for effect in record.canonical if effect.applied]
        saved = record.canonical_saved_tokens or 0
        for effect in record.canonical:
            share = 0
            if effect.applied:
                share = saved // len(applied) + (saved % len(applied) if effect is applied[0] else 0)
            amounts = 1, effect.num_places, effect.num_bytes, int(effect.applied), share
            self.count("canonical", (effect.rule,), *amounts)

    def absorb(self, other: Rollup) -> Self:
        """Add another's sums to these, and stretch over both; in any order it comes to the same. Cost: O(rows)."""
        end_at = max(self.end_at, other.end_at)
        self.start_at = min(self.start_at, other.start_at)
        self.span_s = end_at - self.start_at
        for family, rows in other.tables.items():
            table.absorb(self.tables.setdefault(family, {}), rows)
        lines.absorb(self.lines, other.lines)
        for name, histogram in other.histograms.items():
            self.observe(name).absorb(histogram)
        self.prompts.absorb(other.prompts)
        for name, gauge in other.gauges.items():
            ours = self.gauges.get(name, gauge)
            later = max(ours, gauge)
            self.gauges[name] = Gauge(later.at, later.last, max(ours.most, gauge.most))
        self.nodes |= other.nodes
        return self

    def trim(self, num_lines: int = NUM_LINES) -> Self:
        """Keep to the bounds: the largest rows stay, the others of a table become one. Sums stay what they are."""
        for rows in self.tables.values():
            table.trim(rows, NUM_ROWS)
        lines.trim(self.lines, num_lines)
        self.prompts.trim()
        return self

    def saturate(self) -> Self:
        """Bring every number into the 64 bits of the stored form. Of money in one line that is 9 million dollars."""
        for rows in self.tables.values():
            for row in rows.values():
                row[:] = [min(amount, _MOST_INT) for amount in row]
        for line in self.lines.values():
            for field in lines.FIELDS:
                setattr(line, field, min(getattr(line, field), _MOST_INT))
        for histogram in self.histograms.values():
            histogram.sum_us = min(histogram.sum_us, _MOST_INT)
        for prompt in self.prompts.rows.values():
            prompt.tokens = min(prompt.tokens, _MOST_INT)
        return self

    # reading

    @property
    def end_at(self) -> int:
        """Where the next one begins."""
        return self.start_at + self.span_s

    @property
    def num_requests(self) -> int:
        """Of all outcomes."""
        return sum(row[0] for row in self.tables.get("requests", {}).values())

    def sums(self, family: str, *, word: int = 0, column: int = 0) -> dict[str, int]:
        """One number of the rows of a family, added up by one word of their names."""
        found: dict[str, int] = {}
        for name, row in self.tables.get(family, {}).items():
            if column < len(row):
                found[name[word]] = found.get(name[word], 0) + row[column]
        return found

    def line(self) -> Line:
        """The sum of all lines."""
        total = Line()
        for line in self.lines.values():
            total.absorb(line)
        return total

    def lines_by(self, word: int) -> dict[str, Line]:
        """The lines, added up by one word of their names: 0 namespace, 1 agent, 2 model, 3 upstream."""
        found: dict[str, Line] = {}
        for name, line in self.lines.items():
            found.setdefault(name[word], Line()).absorb(line)
        return found
