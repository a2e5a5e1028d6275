"""What the unavoidable steps of an exact hit cost on one body: parse it, write it sorted, hash it.

    python -m benchmarks.gateway.floor FILE

Prints CPU microseconds as JSON. `exact` is what an exact key needs beside the hash: parse, write again and
compare (a duplicate key or a rounded number shows there), write sorted.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import orjson
from blake3 import blake3

SECONDS = 0.3


def cpu_us(step: Callable[[], object]) -> float:
    """CPU of one call, averaged over `SECONDS`."""
    step()
    count, began = 0, time.process_time()
    while (spent := time.process_time() - began) < SECONDS:
        step()
        count += 1
    return spent / count * 1e6


def measure(raw: bytes) -> dict[str, float]:
    """CPU of each step, µs."""
    value = orjson.loads(raw)
    parse = cpu_us(lambda: orjson.loads(raw))
    compare = cpu_us(lambda: orjson.dumps(value) == raw)
    sort = cpu_us(lambda: orjson.dumps(value, option=orjson.OPT_SORT_KEYS))
    digest = cpu_us(lambda: blake3(raw).digest())
    return {"parse": parse, "compare": compare, "sort": sort, "hash": digest}


if __name__ == "__main__":
    print(json.dumps(measure(Path(sys.argv[1]).read_bytes())))
