"""Rollups add up in any order; a cover of a time leaves nothing out and counts nothing twice."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw_cache.history.buckets import DAY_S, HOUR_S, MINUTE_S, cover, finest, points
from openclaw_cache.history.histogram import Histogram
from openclaw_cache.history.prompts import TopPrompts
from openclaw_cache.history.rollup import Gauge, Rollup
from openclaw_cache.observe.record import CanonicalEffect, PrefixBreak, RequestRecord, Step
from support.records import NOON, answered, missed

words = st.sampled_from(["a", "b", "c", "other", "", "=1", "鹭", "x" * 200, "\x1b[2J"])
counts = st.integers(0, 10**15)


@st.composite
def records(draw: st.DrawFn) -> RequestRecord:
    fields = {
        "agent": draw(st.none() | words),
        "model": draw(words),
        "prompt_id": draw(st.sampled_from(["", "p1", "p2", "p3"])),
        "prompt_tokens": draw(st.none() | counts),
        "duration_s": draw(st.floats(0, 2000)),
        "ttft_s": draw(st.none() | st.floats(0, 2000)),
        "at": NOON + draw(st.integers(0, 300)),
    }
    if draw(st.booleans()):
        outcome = draw(st.sampled_from(["exact", "semantic", "collapsed"]))
        return answered(outcome, saved_s=draw(st.floats(0, 100)), **fields)
    return missed(
        tokens_from={"computed": draw(counts), "device": draw(counts)},
        prefix_break=draw(st.none() | st.builds(PrefixBreak, words, words, words, counts, counts, counts)),
        canonical=draw(
            st.lists(st.builds(CanonicalEffect, words, counts, counts, st.booleans()), max_size=2)
        ),
        steps=draw(st.lists(st.builds(Step, st.just("semantic"), st.just("miss"), st.just(0.1)), max_size=1)),
        **fields,
    )


@st.composite
def rollups(draw: st.DrawFn) -> Rollup:
    found = Rollup(60 * draw(st.integers(0, 10_000)), draw(st.sampled_from([MINUTE_S, HOUR_S])))
    for record in draw(st.lists(records(), max_size=5)):
        found.add(record, is_own_engine=draw(st.booleans()))
    for name in draw(st.lists(words, max_size=2)):
        num = draw(counts)
        found.gauges[name, "bytes", "kv", "host"] = Gauge(draw(st.floats(0, 1e9)), num, num)
    found.nodes |= set(draw(st.lists(words, max_size=2)))
    found.prompts.floor = draw(st.integers(0, 5))
    return found


def merged(parts: list[Rollup], start_at: int, span_s: int) -> Rollup:
    total = Rollup(start_at, span_s)
    for part in parts:
        total.absorb(part)
    return total


def added(*parts: Rollup) -> bytes:
    """Their sum, so that equal sums are equal bytes."""
    first, *others = parts
    total = merged([first, *others], first.start_at, first.span_s)
    return msgspec.json.encode(
        {
            "span": (total.start_at, total.span_s),
            "tables": sorted((family, sorted(rows.items())) for family, rows in total.tables.items() if rows),
            "lines": sorted((name, msgspec.structs.astuple(line)) for name, line in total.lines.items()),
            "histograms": sorted(
                (name, sorted(h.counts.items()), h.sum_us) for name, h in total.histograms.items()
            ),
            "prompts": (
                total.prompts.floor,
                sorted((i, msgspec.structs.astuple(row)) for i, row in total.prompts.rows.items()),
            ),
            "gauges": sorted((name, msgspec.structs.astuple(g)) for name, g in total.gauges.items()),
            "nodes": sorted(total.nodes),
        }
    )


def copy(rollup: Rollup) -> Rollup:
    return merged([rollup], rollup.start_at, rollup.span_s)


@settings(max_examples=60, deadline=None)
@given(rollups(), rollups())
def test_the_order_of_two_does_not_matter(a: Rollup, b: Rollup) -> None:
    assert added(copy(a).absorb(b)) == added(copy(b).absorb(a))


@settings(max_examples=60, deadline=None)
@given(rollups(), rollups(), rollups())
def test_it_does_not_matter_which_two_of_three_are_added_first(a: Rollup, b: Rollup, c: Rollup) -> None:
    left = copy(a).absorb(b).absorb(c)
    right = copy(a).absorb(copy(b).absorb(c))
    assert added(left) == added(right)


@settings(max_examples=40, deadline=None)
@given(st.lists(records(), max_size=12), st.integers(0, 12))
def test_records_counted_apart_and_added_are_as_those_counted_together(
    given_records: list[RequestRecord], at: int
) -> None:
    parts = Rollup(0, 60), Rollup(0, 60)
    together = Rollup(0, 60)
    for i, record in enumerate(given_records):
        parts[i >= at].add(record)
        together.add(record)
    assert added(*parts) == added(together)


@settings(max_examples=60, deadline=None)
@given(rollups(), rollups())
def test_adding_changes_nothing_but_the_sum(a: Rollup, b: Rollup) -> None:
    before = added(b)
    copy(a).absorb(b).absorb(b)
    assert added(b) == before


@settings(max_examples=60, deadline=None)
@given(rollups())
def test_what_is_stored_is_what_is_read(a: Rollup) -> None:
    stored = msgspec.msgpack.encode(a.saturate())
    assert added(msgspec.msgpack.decode(stored, type=Rollup)) == added(a)


@settings(max_examples=60, deadline=None)
@given(rollups(), st.integers(1, 4))
def test_trimming_changes_no_sum(a: Rollup, num_lines: int) -> None:
    line = a.line()
    a.trim(num_lines)
    assert a.line() == line
    assert len(a.lines) <= num_lines or num_lines == 1


@given(st.lists(st.sampled_from("abcdefghij"), max_size=60), st.integers(1, 5), st.integers(0, 60))
def test_a_prompt_was_asked_as_often_as_its_row_says_or_no_more_than_the_floor(
    asked: list[str], max_rows: int, at: int
) -> None:
    total = TopPrompts()
    for part in (asked[:at], asked[at:]):
        one = TopPrompts()
        for name in part:
            one.add(missed(prompt_id=name), 0.0)
        one.trim(max_rows)
        total.absorb(one)
        total.trim(max_rows)
    truth = Counter(asked)
    assert len(total.rows) <= max_rows
    for name, num in truth.items():
        row = total.rows.get(name)
        if row is None:
            assert num <= total.floor
        else:
            assert row.count - row.error <= num <= row.count


moments = st.integers(0, 450 * DAY_S).map(lambda back_s: NOON - back_s)


@given(moments, moments)
def test_a_cover_is_the_time_without_gap_or_overlap_and_as_fine_as_what_is_kept(a: float, b: float) -> None:
    start, end = sorted((a, b))
    now = NOON + 1234.5
    buckets = list(cover(start, end, now))
    if start == end:
        assert buckets == []
        return
    assert all(later.start_at == earlier.end_at for earlier, later in pairwise(buckets))
    first, last = buckets[0], buckets[-1]
    assert first.start_at <= start < first.start_at + finest(start, now).span_s + MINUTE_S
    assert last.end_at >= end
    assert last.end_at - end < max(finest(end, now).span_s, 1)
    for bucket in buckets:
        assert bucket.start_at % bucket.resolution.span_s == 0
        assert bucket.resolution.span_s >= finest(bucket.start_at, now).span_s
    assert len(buckets) <= 400 + 60 + 2 * (23 + 59)


@given(moments, st.integers(1, 200))
def test_points_are_covered_by_buckets_of_their_own(start: float, num_points: int) -> None:
    now = NOON + 1234.5
    found = points(start, now, num_points, now)
    assert 1 <= len(found) <= num_points
    for begin, end in found:
        buckets = list(cover(begin, end, now))
        assert buckets[0].start_at == begin
        assert buckets[-1].end_at <= end or end > now


@given(st.lists(st.tuples(st.floats(0, 1000), st.integers(1, 9)), max_size=20))
def test_histograms_lose_no_duration(durations: list[tuple[float, int]]) -> None:
    parts = [Histogram(), Histogram()]
    for i, (seconds, num) in enumerate(durations):
        parts[i % 2].add(seconds, num)
    total = parts[0].absorb(parts[1])
    assert total.num == sum(num for _, num in durations)
    assert len(total.counts) <= 249
