"""The instruments themselves: histograms as Prometheus reads them, labels that stay bounded, figures of engines."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from openclaw_cache import __version__
from openclaw_cache.dialects.anthropic.progress import StreamProgress as AnthropicProgress
from openclaw_cache.dialects.openai import StreamProgress as ChatProgress
from openclaw_cache.dialects.responses import ResponsesProgress
from openclaw_cache.gateway.pace import Pace
from openclaw_cache.observe.histogram import LATENCY_BUCKETS, Seconds, SecondsHistogram
from openclaw_cache.observe.kv import EngineFigures
from openclaw_cache.observe.metrics import Metrics, ttft_source
from openclaw_cache.observe.record import MISSES, CanonicalEffect, PrefixBreak, RequestRecord

BOUNDS = (0.001, 0.01, 0.1)


def samples(metrics: Metrics) -> dict[str, float]:
    """Every sample by its name and labels, as a Prometheus reads them."""
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(metrics.text().decode()):
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return found


@pytest.mark.parametrize("label", ["layer", None])
def test_a_histogram_is_shown_as_the_client_librarys_own_is(label: str | None) -> None:
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    histogram = SecondsHistogram("one_seconds", "What it is.", label, BOUNDS, ours)
    peer = Histogram("one_seconds", "What it is.", [label] if label else [], buckets=BOUNDS, registry=theirs)
    mine = histogram.labels("a") if label else histogram.all
    other = peer.labels("a") if label else peer
    for seconds in (0.0, 0.0005, 0.001, 0.0011, 0.01, 0.05, 0.1, 7.0):  # on a bound is within it
        mine.observe(seconds)
        other.observe(seconds)
    their_lines = [line for line in generate_latest(theirs).splitlines() if b"_created" not in line]
    assert generate_latest(ours).splitlines() == their_lines


def test_counts_of_many_threads_and_of_another_process_add_up() -> None:
    seconds = Seconds(BOUNDS)

    def count() -> None:
        for _ in range(5000):
            seconds.observe(0.005)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds.observe(0.05, 3)
    seconds.add([1, 0, 0, 2], 5.0)
    nums, sum_s = seconds.counts()
    assert nums == [1, 20_000, 3, 2]
    assert sum_s == pytest.approx(20_000 * 0.005 + 3 * 0.05 + 5.0)


# The pace of a stream.


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_pace_is_the_time_from_the_first_read_to_the_last_over_the_tokens_between() -> None:
    clock, seconds = Clock(), Seconds((0.015, 0.03))
    pace = Pace(seconds, clock)
    # (time, events with something in them since the stream began): the role first, three tokens at once, an end.
    for clock.now, num_pieces in ((1.0, 0), (1.1, 1), (1.12, 2), (1.18, 5), (1.5, 5)):
        pace.note(num_pieces)
    assert (pace.num, pace.sum_s) == (4, pytest.approx(0.08))
    assert seconds.counts()[0] == [0, 4, 0]  # one of 20 ms, and three that share 60 ms


def test_a_reply_that_comes_in_one_read_has_no_pace() -> None:
    pace = Pace(None, Clock())
    pace.note(40)
    assert (pace.num, pace.sum_s) == (0, 0.0)


CHAT = [
    (b'{"choices":[{"delta":{"role":"assistant","content":"","refusal":null}}]}', 0),
    (b'{"choices":[{"delta":{"content":"Par"}}]}', 1),
    (b'{"choices": [{"delta": {"content": "is"}}]}', 1),
    (b'{"choices":[{"delta":{"role":"assistant","content":"Hi"}}]}', 1),
    (b'{"choices":[{"delta":{"content":null,"reasoning_content":"so"}}]}', 1),
    (b'{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\\"a"}}]}}]}', 1),
    (b'{"choices":[{"text":"once"}]}', 1),
    (b'{"choices":[{"delta":{"content":"\\"content\\":\\"\\""}}]}', 1),
    (b'{"choices":[{"delta":{},"finish_reason":"stop"}]}', 0),
    (b'{"choices":[{"delta":{"content":""},"finish_reason":"stop"}]}', 0),
    (b'{"choices":[],"usage":{"prompt_tokens":9}}', 0),
    (b"[DONE]", 0),
]
ANTHROPIC = [
    (b'{"type":"message_start","message":{"content":[]}}', 0),
    (b'{"type": "ping"}', 0),
    (b'{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}', 0),
    (b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Par"}}', 1),
    (b'{"index":0, "type": "content_block_delta", "delta":{"type":"thinking_delta","thinking":"so"}}', 1),
    (b'{"type":"message_delta","delta":{"stop_reason":"end_turn"}}', 0),
    (b'{"type":"message_stop"}', 0),
]
RESPONSES = [
    (b'{"type":"response.created","response":{}}', 0),
    (b'{"type":"response.output_text.delta","delta":"Par"}', 1),
    (b'{"delta":"{", "type": "response.function_call_arguments.delta"}', 1),
    (b'{"type":"response.output_text.done","text":"\\"type\\":\\"response.output_text.delta\\""}', 0),
    (b'{"type":"response.completed","response":{}}', 0),
]


@pytest.mark.parametrize("has_names", [True, False])
@pytest.mark.parametrize(
    ("progress", "events"),
    [(ChatProgress, CHAT), (AnthropicProgress, ANTHROPIC), (ResponsesProgress, RESPONSES)],
    ids=["chat", "messages", "responses"],
)
def test_only_events_that_bring_something_of_the_reply_count(
    progress: Any, events: list[tuple[bytes, int]], has_names: bool
) -> None:
    told = progress()
    for data, num in events:
        before = told.num_pieces
        name = next((t for t in _types(data) if t.startswith(b"response.")), None) if has_names else None
        told.add(data, name)
        assert told.num_pieces - before == num, data


def _types(data: bytes) -> list[bytes]:
    return [part.split(b'"')[1] for part in data.split(b'"type":')[1:2]]


# Labels.


def test_what_is_not_known_when_the_process_begins_shares_one_label() -> None:
    metrics = Metrics()
    metrics.name_causes(["tool", "date"])
    metrics.name_rules(["billing-header"])
    for i in range(50):
        broken = PrefixBreak(f"cause-{i}", "a label", "/messages/0", 9, 1, 10)
        effects = [CanonicalEffect(f"rule-{i}", 1, 5, applied=True)]
        metrics.add(record(miss=f"because-{i}", prefix_break=broken, canonical=effects))
    metrics.add(
        record(
            miss="expired",
            prefix_break=PrefixBreak("tool", "", "", 0, 0, 7),
            canonical=[CanonicalEffect("billing-header", 2, 9, applied=False)],
        )
    )
    shown = samples(metrics)

    def of(name: str) -> dict[str, float]:
        return {key: value for key, value in shown.items() if key.startswith(name) and value}

    assert of("openclaw_cache_misses_total") == {
        "openclaw_cache_misses_total{reason=expired}": 1, "openclaw_cache_misses_total{reason=other}": 50,
    }  # fmt: skip
    assert of("openclaw_cache_prefix_") == {
        "openclaw_cache_prefix_breaks_total{cause=tool}": 1,
        "openclaw_cache_prefix_breaks_total{cause=other}": 50,
        "openclaw_cache_prefix_lost_tokens_total{cause=tool}": 7,
        "openclaw_cache_prefix_lost_tokens_total{cause=other}": 500,
    }
    assert of("openclaw_cache_canonical_total") == {
        "openclaw_cache_canonical_total{applied=false,rule=billing-header}": 1,
        "openclaw_cache_canonical_total{applied=true,rule=other}": 50,
    }


def test_a_first_miss_of_every_kind_is_a_rise_from_0() -> None:
    """But for `namespace`, which clients that read the metrics shall not be told."""
    shown = samples(Metrics())
    told = [reason for reason in MISSES if f"openclaw_cache_misses_total{{reason={reason}}}" in shown]
    assert set(MISSES) - set(told) == {"namespace"}
    assert {shown[f"openclaw_cache_misses_total{{reason={reason}}}"] for reason in told} == {0}


def test_the_build_is_told() -> None:
    [(labels, value)] = [(k, v) for k, v in samples(Metrics()).items() if "build_info" in k]
    assert f"version={__version__}" in labels
    assert value == 1


def record(**fields: Any) -> RequestRecord:
    return RequestRecord(request_id="r", at=0.0, api="chat", outcome="miss", status=200, **fields)


def test_seconds_saved_are_of_replies_that_were_given_here() -> None:
    metrics = Metrics()
    for outcome in ("exact", "exact", "semantic", "collapsed", "miss"):
        metrics.add(
            RequestRecord(request_id="r", at=0.0, api="chat", outcome=outcome, status=200, saved_s=1.5)
        )
    shown = {k: v for k, v in samples(metrics).items() if "saved_seconds" in k}
    assert shown == {
        "openclaw_cache_saved_seconds_total{layer=result}": 3,
        "openclaw_cache_saved_seconds_total{layer=semantic}": 1.5,
        "openclaw_cache_saved_seconds_total{layer=flight}": 1.5,
    }


@pytest.mark.parametrize(
    ("outcome", "tokens_from", "source"),
    [
        ("exact", {}, "result"), ("semantic", {}, "semantic"), ("collapsed", {}, "flight"),
        ("miss", {}, "upstream"), ("bypass", {}, "upstream"),
        ("miss", {"computed": 90, "device": 0, "host": 0, "disk": 0}, "computed"),
        ("miss", {"computed": 5, "device": 80}, "device"),
        ("bypass", {"computed": 5, "device": 80, "host": 16}, "host"),
        ("miss", {"computed": 5, "device": 80, "host": 16, "disk": 16}, "disk"),
        ("miss", {"computed": 0, "device": 0}, "computed"),
    ],
)  # fmt: skip
def test_the_source_of_a_ttft_is_the_lowest_tier_that_was_waited_for(
    outcome: str, tokens_from: dict[str, int], source: str
) -> None:
    assert ttft_source(outcome, tokens_from) == source


# What engines tell of themselves.


def timed(*nums: int, total: float) -> dict[str, Any]:
    return {"nums": [*nums, *[0] * (len(LATENCY_BUCKETS) + 1 - len(nums))], "sum": total}


def test_an_engines_times_are_added_once_and_survive_its_restart() -> None:
    metrics = Metrics()
    figures = EngineFigures(metrics)
    for pid, told in (
        (1, timed(2, 1, total=0.5)),
        (1, timed(2, 1, total=0.5)),  # nothing new
        (1, timed(3, 1, total=0.6)),
        (2, timed(1, 0, total=0.1)),  # its successor counts from 0
        (2, {"nums": [1, 2], "sum": 9.0}),  # of a version with other buckets
        (2, {"nums": "x", "sum": None}),
        (2, {}),
        (2, timed(1, 1, total=0.2)),
    ):
        figures.take("local", pid, {"lookup_s": told})
    figures.take("other", 3, {"lookup_s": timed(10, total=1.0), "update_s": timed(0, 4, total=2.0)})
    nums, sum_s = metrics.kv_lookup_seconds.counts()
    assert (nums[:3], sum_s) == ([14, 2, 0], pytest.approx(0.5 + 0.1 + 0.1 + 0.1 + 1.0))
    assert metrics.kv_update_seconds.counts()[0][:2] == [0, 4]
    assert samples(metrics)["openclaw_cache_lookup_seconds_count{layer=kv}"] == 16
