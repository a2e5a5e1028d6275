"""Do running streams go on while a long prompt arrives? Seconds between their tokens."""

from __future__ import annotations

import asyncio
import time
from itertools import pairwise
from statistics import median

from benchmarks.kv.driving import Asked, Driven, Place, driven
from benchmarks.kv.prompts import random_tokens
from benchmarks.kv.report import Section, quantile

from openclaw_cache.engine.kv_settings import KvSettings

NUM_STREAMS = 4
STREAM_PROMPT_TOKENS = 64


async def measure(place: Place, num_tokens: int, num_reply_tokens: int) -> Section:
    """Four replies run; when each has ten tokens, a prompt of `num_tokens` comes."""
    settings = KvSettings(device_bytes=640_000_000, host_bytes=0, disk_bytes=0)
    async with driven(place, settings, "fairness") as driving:
        await driving.ask(random_tokens(200, 1), 4)
        streams, arrived_at, long = await _run(driving, num_tokens, num_reply_tokens)
    began_at = arrived_at[0]
    during, alone = [], []
    for submitted_at, stream in streams:
        times = [submitted_at + at for at in stream.piece_at]
        for before, after in pairwise(times):
            beside = after > began_at and before < began_at + long.ttft_s
            (during if beside else alone).append(after - before)
    section = Section(
        f"{NUM_STREAMS} streams beside a prompt of {num_tokens:,} tokens, ms between tokens",
        ("", "gaps", "median", "99th percentile", "largest"),
    )
    for name, gaps in (("streams alone", alone), ("while the prompt is computed", during)):
        figures = (median(gaps), quantile(gaps, 0.99), max(gaps)) if gaps else ()
        section.rows.append((name, f"{len(gaps):,}", *(f"{g * 1e3:,.0f}" for g in figures)))
    section.notes = [f"First token of the long prompt after {long.ttft_s:.1f} s."]
    return section


async def _run(
    driving: Driven, num_tokens: int, num_reply_tokens: int
) -> tuple[list[tuple[float, Asked]], list[float], Asked]:
    """The streams with the times at which they were submitted, when the long prompt came, and it."""
    running = asyncio.Semaphore(0)
    tasks = []
    for seed in range(NUM_STREAMS):
        prompt = random_tokens(STREAM_PROMPT_TOKENS, 100 + seed)
        submitted_at = time.perf_counter()
        task = asyncio.create_task(driving.ask(prompt, num_reply_tokens, running.release))
        tasks.append((submitted_at, task))
    for _ in range(NUM_STREAMS):
        await running.acquire()
    arrived_at = [time.perf_counter()]
    long = await driving.ask(random_tokens(num_tokens, 7), 1)
    return [(at, await task) for at, task in tasks], arrived_at, long
