"""Run the benchmark and print what was measured against the targets.

python -m benchmarks.gateway [--peers] [--json FILE] [--rounds 3] [--seconds 3] [--cases "hit; miss"]
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from pathlib import Path

from benchmarks.gateway import cases, open_streams, paced, showing
from benchmarks.gateway.bench import Bench
from benchmarks.gateway.field import INSTALL, how_to_install, is_installed
from benchmarks.gateway.memory import measure_memory
from rich.console import Console

INSTALL_WRK = "wrk is missing; on Debian or Ubuntu: apt-get update && apt-get install -y wrk"
WIDTH = 130
"""Of the tables where no terminal shows them."""
ALL = (*cases.CASES, *paced.CASES)


def main() -> None:
    """Parse the command line, measure, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gateway", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3, help="repetitions, of which medians are taken")
    parser.add_argument("--seconds", type=int, default=3, help="length of one run")
    parser.add_argument("--cores", default="0,1", help="core of the server, core of the load and the stub")
    names = "; ".join([*(case.name for case in ALL), open_streams.NAME])
    parser.add_argument("--cases", default=names, help="which cases to run, separated by semicolons")
    parser.add_argument("--peers", action="store_true", help="LiteLLM and sglang-router too, where installed")
    parser.add_argument("--requests", type=int, default=100_000, help="of the memory run; 0 = leave it out")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    options = parser.parse_args()
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH)
    if shutil.which("wrk") is None:
        parser.exit(2, INSTALL_WRK + "\n")
    peers = tuple(peer for peer in INSTALL if options.peers and is_installed(peer))
    if options.peers:
        for peer in INSTALL.keys() - set(peers):
            console.print(f"{peer} is left out: it is not installed. To install it: {how_to_install(peer)}")
    server_core, load_core = map(int, options.cores.split(","))
    wanted = {name.strip() for name in options.cases.split(";")}
    if unknown := wanted - set(names.split("; ")):
        parser.error(f"--cases: there is no {min(unknown)!r}; there are {names}")
    chosen = [case for case in ALL if case.name in wanted]
    with tempfile.TemporaryDirectory(prefix="openclaw-cache-bench-") as folder:
        bench = Bench(Path(folder), server_core, load_core, options.seconds, console, peers)
        measured = bench.measure(chosen, options.rounds, opens=open_streams.NAME in wanted)
        if options.requests:
            measured.memory = measure_memory(
                bench.folder, server_core, load_core, options.requests, console=console
            )
    showing.show(measured, console)
    if options.json:
        options.json.write_text(json.dumps(measured.as_json(), indent=2) + "\n")


if __name__ == "__main__":
    main()
