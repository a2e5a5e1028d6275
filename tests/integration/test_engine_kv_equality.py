"""A reply never depends on what was cached: the real model with the KV cache against itself without.

Greedy replies are compared token by token. A divergence counts only where the two likeliest tokens of the uncached
reply are more than 1e-3 apart: closer ones are a tie that the order of summation decides.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from openclaw_cache.engine.chat import Message, Piece, Prefilled, Reuse, Sampling, Work
from support.real_engine import Answer, RealEngine, load, running

pytestmark = [pytest.mark.model, pytest.mark.asyncio(loop_scope="module")]

TIE = 1e-3
NUM_LAYERS, NUM_KV_HEADS, HEAD_DIM = 30, 3, 64  # of SmolLM2-135M
FINN = "You are Finn, a fisherman of few words who has seen every harbour of the northern coast. " * 5
CLERK = "You keep the books of a small library and answer with the number of the shelf first. " * 5
QUESTIONS = ["What did you see today?", "Name three birds.", "How far is the moon?", "Tell me a short story."]

Expect = Callable[[list[int], int], Awaitable[Answer]]


def token_bytes(value_bytes: int) -> int:
    """Bytes of one token's K and V in all layers."""
    return NUM_LAYERS * 2 * NUM_KV_HEADS * HEAD_DIM * value_bytes


def sizes(*, device: int, host: int = 0, disk: int = 0, block_tokens: int = 16) -> dict[str, Any]:
    """Settings of tiers for so many tokens each; fp32 on the device, fp16 below."""
    return {
        "device_bytes": device * token_bytes(4),
        "host_bytes": host * token_bytes(2),
        "disk_bytes": int(disk * token_bytes(2) * 1.1),  # the index takes some
        "block_tokens": block_tokens,
        "chunk_size": 4 * block_tokens,
        "reserve": 0.0,
    }


@pytest.fixture(scope="module")
def model(model_data_dir: Path) -> Any:
    return load("smollm2-135m", model_data_dir)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plain(model: Any, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RealEngine]:
    """The same engine with prefix caching off."""
    async with running(
        model, tmp_path_factory.mktemp("plain"), enabled=False, **sizes(device=4096)
    ) as engine:
        yield engine


@pytest.fixture(scope="module")
def expect(plain: RealEngine) -> Expect:
    """What is said without a cache; computed once for each prompt."""
    known: dict[tuple[tuple[int, ...], int], Answer] = {}

    async def answer(prompt: list[int], max_tokens: int) -> Answer:
        key = (tuple(prompt), max_tokens)
        if key not in known:
            known[key] = await plain.ask(prompt, max_tokens, top_logprobs=2)
            assert known[key].reuse == Reuse(computed=len(prompt))
        return known[key]

    return answer


def chat(model: Any, system: str, *turns: str) -> list[int]:
    """A prompt that ends with a question; `turns` are user and assistant in turn."""
    messages = [Message("system", system)]
    messages += [Message(("user", "assistant")[i % 2], turn) for i, turn in enumerate(turns)]
    tokens: list[int] = model.encode(messages)
    return tokens


def assert_same(got: Answer, expected: Answer, index: int = 0) -> None:
    ours = [one.text for one in got.logprobs(index)]
    theirs = expected.logprobs()
    for i, one in enumerate(theirs):
        likeliest, second = one.top
        if i < len(ours) and ours[i] == one.text:
            continue
        assert likeliest.logprob - second.logprob <= TIE, f"at token {i}: {ours[i : i + 3]}, not {one.text!r}"
        return
    assert (got.text(index), got.end(index).reason) == (expected.text(), expected.end().reason)


async def check(
    engine: RealEngine, expect: Expect, prompt: list[int], max_tokens: int = 10, n: int = 1
) -> Reuse:
    """Ask, compare every choice with the uncached reply, and tell where the prompt's KV came from."""
    got = await engine.ask(prompt, max_tokens, top_logprobs=2, n=n)
    expected = await expect(prompt, max_tokens)
    for index in range(n):
        assert_same(got, expected, index)
    assert got.reuse.computed + got.reuse.num_cached + got.reuse.copied == len(prompt)
    return got.reuse


def total(reuses: list[Reuse]) -> dict[str, int]:
    return {
        name: sum(getattr(r, name) for r in reuses)
        for name in ("computed", "device", "host", "disk", "copied")
    }


@pytest.mark.parametrize(
    ("write", "block_tokens", "eviction"),
    [("through", 16, "lru"), ("back", 16, "s3fifo"), ("through", 8, "agent")],
)
async def test_any_mix_of_hits_tiers_forks_evictions_and_restarts_gives_the_uncached_replies(
    model: Any, expect: Expect, tmp_path: Path, write: str, block_tokens: int, eviction: str
) -> None:
    tiers = sizes(device=256, host=384, disk=4000, block_tokens=block_tokens)
    prompts = [chat(model, system, question) for system in (FINN, CLERK) for question in QUESTIONS[:2]]
    long = chat(model, FINN, QUESTIONS[0], "A storm.", "And then?")
    reuses: list[Reuse] = []
    for is_restarted in (False, True):
        async with running(model, tmp_path, write=write, eviction=eviction, **tiers) as engine:
            reuses += [await check(engine, expect, prompt) for prompt in (*prompts, *prompts)]
            if is_restarted:
                assert reuses[-2 * len(prompts)].disk > 0
            # Together: prefixes that are just being computed, and more than the device has room for.
            reuses += await asyncio.gather(
                *(check(engine, expect, prompt) for prompt in (*prompts[::-1], long))
            )
            reuses.append(await check(engine, expect, long, n=3))
            reuses.append(await check(engine, expect, prompts[0], n=3))
            await engine.settled()
            evicted = await engine.call(lambda cache: sum(cache.tree.num_dropped.values()))
            assert evicted > 0
    found = total(reuses)
    assert found["device"] > 0
    assert found["host"] > 0
    assert found["disk"] > 0
    assert sum(found.values()) > 2 * found["computed"]


async def test_sampled_choices_are_the_same_with_and_without_a_cache(
    model: Any, plain: RealEngine, tmp_path: Path
) -> None:
    prompt = chat(model, FINN, QUESTIONS[3])
    sampled = {"temperature": 1.0, "top_p": 0.9, "seed": 4, "n": 3}
    expected = await plain.ask(prompt, 10, **sampled)
    async with running(model, tmp_path, **sizes(device=1024)) as engine:
        for _ in range(2):
            got = await engine.ask(prompt, 10, **sampled)
            assert [got.text(i) for i in range(3)] == [expected.text(i) for i in range(3)]
        assert got.reuse.device > 0


async def test_a_long_prompt_beside_a_running_reply_changes_neither_and_does_not_stop_it(
    model: Any, expect: Expect, tmp_path: Path
) -> None:
    short, long = chat(model, "Be brief.", QUESTIONS[3]), chat(model, (FINN + CLERK) * 3, QUESTIONS[0])
    assert len(long) > 500
    async with running(model, tmp_path, **sizes(device=2048)) as engine:
        ticket = engine.engine.submit(Work(short, Sampling(max_tokens=40, top_logprobs=2)))
        events: list[Any] = []
        other: asyncio.Task[Answer] | None = None
        num_beside = 0
        is_prefilled = asyncio.Event()

        async def ask_long() -> Answer:
            ticket = engine.engine.submit(Work(long, Sampling(max_tokens=8, top_logprobs=2)))
            seen = []
            async for event in ticket:
                seen.append(event)
                if isinstance(event, Prefilled):
                    is_prefilled.set()
            return Answer(seen)

        async for event in ticket:
            events.append(event)
            if isinstance(event, Piece):
                num_beside += other is not None and not is_prefilled.is_set()
                other = other or asyncio.create_task(ask_long())
        assert other is not None
        assert_same(Answer(events), await expect(short, 40))
        assert_same(await other, await expect(long, 8))
        # 128 tokens of the prompt at most in a step, and the reply had its token in each.
        assert num_beside >= len(long) // 128 - 1


async def test_replies_that_start_again_for_want_of_room_are_the_same(
    model: Any, expect: Expect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts = [chat(model, "Be brief.", question) for question in QUESTIONS[:3]]
    room = -(-(max(map(len, prompts)) + 32) // 16) * 16
    async with running(model, tmp_path, **sizes(device=max(128, 2 * room))) as engine:
        scheduler = engine.engine.loop._scheduler
        restarted = []
        restart = scheduler.restart
        monkeypatch.setattr(scheduler, "restart", lambda seq: (restarted.append(seq), restart(seq)))
        answers = await asyncio.gather(*(engine.ask(prompt, 32, top_logprobs=2) for prompt in prompts))
        for prompt, answer in zip(prompts, answers, strict=True):
            assert_same(answer, await expect(prompt, 32))
        assert restarted


async def test_a_prefix_of_two_thousand_tokens_comes_from_disk_after_a_restart(
    model: Any, expect: Expect, tmp_path: Path
) -> None:
    words = model.encode_text("The harbour lay still, and the gulls were counted one by one. " * 160)
    prefix, question = words[:2000], model.encode_text(" What did the keeper write in his book that night?")
    tiers = sizes(device=2400, disk=8000)
    async with running(model, tmp_path, **tiers) as engine:
        first = await check(engine, expect, [*prefix, *question], 6)
        assert (first.num_cached, first.disk) == (0, 0)
    async with running(model, tmp_path, **tiers) as engine:
        again = await check(engine, expect, [*prefix, *question], 6)
        assert again.disk >= 2000 // 16 * 16 - 16
        other = await engine.ask([*prefix, *model.encode_text(" And who lit the lamp?")], 1)
        assert other.reuse.device >= 2000 // 16 * 16 - 16


async def test_nothing_of_a_no_store_request_outlives_the_process(model: Any, tmp_path: Path) -> None:
    tiers = sizes(device=1024, host=512, disk=4000)
    secret, open_ = chat(model, FINN, QUESTIONS[0]), chat(model, CLERK, QUESTIONS[0])
    async with running(model, tmp_path, **tiers) as engine:
        await engine.ask(secret, 20, is_volatile=True)
        assert (await engine.ask(secret, 4, is_volatile=True)).reuse.device > 0
        await engine.ask(open_, 4)
        await engine.settled()
    async with running(model, tmp_path, **tiers) as engine:
        kept = await engine.call(
            lambda cache: [set(node.path_tokens().tolist()) for node in cache.tree.nodes()]
        )
        assert kept
        only_secret = set(secret) - set(open_)
        assert only_secret
        assert not any(only_secret & tokens for tokens in kept)
        assert (await engine.ask(secret, 4)).reuse.num_cached == 0
        assert (await engine.ask(open_, 4)).reuse.disk > 0


async def test_namespaces_never_share(model: Any, expect: Expect, tmp_path: Path) -> None:
    tiers = sizes(device=1024, host=512, disk=4000)
    prompt = chat(model, FINN, QUESTIONS[1])
    for _ in range(2):
        async with running(model, tmp_path, **tiers) as engine:
            mine = await engine.ask(prompt, 6, salt=b"mine", top_logprobs=2)
            assert_same(mine, await expect(prompt, 6))
        async with running(model, tmp_path, **tiers) as engine:
            for salt in (b"", b"min", b"mine\0"):
                assert await engine.call(lambda cache, salt=salt: cache.num_cached(salt, _array(prompt))) == 0
    assert mine.reuse.disk > 0  # but what is mine has come back


def _array(tokens: list[int]) -> Any:
    numpy = pytest.importorskip("numpy")
    return numpy.array(tokens, numpy.int32)


async def test_a_shared_prefix_shorter_than_a_block_is_not_counted_as_a_hit(
    model: Any, expect: Expect, tmp_path: Path
) -> None:
    words = model.encode_text("Seventeen grey gulls followed the boat out past the old stone pier. " * 3)
    others = [model.encode_text(f"{start} the tide was late.") for start in ("But", "Why", "No", "Who")]
    async with running(model, tmp_path, **sizes(device=512)) as engine:
        await check(engine, expect, words[:40], 4)
        for num_shared, rest in zip((1, 15, 16, 17), others, strict=True):
            reuse = await check(engine, expect, words[:num_shared] + rest, 4)
            assert reuse.num_cached == num_shared // 16 * 16


async def test_damage_to_the_disk_costs_a_recomputation_and_never_a_wrong_reply(
    model: Any, expect: Expect, tmp_path: Path
) -> None:
    tiers = sizes(device=1024, disk=4000)
    prompt = chat(model, FINN, QUESTIONS[2])
    async with running(model, tmp_path, **tiers) as engine:
        await check(engine, expect, prompt)
    block_bytes = 16 * token_bytes(2)
    data = max((tmp_path / "kv").rglob("*"), key=lambda file: file.stat().st_size if file.is_file() else 0)
    content = bytearray(data.read_bytes())
    content[7 * block_bytes // 2] ^= 0x40  # in the middle of the fourth block
    data.write_bytes(content)
    async with running(model, tmp_path, **tiers) as engine:
        damaged = await check(engine, expect, prompt)
        assert damaged.disk == 3 * 16
        assert await engine.call(lambda cache: sum(cache.movement.num_failures.values())) > 0
    async with running(model, tmp_path, **tiers) as engine:
        mended = await check(engine, expect, prompt)
        assert mended.disk == (len(prompt) - 1) // 16 * 16  # what was recomputed has taken its place
    data.write_bytes(bytes(len(content) // 2))  # half of the file is gone, the other half is zeros
    async with running(model, tmp_path, **tiers) as engine:
        assert (await check(engine, expect, prompt)).num_cached == 0


async def test_int8_below_the_device_moves_log_probabilities_by_little_and_marks_what_is_computed_on_it(
    model: Any, expect: Expect, tmp_path: Path
) -> None:
    from openclaw_cache.kv.block import Tier  # noqa: PLC0415 - with numpy
    from openclaw_cache.kv.node import Flag  # noqa: PLC0415

    tiers = sizes(device=1024, host=2048)
    prompts = [chat(model, system, question) for system in (FINN, CLERK) for question in QUESTIONS[:2]]
    async with running(model, tmp_path, compression="int8", **tiers) as engine:
        exact = [await engine.ask(prompt, 16, top_logprobs=2) for prompt in prompts]
        await engine.settled()
        await engine.call(lambda cache: cache.lower.evict(Tier.DEVICE, 10_000))
        num_same = 0
        for prompt, first in zip(prompts, exact, strict=True):
            lossy = await engine.ask(prompt, 16, top_logprobs=2)
            assert lossy.reuse.host + lossy.reuse.device == (len(prompt) - 1) // 16 * 16
            for one, other in zip(lossy.logprobs()[0].top, first.logprobs()[0].top, strict=True):
                assert one.logprob == pytest.approx(other.logprob, abs=0.15)
            num_same += lossy.text() == first.text()
        assert num_same >= len(prompts) - 1
        flags = await engine.call(lambda cache: [int(f) for n in cache.tree.nodes() for f in n.flags])
        assert any(flag & Flag.LOSSY for flag in flags)
        branch = [*prompts[0], *prompts[1][-40:]]
        await engine.ask(branch, 4)
        flags = await engine.call(lambda cache: [int(f) for n in cache.tree.nodes() for f in n.flags])
        assert any(flag & Flag.VARIANT for flag in flags)
