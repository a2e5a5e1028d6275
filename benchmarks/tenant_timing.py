"""Whether the time of a probe tells if another namespace has the entry: a look at the clock, over a large sample.

    .venv/bin/python benchmarks/tenant_timing.py [--probes 4000]

One tenant stores the replies to half of the prompts. Another one asks for all of them, in random order and each once,
with `only-if-cached`: 504 every time. The times of the two halves are compared by the Mann-Whitney test: |z| above 3
would be a difference that chance makes once in 370 runs. As a control, the first tenant probes too: its own hits in
Valkey must differ, or the measure is blind (those in memory cost as much as a refusal). That no difference can be
there is proved step by step, without a clock, in `tests/integration/test_tenants_timing.py`.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.gateway import servers

KEYS = {"alpha": "sk-alpha", "beta": "sk-beta"}
PATH = "/v1/chat/completions"


class Client:
    """One connection of one tenant."""

    def __init__(self, url: str, tenant: str) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
        self._headers = {"content-type": "application/json", "authorization": f"Bearer {KEYS[tenant]}"}

    def ask(self, prompt: str) -> int:
        return self._post(prompt, self._headers)[0]

    def probe(self, prompt: str) -> tuple[int, float]:
        """Ask for what is stored alone: the status, and the µs it took."""
        return self._post(prompt, self._headers | {"cache-control": "only-if-cached"})

    def _post(self, prompt: str, headers: dict[str, str]) -> tuple[int, float]:
        body = json.dumps({"model": "bench", "messages": [{"role": "user", "content": prompt}]})
        began = time.perf_counter()
        self._connection.request("POST", PATH, body, headers)
        reply = self._connection.getresponse()
        reply.read()
        return reply.status, (time.perf_counter() - began) * 1e6


def mann_whitney_z(a: list[float], b: list[float]) -> float:
    """How many standard deviations the rank sum of `a` is from that of equal distributions; ties are not corrected."""
    ranks = {i: rank for rank, i in enumerate(sorted(range(len(a) + len(b)), key=(a + b).__getitem__), 1)}
    u = sum(ranks[i] for i in range(len(a))) - len(a) * (len(a) + 1) / 2
    deviation: float = (len(a) * len(b) * (len(a) + len(b) + 1) / 12) ** 0.5
    return (u - len(a) * len(b) / 2) / deviation


def sample(
    url: str, tenant: str, prompts: list[str], stored: set[str], expects: set[int]
) -> tuple[list[float], list[float]]:
    """The times of all probes: of what alpha has, and of what nobody has."""
    client = Client(url, tenant)
    for number in range(200):  # the connection, the code and the caches of the processor are warm
        client.probe(f"warm-up {tenant} {number}")
    had: list[float] = []
    had_not: list[float] = []
    for prompt in random.sample(prompts, len(prompts)):
        status, took_us = client.probe(prompt)
        if status not in expects:
            raise SystemExit(f"{status} for a probe")
        (had if prompt in stored else had_not).append(took_us)
    return had, had_not


def measured(folder: Path, table: Table, what: str, num_probes: int, result_cache: dict[str, Any]) -> None:
    folder.mkdir()
    with servers.stub(folder, 0) as upstream:
        port = servers.free_port()
        config = folder / "config.yaml"
        keys = [{"key": key, "namespace": name} for name, key in KEYS.items()]
        upstreams = [{"name": "stub", "kind": "openai", "urls": [upstream.url], "models": ["*"]}]
        config.write_text(
            json.dumps(
                {"server": {"keys": keys, "port": port}, "upstreams": upstreams, "result_cache": result_cache}
            )
        )
        command = [sys.executable, "-m", "openclaw_cache", "serve", "--config", str(config)]
        command += ["--data-dir", str(folder / "data")]
        url = f"http://127.0.0.1:{port}"
        is_up = lambda: servers.answers(f"{url}/readyz")  # noqa: E731
        with servers.running(command, core=1, log=folder / "gateway.log", is_up=is_up):
            prompts = [f"prompt {number:06d}" for number in range(num_probes)]
            stored = set(prompts[::2])
            alpha = Client(url, "alpha")
            for prompt in sorted(stored):
                alpha.ask(prompt)
            time.sleep(1)  # until all of it is written
            for tenant, expects in (("beta", {504}), ("alpha", {200, 504})):
                had, had_not = sample(url, tenant, prompts, stored, expects)
                table.add_row(
                    what if tenant == "beta" else "",
                    "another namespace" if tenant == "beta" else "its own (control)",
                    *(f"{statistics.median(times):.1f}" for times in (had, had_not)),
                    f"{mann_whitney_z(had, had_not):+.2f}",
                )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--probes", type=int, default=4000)
    num_probes = parser.parse_args().probes
    table = Table(
        "entries", "probed by", "had, median µs", "had not, median µs", "z", title="Probes by only-if-cached"
    )
    with tempfile.TemporaryDirectory(prefix="tenant-timing-") as temporary:
        folder = Path(temporary)
        measured(folder / "memory", table, "in memory and Valkey", num_probes, {})
        measured(folder / "valkey", table, "in Valkey only", num_probes, {"max_memory": 0})
    Console().print(table)


if __name__ == "__main__":
    main()
