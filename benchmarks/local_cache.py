"""Which eviction policy should the memory tier use? Hit ratio on real key traces, and the cost of a hit.

    python benchmarks/local_cache.py [--data DIR] [--limit N]

Policies other than ours run in libcachesim (the `bench` group of pyproject.toml), every object of size 1,
capacity as a share of the trace's distinct keys. `ours` is the class that we ship; it must agree with
libcachesim's S3-FIFO. The traces are those of Caffeine's simulator (see the data folder's README).
"""

from __future__ import annotations

import argparse
import gzip
import heapq
import lzma
import os
import time
from collections import OrderedDict
from pathlib import Path

import libcachesim
import numpy as np

from openclaw_cache.result.s3fifo import S3Fifo

TRACES = {
    "scarab-recs": ("scarab_scarab-recs.trace.xz", ">i8"),
    "web07": ("cache2k_web07.trace.xz", "<i4"),
    "orm-busy": ("cache2k_orm-busy.trace.xz", "<i4"),
    "corda": ("corda_trace_vaultservice.gz", ">i8"),
    "loop": ("lirs_loop.trace.gz", None),
    "multi3": ("lirs_multi3.trace.gz", None),
}
POLICIES = {
    "LRU": libcachesim.LRU,
    "W-TinyLFU": libcachesim.WTinyLFU,
    "SIEVE": libcachesim.Sieve,
    "ARC": libcachesim.ARC,
    "S3-FIFO": libcachesim.S3FIFO,
}
SHARES = (0.01, 0.05, 0.2, 0.5)


def read_trace(folder: Path, name: str, limit: int) -> list[int]:
    """Requests of a trace as small integers, in order."""
    file, dtype = TRACES[name]
    raw = (lzma if file.endswith("xz") else gzip).open(folder / file).read()
    if dtype is None:
        keys = np.array([int(line) for line in raw.split() if line.strip() and b"*" not in line])
    else:
        keys = np.frombuffer(
            raw[: len(raw) // np.dtype(dtype).itemsize * np.dtype(dtype).itemsize], dtype=dtype
        )
    return np.unique(keys[:limit], return_inverse=True)[1].tolist()


def oracle_ratio(policy: type, requests: list[int], capacity: int) -> float:
    """Hit ratio of a libcachesim policy."""
    get, request, hits = policy(capacity, hashpower=18).get, libcachesim.Request(), 0
    request.obj_size = 1
    for key in requests:
        request.obj_id = key
        hits += get(request)
    return hits / len(requests)


def our_ratio(requests: list[int], capacity: int) -> float:
    """Hit ratio of the policy that we ship."""
    cache: S3Fifo[int, bool] = S3Fifo(capacity)
    hits = 0
    for key in requests:
        if cache.get(key):
            hits += 1
        else:
            cache.put(key, True, 1)
    return hits / len(requests)


def optimal_ratio(requests: list[int], capacity: int) -> float:
    """Hit ratio of Belady's policy (evict what is asked for last): the bound for any policy."""
    num = len(requests)
    next_at, last = [num] * num, {}
    for at in range(num - 1, -1, -1):
        next_at[at] = last.get(requests[at], num + at)
        last[requests[at]] = at
    cached: dict[int, int] = {}
    heap: list[tuple[int, int]] = []
    hits = 0
    for at, key in enumerate(requests):
        if key in cached:
            hits += 1
        elif len(cached) >= capacity:
            while True:
                farthest, victim = heapq.heappop(heap)
                if cached.get(victim) == -farthest:
                    del cached[victim]
                    break
        cached[key] = next_at[at]
        heapq.heappush(heap, (-next_at[at], key))
    return hits / num


def hit_costs(num_keys: int = 20_000, rounds: int = 20) -> dict[str, float]:
    """CPU microseconds per hit in Python, for what each policy must do on a hit."""
    keys = [os.urandom(32) for _ in range(num_keys)]
    ours: S3Fifo[bytes, bool] = S3Fifo(num_keys)
    recent: OrderedDict[bytes, bool] = OrderedDict()
    for key in keys:
        ours.put(key, True, 1)
        recent[key] = True
    # TinyLFU counts each access in 4 rows of a sketch; the rest of its work (the policy behind it) is LRU's.
    rows = [bytearray(1 << 16) for _ in range(4)]

    def lru(key: bytes) -> bool | None:
        value = recent.get(key)
        if value is not None:
            recent.move_to_end(key)
        return value

    def tiny_lfu(key: bytes) -> bool | None:
        spread = hash(key)
        for row in rows:
            slot = spread & 0xFFFF
            if row[slot] < 15:
                row[slot] += 1
            spread >>= 15
        return lru(key)

    costs = {}
    for name, get in (("LRU", lru), ("W-TinyLFU", tiny_lfu), ("S3-FIFO (ours)", ours.get)):
        best = float("inf")
        for _ in range(rounds):
            started = time.process_time()
            for key in keys:
                get(key)
            best = min(best, (time.process_time() - started) / num_keys)
        costs[name] = best * 1e6
    return costs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = os.environ.get("OPENCLAW_CACHE_TEST_DATA", Path(__file__).parents[2] / "shared" / "data")
    parser.add_argument("--data", type=Path, default=Path(default))
    parser.add_argument("--limit", type=int, default=1_300_000, help="requests per trace")
    chosen = parser.parse_args()
    names = [*POLICIES, "ours", "optimal"]
    print("| trace | capacity | " + " | ".join(names) + " |\n|---" + "|---" * (len(names) + 1) + "|")
    sums, worst, num_rows = dict.fromkeys(names, 0.0), 0.0, 0
    for trace in TRACES:
        requests = read_trace(chosen.data / "cachetraces", trace, chosen.limit)
        num_keys = len(set(requests))
        for capacity in sorted({max(50, int(num_keys * share)) for share in SHARES}):
            num_rows += 1
            ratios = {name: oracle_ratio(policy, requests, capacity) for name, policy in POLICIES.items()}
            ratios |= {"ours": our_ratio(requests, capacity), "optimal": optimal_ratio(requests, capacity)}
            worst = max(worst, abs(ratios["ours"] - ratios["S3-FIFO"]))
            for name in names:
                sums[name] += ratios[name]
            print(
                f"| {trace} | {capacity} | " + " | ".join(f"{ratios[name]:.3f}" for name in names) + " |",
                flush=True,
            )
    print("| mean | | " + " | ".join(f"{sums[name] / num_rows:.4f}" for name in names) + " |")
    print(f"\nlargest difference between ours and libcachesim's S3-FIFO: {worst:.4f}")
    for name, cost in hit_costs().items():
        print(f"{name}: {cost:.3f} µs CPU per hit")


if __name__ == "__main__":
    main()
