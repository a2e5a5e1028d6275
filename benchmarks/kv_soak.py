"""Many agents for a long time on a small KV cache: does memory stay flat, do the books agree, does any stream starve?

    python benchmarks/kv_soak.py [--minutes 10] [--agents 32] [--json FILE]

Starts a gateway with its embedded engine. The agents hold conversations of random length behind a few shared
system prompts; some replies are cancelled, some have two choices, some may not be stored on disk. Device, host and
disk are so small that all of them evict all the time. Exit code 1 if something is not as it should be.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np

REPOSITORY = Path(__file__).resolve().parents[1]
MODEL_DIR = Path("~/.cache/openclaw-cache-bench").expanduser()
MODEL = "smollm2-135m"
# Device and host take all their memory at start, so that growth is growth. The reply cache is off: every request
# computes.
CONFIG = {
    "kv_cache": {"device": "300MB", "host": "60MB", "disk": "120MB", "preallocation": "100%"},
    "result_cache": {"enabled": False},
}
NUM_SYSTEM_PROMPTS = 3
SYSTEM_WORDS = 300
MOST_TURNS = 6
SAMPLE_S = 5.0
START_TIMEOUT_S = 180.0
IDLE_S = 6.0
FLAT_RATIO = 1.03


@dataclass(slots=True)
class Counts:
    """What the agents have seen."""

    num: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    largest_itl_s: list[float] = field(default_factory=list)
    """Of each stream the longest time between two of its texts."""
    ttft_s: list[float] = field(default_factory=list)


@dataclass(slots=True)
class Memory:
    """Bytes of the engine process over time: all that is resident, and without pages of files."""

    at_s: list[float] = field(default_factory=list)
    rss_bytes: list[int] = field(default_factory=list)
    anonymous_bytes: list[int] = field(default_factory=list)

    def sample(self, pid: int, at_s: float) -> None:
        sizes = dict(
            line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line
        )
        self.at_s.append(at_s)
        self.rss_bytes.append(int(sizes["VmRSS"].split()[0]) * 1024)
        self.anonymous_bytes.append(int(sizes["RssAnon"].split()[0]) * 1024)

    def slope_bytes_per_minute(self) -> float:
        """Least squares over the second half."""
        half = len(self.at_s) // 2
        if len(self.at_s) - half < 2:
            return float("nan")
        return float(np.polyfit(self.at_s[half:], self.rss_bytes[half:], 1)[0]) * 60


class Agent:
    """Talks until it is told to stop."""

    def __init__(self, number: int, http: aiohttp.ClientSession, words: list[str], counts: Counts) -> None:
        self._random = random.Random(number)
        self._http = http
        self._words = words
        self._counts = counts

    async def talk(self, until: float) -> None:
        while time.monotonic() < until:
            start = self._random.randrange(NUM_SYSTEM_PROMPTS) * SYSTEM_WORDS
            messages = [{"role": "system", "content": " ".join(self._words[start : start + SYSTEM_WORDS])}]
            for _ in range(self._random.randint(1, MOST_TURNS)):
                said = " ".join(self._random.choices(self._words, k=self._random.randint(5, 60)))
                messages.append({"role": "user", "content": said})
                reply = await self._ask(messages)
                if reply is None or time.monotonic() >= until:
                    break
                messages.append({"role": "assistant", "content": reply})

    async def _ask(self, messages: list[dict[str, str]]) -> str | None:
        """The reply's text; None where it was cancelled or failed."""
        chance = self._random.random()
        body = {
            "model": MODEL, "messages": messages, "stream": True, "max_tokens": self._random.randint(8, 40),
            "temperature": self._random.choice([0, 1]), "n": 2 if chance < 0.1 else 1,
            "stream_options": {"include_usage": True},
        }  # fmt: skip
        headers = {"cache-control": "no-store"} if 0.1 < chance < 0.2 else {}
        cancelled_after = self._random.randint(0, 8) if chance > 0.9 else None
        self._counts.num["requests"] += 1
        try:
            async with self._http.post("/v1/chat/completions", json=body, headers=headers) as reply:
                if reply.status != 200:
                    self._counts.errors[f"{reply.status} {(await reply.text())[:200]}"] += 1
                    await asyncio.sleep(1)
                    return None
                return await self._read(reply, cancelled_after)
        except (aiohttp.ClientError, TimeoutError) as exc:
            self._counts.errors[f"{type(exc).__name__}: {exc}"] += 1
            return None

    async def _read(self, reply: aiohttp.ClientResponse, cancelled_after: int | None) -> str | None:
        counts, began_at = self._counts, time.monotonic()
        texts: list[str] = []
        last_at, largest_s, num_chunks = None, 0.0, 0
        if cancelled_after == 0:
            counts.num["cancelled"] += 1
            return None
        async for line in reply.content:
            if not line.startswith(b"data: {"):
                continue
            chunk = json.loads(line[6:])
            if "error" in chunk:
                counts.errors[f"in a stream: {chunk['error']['message'][:200]}"] += 1
                return None
            if chunk.get("usage"):
                counts.num["prompt tokens"] += chunk["usage"]["prompt_tokens"]
                counts.num["cached tokens"] += chunk["usage"]["prompt_tokens_details"]["cached_tokens"]
                counts.num["reply tokens"] += chunk["usage"]["completion_tokens"]
            for choice in chunk["choices"]:
                if choice["index"] or not choice["delta"].get("content"):
                    continue
                now = time.monotonic()
                if last_at is None:
                    counts.ttft_s.append(now - began_at)
                else:
                    largest_s = max(largest_s, now - last_at)
                last_at = now
                texts.append(choice["delta"]["content"])
                num_chunks += 1
            if num_chunks == cancelled_after:
                counts.num["cancelled"] += 1
                return None
        counts.largest_itl_s.append(largest_s)
        return "".join(texts)


@contextlib.contextmanager
def gateway(folder: Path, model_dir: Path) -> Iterator[str]:
    """A gateway that is ready; gives its URL."""
    data_dir = folder / "data"
    data_dir.mkdir()
    (model_dir / "models").mkdir(parents=True, exist_ok=True)
    (data_dir / "models").symlink_to((model_dir / "models").resolve())
    config = folder / "config.yaml"
    config.write_text(json.dumps(CONFIG))  # JSON is YAML
    command = [sys.executable, "-m", "openclaw_cache", "serve", "--config", str(config), "--port", "0"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--data-dir", str(data_dir)], stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    try:
        deadline_at = time.monotonic() + START_TIMEOUT_S
        while not (data_dir / "server.json").exists():
            if process.poll() is not None or time.monotonic() > deadline_at:
                raise RuntimeError((folder / "log").read_text(errors="replace")[-2000:])
            time.sleep(0.1)
        yield json.loads((data_dir / "server.json").read_bytes())["url"]
    finally:
        process.terminate()
        process.wait(60)


async def upstream(http: aiohttp.ClientSession) -> dict[str, Any]:
    """What the gateway says of its engine."""
    async with http.get("/admin/status") as reply:
        found: dict[str, Any] = (await reply.json())["upstreams"][0]
        return found


async def soak(url: str, minutes: float, num_agents: int) -> dict[str, Any]:
    """Run the agents; returns the report."""
    words = (REPOSITORY / "LICENSE").read_text().split()
    counts, memory = Counts(), Memory()
    timeout = aiohttp.ClientTimeout(total=None, sock_read=300)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(url, timeout=timeout, connector=connector) as http:
        while (pid := (await upstream(http)).get("pid")) is None or (await http.get("/readyz")).status != 200:
            await asyncio.sleep(0.5)
        began_at = time.monotonic()
        until = began_at + minutes * 60
        agents = [
            asyncio.create_task(Agent(number, http, words, counts).talk(until))
            for number in range(num_agents)
        ]
        while time.monotonic() < until:
            await asyncio.sleep(SAMPLE_S)
            memory.sample(pid, time.monotonic() - began_at)
            print(
                f"{memory.at_s[-1]:5.0f} s  {memory.rss_bytes[-1] / 1e6:7.1f} MB  {dict(counts.num)}",
                file=sys.stderr,
            )
        await asyncio.gather(*agents)
        ended_at = time.monotonic()
        await asyncio.sleep(IDLE_S)
        memory.sample(pid, time.monotonic() - began_at)
        return _report(counts, memory, await upstream(http), pid, ended_at, began_at)


def _report(
    counts: Counts, memory: Memory, engine: dict[str, Any], pid: int, ended_at: float, began_at: float
) -> dict[str, Any]:
    kv = engine["kv"]
    rss = memory.rss_bytes
    first, middle = rss[min(len(rss) // 10, len(rss) - 1)], rss[len(rss) // 2]
    checked_at = (kv.get("integrity") or {}).get("checked_at")
    itl = sorted(counts.largest_itl_s) or [float("nan")]
    faults = [f"{num} × {what}" for what, num in counts.errors.items()]
    if engine["pid"] != pid:
        faults.append("the engine was replaced by a new process")
    # Both clocks are the machine's monotonic one.
    if checked_at is None or checked_at < ended_at:
        faults.append("the books were not checked after the last request")
    if kv.get("running") or kv.get("waiting"):
        faults.append(f"requests are left over: {kv.get('running')} running, {kv.get('waiting')} waiting")
    if rss[-1] > middle * FLAT_RATIO:  # the first half may still bring buffers to their size
        faults.append(f"resident memory grew by more than {FLAT_RATIO - 1:.0%} in the second half")
    return {
        "minutes": (ended_at - began_at) / 60,
        "rss_mb": {"start": first / 1e6, "middle": middle / 1e6, "end": rss[-1] / 1e6},
        "anonymous_mb_end": memory.anonymous_bytes[-1] / 1e6,
        "slope_mb_per_minute": memory.slope_bytes_per_minute() / 1e6,
        "num": dict(counts.num),
        "ttft_s": {"median": float(np.median(counts.ttft_s)), "max": max(counts.ttft_s)},
        "largest_itl_s": {"median": itl[len(itl) // 2], "p99": itl[int(0.99 * len(itl))], "max": itl[-1]},
        "hits_by_tier": {tier["tier"]: tier["num_hits_tokens"] for tier in kv.get("tiers", [])},
        "num_evicted_blocks": kv.get("num_evicted_blocks"),
        "num_failures": kv.get("num_failures"),
        "blocks": kv.get("blocks"),
        "faults": faults,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--agents", type=int, default=32)
    parser.add_argument("--model-dir", type=Path, default=MODEL_DIR, help="where the converted model is kept")
    parser.add_argument("--json", type=Path, help="write the report there too")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="openclaw-cache-soak-") as folder,
        gateway(Path(folder), options.model_dir) as url,
    ):
        report = asyncio.run(soak(url, options.minutes, options.agents))
    print(json.dumps(report, indent=1))
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    return 1 if report["faults"] else 0


if __name__ == "__main__":
    sys.exit(main())
