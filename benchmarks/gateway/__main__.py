"""Run the benchmark and print what was measured against the targets.

python -m benchmarks.gateway [--peers] [--json FILE] [--rounds 3] [--seconds 3] [--cases "hit; miss"]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.gateway import load, report, servers
from benchmarks.gateway.cases import CASES, Case, Entrant, write_bodies
from benchmarks.gateway.memory import measure_memory
from benchmarks.gateway.report import Figure, Report
from benchmarks.gateway.servers import Server
from rich.console import Console

PEERS = Path("~/.cache/openclaw-cache-bench").expanduser()
LITELLM = PEERS / "litellm"
INSTALL_WRK = "wrk is missing; on Debian or Ubuntu: apt-get update && apt-get install -y wrk"
INSTALL_LITELLM = f"python3 -m venv {LITELLM} && {LITELLM}/bin/pip install 'litellm[proxy]'"


@dataclass(frozen=True, slots=True)
class Bench:
    """Where and how the measuring is done."""

    folder: Path
    server_core: int
    load_core: int
    seconds: int
    console: Console

    def start(self, stack: contextlib.ExitStack, stub: Server, *, peers: bool) -> dict[str, Server]:
        """Start every server that takes part, by name."""
        folder, core = self.folder, self.server_core
        bare = stack.enter_context(servers.baseline(folder, core, stub.url))
        started = {
            "bare": Server(bare.pid, bare.url, "/hit"),
            "bare-relay": Server(bare.pid, bare.url, "/relay"),
            "ours": stack.enter_context(
                servers.gateway(folder, core, stub.url, "ours", store={}, result_cache={})
            ),
            "ours-valkey": stack.enter_context(
                servers.gateway(
                    folder, core, stub.url, "ours-valkey", store={}, result_cache={"max_memory": "0"}
                )
            ),
        }
        if peers:
            port = stack.enter_context(servers.valkey(folder, self.load_core))
            redis = {"type": "redis", "host": "127.0.0.1", "port": port}
            for name, cache in (("litellm", {"type": "local"}), ("litellm-redis", redis)):
                started[name] = stack.enter_context(
                    servers.litellm(folder, core, stub.url, LITELLM, name, cache)
                )
        return started

    def run(
        self, case: Case, entrant: Entrant, server: Server, stub: Server, body: Path, run: int, seconds: int
    ) -> Figure:
        """Load one server once. Raises RuntimeError where it did not do what the case says."""
        repeated = case.requests == "same"
        if repeated:
            prime(server, body, entrant)
        lua = load.script(
            self.folder / "load.lua",
            load.one_body(body) if repeated else load.numbered_bodies(body, run),
            entrant.headers,
        )
        tree = load.tree(server.pid)
        calls = int(servers.answers(f"{stub.url}/count") or 0)
        own, whole = load.cpu_s([server.pid]), load.cpu_s(tree)
        seen = load.drive(
            server.target,
            lua,
            core=self.load_core,
            connections=case.connections,
            seconds=seconds,
        )
        own, whole = load.cpu_s([server.pid]) - own, load.cpu_s(tree) - whole
        calls = int(servers.answers(f"{stub.url}/count") or 0) - calls
        if seen.errors or not seen.requests:
            raise RuntimeError(f"{case.name}, {entrant.label}: {seen}")
        # The requests that the end cuts off reach the upstream without being counted by wrk.
        if not 0 <= calls - case.upstream_calls * seen.requests <= 2 * case.connections:
            raise RuntimeError(
                f"{case.name}, {entrant.label}: {calls} upstream calls for {seen.requests} requests"
            )
        return Figure(
            cpu_us=own / seen.requests * 1e6,
            tree_cpu_us=whole / seen.requests * 1e6,
            p50_us=seen.p50_us,
            requests_per_s=seen.requests / seen.seconds,
        )


def prime(server: Server, body: Path, entrant: Entrant) -> None:
    """Ask once or twice, so that every later request is a hit."""
    for _ in range(2):
        if not servers.post(server.target, body.read_bytes(), entrant.headers):
            raise RuntimeError(f"{entrant.label} does not answer at {server.target}")


def measure(bench: Bench, chosen: list[Case], rounds: int, *, peers: bool) -> Report:
    """All rounds, interleaved: each round asks every entrant of every case once."""
    bodies = write_bodies(bench.folder)
    figures: dict[tuple[str, str], list[Figure]] = {}
    with contextlib.ExitStack() as stack:
        stub = stack.enter_context(servers.stub(bench.folder, bench.load_core))
        started = bench.start(stack, stub, peers=peers)
        run = 0
        for number in range(rounds + 1):  # the first warms everybody and is not counted
            for case in chosen:
                for entrant in case.entrants:
                    if entrant.server not in started:
                        continue
                    bench.console.print(f"[dim]round {number}/{rounds}: {case.name}, {entrant.label}")
                    run += 1
                    seconds = bench.seconds * entrant.slowness if number else 1
                    figure = bench.run(
                        case, entrant, started[entrant.server], stub, bodies[case.body], run, seconds
                    )
                    if number:
                        figures.setdefault((case.name, entrant.label), []).append(figure)
    medians = {row: report.median(several) for row, several in figures.items()}
    floor = [sys.executable, "-m", "benchmarks.gateway.floor", str(bodies["agent"])]
    shown = subprocess.run(
        ["taskset", "-c", str(bench.server_core), *floor],
        cwd=servers.REPOSITORY,
        capture_output=True,
        check=True,
    )
    return Report(
        machine=f"{cpu_name()}, {os.cpu_count()} cores, {platform.system()} {platform.release()}",
        python=platform.python_version(),
        measured_at=datetime.now(UTC).isoformat(timespec="seconds"),
        load_average=round(statistics.fmean(os.getloadavg()), 2),
        rounds=rounds,
        rows=medians,
        floor_us=json.loads(shown.stdout),
        agent_bytes=bodies["agent"].stat().st_size,
    )


def cpu_name() -> str:
    """The processor's name as Linux tells it."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def main() -> None:
    """Parse the command line, measure, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gateway", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3, help="repetitions, of which medians are taken")
    parser.add_argument("--seconds", type=int, default=3, help="length of one run")
    parser.add_argument("--cores", default="0,1", help="core of the server, core of the load and the stub")
    names = "; ".join(case.name for case in CASES)
    parser.add_argument("--cases", default=names, help="which cases to run, separated by semicolons")
    parser.add_argument("--peers", action="store_true", help=f"LiteLLM too: {INSTALL_LITELLM}")
    parser.add_argument("--requests", type=int, default=100_000, help="of the memory run; 0 = leave it out")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    options = parser.parse_args()
    console = Console()
    if shutil.which("wrk") is None:
        parser.exit(2, INSTALL_WRK + "\n")
    peers = options.peers and (LITELLM / "bin/litellm").exists()
    if options.peers and not peers:
        console.print(f"LiteLLM is left out: it is not installed. To install it: {INSTALL_LITELLM}")
    server_core, load_core = map(int, options.cores.split(","))
    wanted = {name.strip() for name in options.cases.split(";")}
    if unknown := wanted - {case.name for case in CASES}:
        parser.error(f"--cases: there is no {min(unknown)!r}; there are {names}")
    chosen = [case for case in CASES if case.name in wanted]
    with tempfile.TemporaryDirectory(prefix="openclaw-cache-bench-") as folder:
        bench = Bench(Path(folder), server_core, load_core, options.seconds, console)
        measured = measure(bench, chosen, options.rounds, peers=peers)
        if options.requests:
            measured.memory = measure_memory(
                bench.folder, server_core, load_core, options.requests, console=console
            )
    report.show(measured, chosen, console)
    if options.json:
        options.json.write_text(json.dumps(measured.as_json(), indent=2) + "\n")


if __name__ == "__main__":
    main()
