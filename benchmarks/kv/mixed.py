"""Agents with one system prompt that talk at the same time: what is computed, against what must be."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from itertools import pairwise

from benchmarks.kv.driving import Driven, Place, driven
from benchmarks.kv.prompts import documents, question
from benchmarks.kv.report import Section, Target

from openclaw_cache.engine.chat import Message
from openclaw_cache.engine.kv_settings import KvSettings

COMPUTED_RATIO = 1.02
REPLY_TOKENS = 24
BLOCK = 16


@dataclass(slots=True)
class Load:
    """What all agents together have sent and had computed."""

    took_s: float = 0.0
    num_prompt: int = 0
    num_computed: int = 0
    """Tokens that went through the model: of prompts, and of replies (but for each one's last)."""
    sequences: list[tuple[int, ...]] = field(default_factory=list)
    """The tokens of which each request leaves the KV."""
    num_recoded: int = 0
    """Replies whose text makes other tokens than were chosen, so that the next turn cannot use their KV."""
    ttft_s: list[float] = field(default_factory=list)


async def measure(place: Place, num_agents: int, num_turns: int, num_system: int) -> Section:
    """The same conversations with the cache and without."""
    loads = {}
    for name, is_enabled in (("cache", True), ("no cache", False)):
        settings = KvSettings(enabled=is_enabled, device_bytes=1_500_000_000, host_bytes=0, disk_bytes=0)
        async with driven(place, settings, "mixed") as driving:
            system = driving.engine.model.decode(documents(driving.engine.model)[:num_system].tolist())
            loads[name] = await _run(driving, system, num_agents, num_turns)
    section = Section(
        f"{num_agents} agents at once, a system prompt of {num_system:,} tokens, {num_turns} turns each",
        ("", "s", "prompt tokens", "computed tokens", "÷ blocks", "÷ tokens", "median TTFT s"),
    )
    cached = loads["cache"]
    by_blocks, by_tokens = least_by_blocks(cached.sequences), least_by_tokens(cached.sequences)
    for name, load in loads.items():
        section.rows.append(
            (
                name,
                f"{load.took_s:.1f}",
                f"{load.num_prompt:,}",
                f"{load.num_computed:,}",
                f"{load.num_computed / by_blocks:.3f}",
                f"{load.num_computed / by_tokens:.3f}",
                f"{sorted(load.ttft_s)[len(load.ttft_s) // 2]:.2f}",
            )
        )
    section.notes = [
        f"÷ blocks: over {by_blocks:,}, each distinct block of {BLOCK} once, and the rest of each conversation.",
        f"÷ tokens: over {by_tokens:,}, each distinct prefix, counted token by token.",
        f"Replies that come back as other tokens: {cached.num_recoded} of {len(cached.sequences)}.",
        f"Without the cache it takes {loads['no cache'].took_s / cached.took_s:.1f} times as long.",
    ]
    section.targets = [
        Target("mixed load: computed ÷ each block once", cached.num_computed / by_blocks, COMPUTED_RATIO),
    ]
    return section


async def _run(driving: Driven, system: str, num_agents: int, num_turns: int) -> Load:
    load = Load()
    began_at = time.perf_counter()
    await asyncio.gather(*[_converse(driving, system, agent, num_turns, load) for agent in range(num_agents)])
    load.took_s = time.perf_counter() - began_at
    return load


async def _converse(driving: Driven, system: str, agent: int, num_turns: int, load: Load) -> None:
    messages = [Message("system", system)]
    for turn in range(num_turns):
        messages.append(Message("user", question(agent, turn)))
        prompt = driving.engine.encode(messages)
        asked = await driving.ask(prompt, REPLY_TOKENS)
        messages.append(Message("assistant", asked.text))
        load.num_prompt += len(prompt)
        # The last chosen token needs no pass; where the reply stopped by itself that is its end mark.
        fed = asked.tokens if len(asked.tokens) < REPLY_TOKENS else asked.tokens[:-1]
        load.num_computed += asked.reuse.computed + len(fed)
        load.sequences.append((*prompt, *fed))
        load.num_recoded += driving.engine.model.encode_text(asked.text) != asked.tokens
        load.ttft_s.append(asked.ttft_s)


def least_by_blocks(sequences: list[tuple[int, ...]]) -> int:
    """Tokens to compute if each distinct prefix of whole blocks is, and each rest that no other goes on from."""
    ordered = sorted(set(sequences))
    prefixes = {s[:end] for s in ordered for end in range(BLOCK, len(s) + 1, BLOCK)}
    ends = [s for s, after in pairwise([*ordered, ()]) if after[: len(s)] != s]
    return BLOCK * len(prefixes) + sum(len(s) % BLOCK for s in ends)


def least_by_tokens(sequences: list[tuple[int, ...]]) -> int:
    """Tokens to compute if each distinct prefix is: what a cache of single tokens could do."""
    ordered = sorted(sequences)
    total = len(ordered[0])
    for before, after in pairwise(ordered):
        common = next(
            (i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b),
            min(len(before), len(after)),
        )
        total += len(after) - common
    return total
