"""Replay traces through the radix tree under every eviction policy and print the hit ratios against their bounds.

    python -m benchmarks.eviction [--trace mooncake --trace coding-40 …] [--half report] [--json FILE]

"held" is Belady's choice where the prompt at hand has to stay, as in an engine. The last columns: ours ÷ LRU, the
share of the way from LRU to Belady and to "held", and the microseconds per victim of ours / of LRU. Text is
tokenised with the model in the folder $OPENCLAW_CACHE_TOKENIZER, bytes are tokens without it.
Traces are read from $OPENCLAW_CACHE_TRACES.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.eviction.traces import SHARES, TRACES, data_folder

from openclaw_cache.kv.eviction import POLICIES
from openclaw_cache.simulation.bounds import belady, infinite
from openclaw_cache.simulation.replay import replay
from openclaw_cache.simulation.trace import Trace

_HEADER = (
    "trace",
    "blocks",
    "of all",
    *POLICIES,
    "Belady",
    "held",
    "infinite",
    "agent ÷ lru",
    "of the gap",
    "µs",
)
_LEAST_GAP = 0.005


def main() -> None:
    """Parse the command line, replay, print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.eviction", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "--trace", action="append", choices=sorted(TRACES), help="which traces; all without it"
    )
    parser.add_argument("--half", default="report", choices=["tune", "report", "whole"])
    parser.add_argument("--data", type=Path, default=data_folder(), help="the folder with load_traces.py")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    options = parser.parse_args()
    if not (options.data / "load_traces.py").exists():
        sys.exit(f"no traces in {options.data}: set OPENCLAW_CACHE_TRACES")
    rows = []
    print("| " + " | ".join(_HEADER) + " |\n" + "|---" * len(_HEADER) + "|")
    for name in options.trace or TRACES:
        for row in measure(name, TRACES[name](options.data, options.half)):
            rows.append(row)
            print(line(row), flush=True)
    if options.json:
        options.json.write_text(json.dumps({"half": options.half, "rows": rows}, indent=1))


def measure(name: str, trace: Trace) -> Iterator[dict[str, object]]:
    """The figures of a trace, one row per capacity."""
    top = infinite(trace).hit_ratio
    for capacity in (max(1, round(share * trace.num_blocks)) for share in SHARES[name]):
        outcomes = {
            policy: replay(trace, capacity, make(), time.perf_counter) for policy, make in POLICIES.items()
        }
        yield {
            "trace": name,
            "num_blocks": capacity,
            "share_ratio": capacity / trace.num_blocks,
            "hit_ratio": {policy: outcome.hit_ratio for policy, outcome in outcomes.items()},
            "belady": belady(trace, capacity).hit_ratio,
            "held": belady(trace, capacity, holds_prompt=True).hit_ratio,
            "infinite": top,
            "victim_us": {policy: outcome.victim_us for policy, outcome in outcomes.items()},
            "num_victims": outcomes["agent"].num_victims,
        }


def line(row: dict) -> str:  # type: ignore[type-arg]
    """A row of the table, for people."""
    ratios = row["hit_ratio"]
    ours, lru = ratios["agent"], ratios["lru"]
    shares = [
        f"{(ours - lru) / (best - lru):.2f}" if best - lru >= _LEAST_GAP else "–"
        for best in (row["belady"], row["held"])
    ]
    cells = [
        row["trace"],
        f"{row['num_blocks']:,}",
        f"{row['share_ratio']:.2%}",
        *(f"{ratio:.4f}" for ratio in ratios.values()),
        f"{row['belady']:.4f}",
        f"{row['held']:.4f}",
        f"{row['infinite']:.4f}",
        f"{ours / lru:.2f}" if lru else "–",
        " / ".join(shares),
        f"{row['victim_us']['agent']:.0f} / {row['victim_us']['lru']:.0f}",
    ]
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    main()
