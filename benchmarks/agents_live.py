"""Agents of uneven rhythm on a small KV cache: what is computed again, and how long the first token takes.

    python -m benchmarks.agents_live [--policies "lru; agent"] [--minutes 8] [--tiers device|all] [--json FILE]

The embedded engine with the real model answers 24 agents: 4 in a tool loop, 8 in a talk, 12 that are seldom called.
Each has a system prompt of its own and holds conversations of several turns; what it says and how long it pauses comes
from the seed, so every policy gets the same calls. The device has room for a tenth of all distinct tokens; with
`--tiers all` the host has room for another tenth and the disk for a fifth.
Token counts depend on the machine's load only where that changes the order of calls; TTFT depends on it much.
"""

from __future__ import annotations

# isort: off
from benchmarks.kv import environment  # first of all: it says how many threads torch may have
# isort: on

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.kv.driving import Driven, Place, driven
from benchmarks.kv.mixed import least_by_blocks

from openclaw_cache.engine import kv_admin
from openclaw_cache.engine.chat import Message
from openclaw_cache.engine.kv_settings import KvSettings
from openclaw_cache.engine.model import LanguageModel
from openclaw_cache.engine.runner import kv_layout
from openclaw_cache.kv.codec import Codec

MODEL_DIR = Path("~/.cache/openclaw-cache-bench").expanduser()
REPOSITORY = Path(__file__).resolve().parents[1]
BLOCK = 16
REPLY_TOKENS = 8
SYSTEM_WORDS = 150
MOST_CONCURRENT = 1  # the device has room for four prompts: what runs may not be all that it holds
# (how many agents, mean pause in s, words of a user's turn)
KINDS = {"loop": (4, 14.0, 40), "talk": (8, 80.0, 25), "seldom": (12, 300.0, 25)}
PAUSE_SIGMA = 0.5  # of the logarithm: two pauses of three lie within a factor of 1.6


@dataclass(frozen=True, slots=True)
class Call:
    """One call of an agent: how long it pauses before, whether a conversation begins, and what is said."""

    pause_s: float
    is_first: bool
    text: str


@dataclass(frozen=True, slots=True)
class Agent:
    """What one agent will do."""

    kind: str
    system: str
    calls: list[Call]


@dataclass(slots=True)
class Run:
    """What the calls of one run came to, in the order of their replies."""

    kinds: list[str] = field(default_factory=list)
    num_prompt: list[int] = field(default_factory=list)
    num_computed: list[int] = field(default_factory=list)
    ttft_s: list[float] = field(default_factory=list)
    sequences: list[tuple[int, ...]] = field(default_factory=list)
    took_s: float = 0.0
    status: dict[str, Any] = field(default_factory=dict)


def agents(seed: int, minutes: float) -> list[Agent]:
    """The script of all agents."""
    rng = random.Random(seed)
    words = (REPOSITORY / "LICENSE").read_text().split()
    made: list[Agent] = []
    for kind, (num, pause_s, num_words) in KINDS.items():
        for _ in range(num):
            number = len(made)
            start = rng.randrange(len(words) - SYSTEM_WORDS)
            system = f"You are agent {number}. " + " ".join(words[start : start + SYSTEM_WORDS])
            num_calls = max(2, round(minutes * 60 / pause_s))
            pauses = [rng.lognormvariate(0, PAUSE_SIGMA) for _ in range(num_calls)]
            pauses[0] *= rng.random()
            calls: list[Call] = []
            num_turns = 0
            for pause in pauses:
                text = " ".join(rng.choices(words, k=num_words))
                calls.append(Call(pause / sum(pauses) * minutes * 60, not num_turns, text))
                num_turns = num_turns - 1 if num_turns else rng.randint(4, 8)
            made.append(Agent(kind, system, calls))
    return made


def num_distinct(model: LanguageModel, script: list[Agent]) -> int:
    """Tokens of all distinct blocks that the calls ask for; the replies are guessed."""
    reply = " the" * REPLY_TOKENS
    sequences = []
    for agent in script:
        messages: list[Message] = []
        for call in agent.calls:
            messages = _said(agent, call, messages)
            sequences.append(tuple(model.encode(messages)))
            messages.append(Message("assistant", reply))
    return least_by_blocks(sequences)


def _said(agent: Agent, call: Call, before: list[Message]) -> list[Message]:
    messages = [Message("system", agent.system)] if call.is_first else before
    return [*messages, Message("user", call.text)]


async def run(place: Place, script: list[Agent], settings: KvSettings) -> Run:
    """Let the agents call an engine of their own."""
    found = Run()
    async with driven(place, settings, settings.eviction) as driving:
        began_at = time.perf_counter()
        await asyncio.gather(*[_act(driving, agent, found) for agent in script])
        found.took_s = time.perf_counter() - began_at
        found.status = await driving.call(lambda: kv_admin.status(driving.engine))
    return found


async def _act(driving: Driven, agent: Agent, found: Run) -> None:
    messages: list[Message] = []
    for call in agent.calls:
        await asyncio.sleep(call.pause_s)
        messages = _said(agent, call, messages)
        prompt = driving.engine.encode(messages)
        asked = await driving.ask(prompt, REPLY_TOKENS)
        messages.append(Message("assistant", asked.text))
        found.kinds.append(agent.kind)
        found.num_prompt.append(len(prompt))
        found.num_computed.append(asked.reuse.computed)
        found.ttft_s.append(asked.ttft_s)
        found.sequences.append(tuple(prompt))
        print(f"\r{len(found.kinds)} calls", end="", file=sys.stderr)


def report(found: Run, num_blocks: int) -> dict[str, Any]:
    """The figures of a run. `recomputed` are tokens that an unbounded cache would not have computed."""
    num_prompt, num_computed = np.array(found.num_prompt), np.array(found.num_computed)
    ttft_s, half = np.array(found.ttft_s), len(found.ttft_s) // 2
    distinct = least_by_blocks(found.sequences)
    computed = {
        kind: f"{num_computed[mine].sum()} of {num_prompt[mine].sum()}"
        for kind in KINDS
        if (mine := np.array([each == kind for each in found.kinds])).any()
    }
    return {
        "num_calls": len(ttft_s),
        "took_s": round(found.took_s),
        "pool_ratio": round(num_blocks * BLOCK / distinct, 3),
        "num_prompt_tokens": int(num_prompt.sum()),
        "num_computed_tokens": int(num_computed.sum()),
        "num_distinct_tokens": distinct,
        "num_recomputed_tokens": int(num_computed.sum()) - distinct,
        "computed_by_kind": computed,
        "hit_ratio": round(1 - num_computed.sum() / num_prompt.sum(), 4),
        "hit_ratio_second_half": round(1 - num_computed[half:].sum() / num_prompt[half:].sum(), 4),
        "ttft_s": {
            name: round(float(np.percentile(ttft_s, share)), 3) for name, share in (("p50", 50), ("p99", 99))
        },
        "hits_by_tier": {row["tier"]: row["num_hits_tokens"] for row in found.status["tiers"]},
        "eviction": {name: value for name, value in found.status["eviction"].items() if name != "went"},
    }


def main() -> None:
    """Parse the command line, run every policy, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.agents_live")
    parser.add_argument("--policies", default="lru; agent", help="separated by semicolons")
    parser.add_argument(
        "--minutes", type=float, default=8.0, help="how long the agents call, without waiting"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tiers", default="device", choices=["device", "all"])
    parser.add_argument("--model-dir", type=Path, default=MODEL_DIR, help="where the converted model is kept")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    options = parser.parse_args()
    reports = {}
    with tempfile.TemporaryDirectory(prefix="openclaw-cache-bench-") as folder:
        place = Place(options.model_dir, Path(folder), environment.NUM_THREADS)
        model, script = place.load(), agents(options.seed, options.minutes)
        layout = kv_layout(model.network.config, BLOCK)
        num_blocks = num_distinct(model, script) // (10 * BLOCK)
        block_bytes = Codec("fp32", layout).block_bytes
        below = num_blocks * Codec("fp16", layout).block_bytes if options.tiers == "all" else 0
        for policy in (name.strip() for name in options.policies.split(";")):
            settings = KvSettings(
                eviction=policy, device_bytes=num_blocks * block_bytes, host_bytes=below, disk_bytes=2 * below,
                chunk_size=4 * BLOCK, max_concurrent=MOST_CONCURRENT, preallocation=0.0,
            )  # fmt: skip
            reports[policy] = report(asyncio.run(run(place, script, settings)), num_blocks)
            print(f"\n{policy}: {json.dumps(reports[policy], indent=1)}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(reports, indent=1) + "\n")


if __name__ == "__main__":
    main()
