"""What the radix tree costs: look up and record a prompt, µs."""

from __future__ import annotations

from statistics import median

import numpy as np
from benchmarks.kv.floors import timed
from benchmarks.kv.prompts import random_tokens
from benchmarks.kv.report import Section

from openclaw_cache.kv.radix import RadixTree

BLOCK = 16
ROOT = b""


def measure(num_tokens: int, num_prompts: int) -> Section:
    """A tree of many prompts that share their first half; each is recorded, found, and lengthened by a turn."""
    tree = RadixTree(BLOCK)
    shared = random_tokens(num_tokens // 2, 0)
    prompts = [
        np.array(shared + random_tokens(num_tokens - len(shared) + BLOCK, seed), np.int32)
        for seed in range(1, num_prompts + 1)
    ]
    times: dict[str, list[float]] = {
        name: [] for name in ("insert", "match", "slots", "insert again", "insert one more block")
    }
    num_blocks = num_tokens // BLOCK
    for number, prompt in enumerate(prompts):
        blocks = np.arange(num_blocks, dtype=np.int32) + number * (num_blocks + 1)
        head = prompt[:num_tokens]
        times["insert"].append(timed(lambda: tree.insert(ROOT, head, blocks, now=number)))  # noqa: B023
        times["match"].append(timed(lambda: tree.match(ROOT, head)))  # noqa: B023
        match = tree.match(ROOT, head)
        times["slots"].append(timed(match.slots))
        times["insert again"].append(timed(lambda: tree.insert(ROOT, head, blocks, now=number)))  # noqa: B023
        longer = np.append(blocks, blocks[-1] + 1)
        times["insert one more block"].append(timed(lambda: tree.insert(ROOT, prompt, longer, now=number)))  # noqa: B023
    section = Section(
        f"the radix tree: {num_prompts} prompts of {num_tokens:,} tokens that share their first half",
        ("call", "median µs", "smallest µs"),
    )
    for name, taken in times.items():
        section.rows.append((name, f"{median(taken) * 1e6:.0f}", f"{min(taken) * 1e6:.0f}"))
    return section
