"""Compare what `simulate` computes in one pass, or from a sample, with whole replays through the engine's radix tree.

    python -m benchmarks.simulation [--part pass --part sample --part policies --part million] [--trace mooncake …]

*pass*: the one-pass curve of LRU against replays through the tree. *sample*: curves from samples, five each, against
the exact one. *policies*: replays of samples against replays of all. *million*: time and memory for a million requests.
Errors are differences of hit ratios (prompt tokens found / all). Traces are read from $OPENCLAW_CACHE_TRACES.
"""

from __future__ import annotations

import argparse
import itertools
import random
import resource
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from benchmarks.eviction.traces import SHARES, TRACES, coding_sessions, data_folder

from openclaw_cache.kv.eviction import POLICIES
from openclaw_cache.simulation.interleave import interleave
from openclaw_cache.simulation.replay import replay
from openclaw_cache.simulation.request import Request
from openclaw_cache.simulation.stack import LruStack
from openclaw_cache.simulation.study import LRU, Study, lru_curve
from openclaw_cache.simulation.trace import Collector, Trace

_RATES = (0.5, 0.25, 0.1, 0.03, 0.01)
_REPLAY_BLOCKS = (1 << 18, 1 << 16, 1 << 14)
_NUM_SAMPLES = 5
_NUM_REPLAYED = 4  # with more room a replay of all takes minutes
_MILLION = 1_000_000


def main() -> None:
    """Parse the command line, measure, print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.simulation", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--part", action="append", choices=sorted(_PARTS))
    parser.add_argument(
        "--trace", action="append", choices=sorted(TRACES), help="mooncake and coding-40 without it"
    )
    parser.add_argument("--data", type=Path, default=data_folder(), help="the folder with load_traces.py")
    options = parser.parse_args()
    if not (options.data / "load_traces.py").exists():
        sys.exit(f"no traces in {options.data}: set OPENCLAW_CACHE_TRACES")
    for part in options.part or _PARTS:
        _PARTS[part](options.data, options.trace or ["mooncake", "coding-40"])
        print()


def one_pass(data: Path, names: list[str]) -> None:
    """The curve against the tree."""
    _head("trace", "blocks", "one pass", "the tree", "off by", "of the miss ratio")
    for name in names:
        trace = TRACES[name](data, "whole")
        curve = lru_curve(trace.requests, trace.block_tokens)
        for capacity in _capacities(name, trace):
            ours = curve.hit_ratio(capacity)
            tree = replay(trace, capacity, POLICIES["lru"]()).hit_ratio
            _row(
                name,
                f"{capacity:,}",
                f"{ours:.4f}",
                f"{tree:.4f}",
                f"{ours - tree:+.4f}",
                f"{(tree - ours) / (1 - tree):+.2%}",
            )


def sampled(data: Path, names: list[str]) -> None:
    """Curves from samples against the exact one."""
    _head("trace", "rate", "blocks in it", "mean error", "largest error", "s")
    for name in names:
        trace = TRACES[name](data, "whole")
        exact = lru_curve(trace.requests, trace.block_tokens)
        capacities = _capacities(name, trace)
        for rate in _RATES:
            started, errors, num_blocks = time.perf_counter(), [], 0
            for seed in range(_NUM_SAMPLES):
                stack = LruStack(trace.block_tokens, rate, None)
                for request in _renamed(trace.requests, seed):
                    stack.add(request)
                curve, num_blocks = stack.curve(), stack.num_blocks
                errors += [abs(curve.hit_ratio(size) - exact.hit_ratio(size)) for size in capacities]
            took_s = (time.perf_counter() - started) / _NUM_SAMPLES
            mean = sum(errors) / len(errors)
            _row(name, f"{rate:g}", f"{num_blocks:,}", f"{mean:.4f}", f"{max(errors):.4f}", f"{took_s:.1f}")


def policies(data: Path, names: list[str]) -> None:
    """Replays of samples, set right by what LRU is off in them, against replays of all."""
    _head("trace", "policy", "blocks in it", "rate", "mean error", "largest error", "s a replay", "whole: s")
    for name in names:
        trace = TRACES[name](data, "whole")
        curve = lru_curve(trace.requests, trace.block_tokens)
        all_of_it = Study(curve, trace.num_blocks, trace, trace.block_tokens, 0.0)
        samples = [_sampled_study(all_of_it, most) for most in _REPLAY_BLOCKS]
        capacities = _capacities(name, trace)[:_NUM_REPLAYED]
        for policy in (*(name for name in POLICIES if name != LRU), "belady", "held"):
            whole, whole_s = _ratios(all_of_it, policy, capacities)
            for study in samples:
                ours, took_s = _ratios(study, policy, capacities)
                errors = [abs(a - b) for a, b in zip(ours, whole, strict=True)]
                sample = study.trace or trace
                cells = (f"{sample.num_blocks:,}", f"{sample.rate:g}", f"{sum(errors) / len(errors):.4f}")
                _row(name, policy, *cells, f"{max(errors):.4f}", f"{took_s:.1f}", f"{whole_s:.1f}")


def _ratios(study: Study, policy: str, capacities: list[int]) -> tuple[list[float], float]:
    """Hit ratios, and seconds for each."""
    started = time.perf_counter()
    ratios = [study.hit_ratio(policy, num_blocks) for num_blocks in capacities]
    return ratios, (time.perf_counter() - started) / len(capacities)


def _sampled_study(study: Study, most_blocks: int) -> Study:
    assert study.trace is not None
    collector = Collector(study.block_tokens, most_blocks=most_blocks)
    for request in study.trace.requests:
        collector.add(request)
    trace = collector.trace()
    return replace(study, trace=trace, sample_curve=lru_curve(trace.requests, study.block_tokens))


def million(data: Path, names: list[str]) -> None:
    """Coding sessions again and again, each time as others. The memory is that of this process: run it alone."""
    _head("requests", "uses of blocks", "distinct blocks", "rate", "blocks in it", "s", "MB")
    rng = random.Random(0)
    sessions = itertools.chain.from_iterable(coding_sessions(data, "whole", rng) for _ in itertools.count())
    requests = itertools.islice(interleave(sessions, 40, rng=rng), _MILLION)
    stack, collector, num_uses, started = LruStack(64), Collector(64), 0, time.perf_counter()
    for request in requests:
        stack.add(request)
        collector.add(request)
        num_uses += len(request.ids)
    curve, took_s = stack.curve(), time.perf_counter() - started
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    counts = (f"{curve.num_requests:,}", f"{num_uses:,}", f"{curve.num_blocks:,}", f"{curve.rate:g}")
    _row(*counts, f"{stack.num_blocks:,}", f"{took_s:.0f}", f"{memory:.0f}")


def _renamed(requests: Iterable[Request], seed: int) -> Iterator[Request]:
    """The same with other ids, so that another sample is drawn."""
    mask = random.Random(seed).getrandbits(62)
    return (replace(request, ids=request.ids.astype("int64") ^ mask) for request in requests)


def _capacities(name: str, trace: Trace) -> list[int]:
    return [max(1, round(share * trace.num_blocks)) for share in SHARES[name]]


def _head(*cells: str) -> None:
    _row(*cells)
    print("|---" * len(cells) + "|")


def _row(*cells: str) -> None:
    print("| " + " | ".join(cells) + " |", flush=True)


_PARTS: dict[str, Callable[[Path, list[str]], None]] = {
    "pass": one_pass,
    "sample": sampled,
    "policies": policies,
    "million": million,
}

if __name__ == "__main__":
    main()
