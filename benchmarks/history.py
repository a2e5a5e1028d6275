"""What keeping history costs: a request, the task behind the requests, and a dashboard that asks.

    python -m benchmarks.history

One process over a real Valkey. All times are of the processor, so a busy machine changes them little; medians of five.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import orjson

from openclaw_cache.api.history import HistoryAdmin
from openclaw_cache.api.savings import SavingsAdmin
from openclaw_cache.history.archive import Archive
from openclaw_cache.history.coding import Codec
from openclaw_cache.history.durations import Durations
from openclaw_cache.history.figures import Figures
from openclaw_cache.history.history import History
from openclaw_cache.history.keeping import Keeping
from openclaw_cache.history.shelf import Shelf
from openclaw_cache.history.sweeping import Sweeper
from openclaw_cache.observe.metrics import Metrics
from openclaw_cache.observe.record import RequestRecord, Step
from openclaw_cache.observe.savings import Savings
from openclaw_cache.store.valkey import ValkeyStore
from openclaw_cache.testing.valkey import running_valkey

NUM = 5000
DAY_S = 86_400
NOW = time.time()
STEPS = [Step(name, "ok", 1e-5) for name in ("door", "read", "plan", "result", "flight", "upstream", "store")]


def miss(i: int, at: float, num_agents: int = 10) -> RequestRecord:
    """Of one of `num_agents` agents, with one of 40 prompts."""
    return RequestRecord(
        request_id="r", at=at, api="chat", outcome="miss", status=200, miss="new", model="a-model", upstream="u",
        namespace="default", agent=f"agent-{i % num_agents}", prompt_id=f"{i % 40:016x}", prompt_tokens=4000,
        completion_tokens=200, tokens_from={"computed": 3000, "device": 1000},
        savings=Savings(3000, 1000, spent=10**9, saved=0), ttft_s=0.3 + i % 7 / 10, duration_s=2.0, steps=STEPS,
    )  # fmt: skip


def hit(i: int, at: float) -> RequestRecord:
    """The same, answered by us."""
    return RequestRecord(
        request_id="r", at=at, api="chat", outcome="exact", status=200, model="a-model", upstream="u",
        namespace="default", agent=f"agent-{i % 10}", prompt_id=f"{i % 40:016x}", prompt_tokens=4000,
        completion_tokens=200, savings=Savings(0, 0, 4000, 200, 1000, 0, 10**9), ttft_s=0.0001,
        duration_s=0.0001, saved_s=2.0, steps=STEPS[:4],
    )  # fmt: skip


def median_us(work: Callable[[], object], num: int = 1) -> float:
    """Microseconds for one of `num` things that `work` does."""
    took = []
    for _ in range(5):
        began = time.process_time()
        work()
        took.append((time.process_time() - began) / num * 1e6)
    return statistics.median(took)


class Gateway:
    """One gateway's history."""

    def __init__(self, store: ValkeyStore, node: str, wall: Callable[[], float]) -> None:
        codec, shelf = Codec(b"s" * 32), Shelf(node)
        archive = Archive(store, codec, shelf, wall=wall)
        self.history = History(shelf, archive, wall=wall)
        sweeper = Sweeper(store, archive.nodes, wall=wall)
        self.keeping = Keeping(
            self.history, archive, sweeper, Figures(Metrics()), Durations(), store, codec, node,
            on_degraded=print, wall=wall,
        )  # fmt: skip


async def nothing() -> None:
    """There is nothing to bring up to date."""


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with running_valkey(Path(folder)) as (url, _):
            store = ValkeyStore(url, timeout_s=5.0)
            await store.start()
            await measure(store)
            await store.aclose()


async def measure(store: ValkeyStore) -> None:
    moment = NOW
    gateway = Gateway(store, "a" * 16, lambda: moment)
    history = gateway.history
    for name, records in (
        ("a hit", [hit(i, NOW) for i in range(NUM)]),
        ("a miss", [miss(i, NOW) for i in range(NUM)]),
    ):
        print(f"{name:28} {median_us(lambda r=records: [history.add(x) for x in r], NUM):8.1f} µs")
    durations = Durations()
    for i in range(100):
        durations.learn(miss(i, NOW))

    def ask() -> None:
        for _ in range(NUM):
            durations.saved_s("u", "a-model", prompt_tokens=3000, completion_tokens=200, took_s=0.0)

    print(f"{'seconds saved by a hit':28} {median_us(ask, NUM):8.1f} µs")

    def settle() -> None:
        for i in range(100):
            history.add(miss(i, NOW))
        history.settle()

    print(f"{'100 misses, and settling':28} {median_us(settle):8.0f} µs")

    # A month of one gateway: every minute of the last day, every hour of the last 30 days.
    tracemalloc.start()
    for back_s in (*range(30 * DAY_S, DAY_S, -3600), *range(DAY_S, 0, -60)):
        for i in range(10):
            history.add(miss(i, NOW - back_s))
        history.settle()
        if back_s % 3600 == 0:
            await gateway.keeping.flush()
    await gateway.keeping.flush()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    info = await store.info()
    print(f"{'memory of the gateway':28} {held / 1e6:8.1f} MB")
    print(
        f"{'a month in the store':28} {info.num_keys:8} keys, {info.used_bytes / 1e6:.1f} MB with the empty server"
    )
    took = []
    for i in range(5):
        history.add(miss(i, NOW))
        began = time.process_time()
        await gateway.keeping.flush()
        took.append((time.process_time() - began) * 1e3)
    print(f"{'a flush':28} {statistics.median(took):8.1f} ms")
    reader = Gateway(store, "b" * 16, lambda: moment).history
    for path, admin in (("history", HistoryAdmin(reader, nothing)), ("savings", SavingsAdmin(reader))):
        for text in ("last 1h", "last 24h", "last 30d"):
            took = []
            for _ in range(4):
                began = time.process_time()
                shown = await admin.shown(f"time_range={text}".encode())
                took.append((time.process_time() - began) * 1e3)
            size = len(orjson.dumps(shown)) / 1e3
            print(f"/admin/{path} {text:13} {took[0]:8.0f} ms, then {min(took[1:]):.0f} ms; {size:.0f} kB")


if __name__ == "__main__":
    asyncio.run(main())
