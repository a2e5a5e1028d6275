"""Measure the prefix indexes on traces: look-ups and insertions a second, bytes a cached token, hashing.

    python -m benchmarks.radix [--trace mooncake --trace coding-40] [--requests 1000] [--rounds 3]
                               [--peer sglang=PYTHON --peer vllm=PYTHON] [--json FILE]

Every figure comes from a process of its own, one at a time, in turn; CPU time, and the median of the rounds. Traces are
read from $OPENCLAW_CACHE_TRACES. PYTHON is an interpreter that can import the engine's wheel:

    python3 -m venv ENV && ENV/bin/pip install --no-deps sglang==0.5.23      # or vllm==0.33.0
    ENV/bin/pip install blake3 numpy torch transformers psutil pyzmq pillow pybase64    # both
    ENV/bin/pip install ipython traitlets dill                                          # sglang
    ENV/bin/pip install cachetools cloudpickle cbor2 py-cpuinfo openai-harmony fastapi  # vllm

Stand-ins take the place of what else they import (`benchmarks.radix.stubs`): their indexes use none of it.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import json
import os
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np
from benchmarks.radix import peers, subjects
from benchmarks.radix.prompts import Prompts
from benchmarks.radix.subjects import Subject

from openclaw_cache.kv.hash_index import HashIndex
from openclaw_cache.kv.hashing import HASH_BYTES, ModelIdentity, chain, root_hash

SUBJECTS: dict[str, Callable[[Prompts], Subject]] = {
    "tree": subjects.Tree,
    "sglang": partial(peers.SGLang, page_size=1),
    "sglang-16": partial(peers.SGLang, page_size=16),
    "index": subjects.Index,
    "dict": subjects.Dictionary,
    "vllm": peers.VLLM,
}
_GRANULARITIES = (16, 64, 512)
_HASHED_TOKENS = 1 << 17
_MEMORY_REQUESTS = 300
_BATCH = 50
_AT_ONCE = 20
_CHECKOUT = Path(__file__).resolve().parents[2]


def main() -> None:
    """Parse the command line; measure one thing, or start a process for each and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.radix", description=__doc__.splitlines()[0])
    parser.add_argument("--trace", action="append")
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=PYTHON")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", help=argparse.SUPPRESS)
    parser.add_argument("--prompts", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        print(json.dumps(_measure(options.only, options.prompts)))
        return
    pythons = {"": sys.executable} | dict(peer.split("=", 1) for peer in options.peer)
    found = {"hashing": hashing(pythons, options.rounds), "lengths": lengths(options.rounds)}
    for trace in options.trace or ["mooncake", "coding-40"]:
        found[trace] = indexes(pythons, trace, options.requests, options.rounds)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))


def indexes(pythons: dict[str, str], trace: str, num_requests: int, num_rounds: int) -> dict[str, dict]:  # type: ignore[type-arg]
    """Every index on a trace."""
    names = [name for name in SUBJECTS if _engine(name) in pythons]
    with TemporaryDirectory() as folder:
        prompts = f"{folder}/prompts.npz"
        Prompts.of_trace(trace, num_requests).save(prompts)
        rounds = [
            {name: _asked(pythons[_engine(name)], name, prompts) for name in names} for _ in range(num_rounds)
        ]
    rows = {}
    mean_blocks = rounds[0][names[0]]["mean_blocks"]
    print(f"\n{trace}: {num_requests} prompts of {mean_blocks:,.0f} blocks on average")
    print(
        "| index | match /s | insert /s | both /s | known tokens | bytes a cached token |\n"
        + "|---" * 6
        + "|"
    )
    for name in names:
        row = {key: median(found[name][key] for found in rounds) for key in rounds[0][name]}
        rows[name] = row
        print(
            f"| {name} | {row['match']:,.0f} | {row['insert']:,.0f} | {row['both']:,.0f} "
            f"| {row['known_ratio']:.4f} | {row['bytes_per_token']:.2f} |",
            flush=True,
        )
    return rows


def hashing(pythons: dict[str, str], num_rounds: int) -> dict[str, dict[str, float]]:
    """Every way to name blocks, Mtok/s."""
    asked = [("hashing", pythons[""])]
    if "vllm" in pythons:
        asked.append(("hashing-vllm", pythons["vllm"]))
    rounds = [_asked(python, name) for _ in range(num_rounds) for name, python in asked]
    names = dict.fromkeys(name for found in rounds for name in found)
    print(
        "| Mtok/s, tokens of a block: | " + " | ".join(map(str, _GRANULARITIES)) + " |\n" + "|---" * 4 + "|"
    )
    rows = {}
    for name in names:
        each = [found[name] for found in rounds if name in found]
        rows[name] = {size: median(one[size] for one in each) for size in each[0]}
        print(f"| {name} | " + " | ".join(f"{rate:.1f}" for rate in rows[name].values()) + " |", flush=True)
    return rows


def lengths(num_rounds: int) -> dict[str, float]:
    """Our index on ready hashes: match + insert /s, by the length of prompts and the share that is known."""
    rounds = [_asked(sys.executable, "lengths") for _ in range(num_rounds)]
    rows = {case: median(found[case] for found in rounds) for case in rounds[0]}
    print("\n| ready hashes | match + insert /s |\n|---|---|")
    for case, rate in rows.items():
        print(f"| {case} | {rate:,.0f} |", flush=True)
    return rows


def _engine(subject: str) -> str:
    name = subject.partition("-")[0]
    return name if name in ("sglang", "vllm") else ""


def _asked(python: str, name: str, prompts: str | None = None) -> dict:  # type: ignore[type-arg]
    """What a process of its own measures."""
    options = ["--only", name] + (["--prompts", prompts] if prompts else [])
    done = subprocess.run(
        [python, "-m", "benchmarks.radix", *options],
        capture_output=True,
        text=True,
        check=False,
        cwd=_CHECKOUT,
        env=os.environ | {"PYTHONPATH": f"{_CHECKOUT}/src"},
    )
    if done.returncode:
        sys.exit(f"{name}: {done.stderr[-2000:]}")
    found: dict = json.loads(done.stdout.splitlines()[-1])  # type: ignore[type-arg]
    return found


def _measure(name: str, file: str) -> dict:  # type: ignore[type-arg]
    if name == "hashing":
        return {"ours (SHA-256)": {size: _rate(_ours(size)) for size in _GRANULARITIES}}
    if name == "hashing-vllm":
        tokens = subjects.random_tokens(_HASHED_TOKENS).tolist()
        hashers = peers.vllm_hashers()
        return {
            each: {size: _rate(partial(hasher, tokens, size)) for size in _GRANULARITIES}
            for each, hasher in hashers.items()
        }
    if name == "lengths":
        return {
            f"{num_blocks:,} blocks, {ratio:.0%} known": both_rate(num_blocks, ratio)
            for num_blocks in (24, 1700)
            for ratio in (1.0, 0.96, 0.5, 0.0)
        }
    prompts = Prompts.load(file)
    speed(SUBJECTS[name], prompts.first(_BATCH))  # warms up
    # A collection would walk all that an engine's import has made: 0.3 s, which is not its index's.
    gc.collect()
    gc.freeze()
    return speed(SUBJECTS[name], prompts) | memory(SUBJECTS[name], prompts.first(_MEMORY_REQUESTS))


def speed(make: Callable[[Prompts], Subject], prompts: Prompts) -> dict[str, float]:
    """Ask for and insert all prompts, some at a time. More than that are made ahead: making them empties the caches."""
    subject = make(prompts)
    match_s = insert_s = 0.0
    num_known = num_tokens = 0
    for batch in prompts.batches():
        ready = [subject.prepare(prompt) for prompt in batch]
        num_tokens += sum(len(prompt.tokens) for prompt in batch)
        for first in range(0, len(ready), _AT_ONCE):
            asked = ready[first : first + _AT_ONCE]
            begun = time.process_time()
            known = [subject.match(each) for each in asked]
            between = time.process_time()
            for each in asked:
                subject.insert(each)
            match_s, insert_s = match_s + between - begun, insert_s + time.process_time() - between
            num_known += sum(known)
    num = len(prompts)
    return {
        "match": num / match_s,
        "insert": num / insert_s,
        "both": num / (match_s + insert_s),
        "known_ratio": num_known / num_tokens,
        "mean_blocks": prompts.mean_blocks,
    }


def both_rate(num_blocks: int, known_ratio: float) -> float:
    """Prompts a second whose first blocks all of them share, each looked up and inserted: median of the batches."""
    index, slots = HashIndex(), np.arange(num_blocks, dtype=np.int32)
    num_known = round(num_blocks * known_ratio)
    shared = _names("shared", num_blocks)
    index.insert(shared, slots)
    taken = []
    for batch in range(300_000 // num_blocks // _BATCH):
        paths = [
            shared[:num_known] + _names(f"{batch}:{number}", num_blocks - num_known)
            for number in range(_BATCH)
        ]
        begun = time.process_time()
        for names in paths:
            index.match(names)
            index.insert(names, slots)
        taken.append(time.process_time() - begun)
    return _BATCH / median(taken)


def _names(seed: str, num: int) -> list[bytes]:
    """Stand-ins for the hashes of blocks."""
    table = hashlib.shake_256(seed.encode()).digest(num * HASH_BYTES)
    return [table[at : at + HASH_BYTES] for at in range(0, len(table), HASH_BYTES)]


def memory(make: Callable[[Prompts], Subject], prompts: Prompts) -> dict[str, float]:
    """Bytes that the index has grown by, per distinct cached token."""
    make(prompts)  # imports are no part of it
    gc.collect()
    tracemalloc.start()
    subject = make(prompts)
    for batch in prompts.batches():
        for prompt in batch:
            subject.insert(subject.prepare(prompt))
        del batch, prompt
    gc.collect()
    num_bytes = tracemalloc.get_traced_memory()[0] + subject.unseen_bytes()
    tracemalloc.stop()
    return {"bytes_per_token": num_bytes / (prompts.num_distinct * prompts.block_tokens)}


def _ours(block_tokens: int) -> Callable[[], object]:
    tokens = subjects.random_tokens(_HASHED_TOKENS)
    root = root_hash(b"", ModelIdentity("f" * 64, "fp16", "30x3x64", "default"), block_tokens)
    return lambda: chain(root, tokens, block_tokens)


def _rate(run: Callable[[], object]) -> float:
    """Mtok/s, the median of five."""
    taken = []
    for _ in range(5):
        begun = time.process_time()
        run()
        taken.append(time.process_time() - begun)
    return _HASHED_TOKENS / median(taken) / 1e6


if __name__ == "__main__":
    main()
