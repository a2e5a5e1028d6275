"""CPU of this process for each GET of 2 kB: ours against redis-py's asyncio client, same server, same run.

    python benchmarks/store.py [--rounds 3] [--gets 20000] [--loop uvloop|asyncio]

CPU time is user plus system of the client process only (`time.process_time`), best of the rounds: on a
busy machine the least disturbed round is the one that tells what the code costs.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import uvloop
from rich.console import Console
from rich.table import Table

from openclaw_cache.store.embedded import EmbeddedValkey
from openclaw_cache.store.valkey import ValkeyStore

NUM_KEYS = 64
KEYS = [b"bench:%032d" % number for number in range(NUM_KEYS)]
VALUE = bytes(range(256)) * 8

Get = Callable[[bytes], Awaitable[bytes | None]]


async def cpu_us(get: Get, *, in_flight: int, num_gets: int) -> float:
    """CPU µs for each get while `in_flight` callers wait at any time."""

    async def caller() -> None:
        for number in range(num_gets // in_flight):
            if await get(KEYS[number % NUM_KEYS]) != VALUE:
                raise SystemExit("wrong value")

    await caller() if in_flight == 1 else None  # warm
    started = time.process_time()
    async with asyncio.TaskGroup() as group:
        for _ in range(in_flight):
            group.create_task(caller())
    return (time.process_time() - started) / num_gets * 1e6


async def peers(url: str) -> dict[str, Get]:
    """The clients to compare; redis-py only where it is installed."""
    store = ValkeyStore(url, timeout_s=5.0)
    await store.start()
    for key in KEYS:
        await store.put(key, VALUE)
    gets: dict[str, Get] = {"ours": store.get}
    try:
        import redis.asyncio  # noqa: PLC0415 - optional peer
    except ImportError:
        return gets
    path = url.removeprefix("unix://").partition("?")[0]
    gets["redis-py"] = redis.asyncio.Redis(unix_socket_path=path).get
    return gets


async def run(num_rounds: int, num_gets: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        server = EmbeddedValkey(Path(folder))
        try:
            gets = await peers(await server.start())
            table = Table("in flight", *(f"{name} µs" for name in gets), "ratio")
            for in_flight in (1, 32):
                best = dict.fromkeys(gets, float("inf"))
                for _ in range(num_rounds):
                    for name, get in gets.items():
                        cost = await cpu_us(get, in_flight=in_flight, num_gets=num_gets)
                        best[name] = min(best[name], cost)
                ratio = best["redis-py"] / best["ours"] if "redis-py" in best else float("nan")
                table.add_row(str(in_flight), *(f"{cost:.1f}" for cost in best.values()), f"{ratio:.1f}x")
            Console().print(table)
        finally:
            await server.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--gets", type=int, default=20_000)
    parser.add_argument("--loop", choices=["uvloop", "asyncio"], default="uvloop")
    options = parser.parse_args()
    runner = uvloop.run if options.loop == "uvloop" else asyncio.run
    runner(run(options.rounds, options.gets))


if __name__ == "__main__":
    main()
