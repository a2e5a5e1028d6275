"""One run over all cases: who is loaded when, and what is read off."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.gateway import load, open_streams, paced, report, servers
from benchmarks.gateway.cases import Case, Entrant, write_bodies
from benchmarks.gateway.field import Field
from benchmarks.gateway.paced import PacedCase, PacedFigures
from benchmarks.gateway.report import Figure, Report
from benchmarks.gateway.servers import Server
from rich.console import Console


@dataclass(slots=True)
class Bench:
    """Where and how the measuring is done."""

    folder: Path
    server_core: int
    load_core: int
    seconds: int
    console: Console
    peers: tuple[str, ...]
    _run: int = field(default=0, init=False)

    def measure(self, cases: Sequence[Case | PacedCase], rounds: int, *, opens: bool) -> Report:
        """All rounds, interleaved: each round asks every entrant of every case once.

        Args:
            cases: What is measured.
            rounds: How often.
            opens: Whether servers are also started anew to see what they hold for open streams.
        """
        bodies = write_bodies(self.folder)
        measured = Report(
            machine=f"{cpu_name()}, {os.cpu_count()} cores, {platform.system()} {platform.release()}",
            python=platform.python_version(),
            measured_at=datetime.now(UTC).isoformat(timespec="seconds"),
            load_average=round(os.getloadavg()[0], 2),
            rounds=rounds,
            rows={},
            paced=PacedFigures(),
            floor_us=self._floor_us(bodies["agent"]),
            agent_bytes=bodies["agent"].stat().st_size,
        )
        with contextlib.ExitStack() as stack:
            stub = stack.enter_context(servers.stub(self.folder, self.load_core))
            if cases:
                self._rounds(self._field(stub, self.folder), cases, rounds, bodies, measured)
            if opens:
                measured.open_streams = self._open_streams(stub, bodies["stream"])
        return measured

    def _field(self, stub: Server, folder: Path) -> Field:
        return Field(folder, self.server_core, self.load_core, stub, self.peers)

    def _rounds(
        self,
        taking_part: Field,
        cases: Sequence[Case | PacedCase],
        rounds: int,
        bodies: dict[str, Path],
        measured: Report,
    ) -> None:
        figures: dict[tuple[str, str], list[Figure]] = {}
        needed = {entrant.server for case in cases for entrant in entrants_of(case)}
        with contextlib.ExitStack() as stack:
            started = {"stub": taking_part.stub} | {
                name: stack.enter_context(start())
                for name, start in taking_part.starters().items()
                if name in needed
            }
            for number in range(rounds + 1):  # the first warms everybody and is not counted
                for case in cases:
                    present = [e for e in entrants_of(case) if e.server in started]
                    turn = number % len(present)  # nobody always comes first, or after the same one
                    for entrant in present[turn:] + present[:turn]:
                        self.console.print(f"[dim]round {number}/{rounds}: {case.name}, {entrant.label}")
                        self._run += 1
                        server, seconds = started[entrant.server], self.seconds if number else 1
                        if isinstance(case, PacedCase):
                            figure = self._paced(case, entrant, server, bodies["stream"], seconds)
                            if number:
                                measured.paced.add(case, entrant, figure)
                        else:
                            seconds *= entrant.slowness
                            seen = self._load(
                                case, entrant, server, taking_part.stub, bodies[case.body], seconds
                            )
                            if number:
                                figures.setdefault((case.name, entrant.label), []).append(seen)
        measured.rows = {row: report.median(several) for row, several in figures.items()}

    def _paced(
        self, case: PacedCase, entrant: Entrant, server: Server, body: Path, seconds: int
    ) -> paced.PacedFigure:
        return paced.run(case, entrant, server, body, core=self.load_core, seconds=seconds, serial=self._run)

    def _load(
        self, case: Case, entrant: Entrant, server: Server, stub: Server, body: Path, seconds: int
    ) -> Figure:
        """Load one server once. Raises RuntimeError where it did not do what the case says."""
        repeated = case.requests == "same"
        if repeated:
            prime(server, body, entrant)
        lua = load.script(
            self.folder / "load.lua",
            load.one_body(body) if repeated else load.numbered_bodies(body, self._run),
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

    def _open_streams(self, stub: Server, body: Path) -> list[open_streams.OpenStreams]:
        folder = self.folder / "open"  # stores of their own: nothing is a hit
        folder.mkdir()
        starters, found = self._field(stub, folder).starters(), []
        for entrant in open_streams.MEASURED:
            if entrant.server in starters:
                self.console.print(f"[dim]{open_streams.NAME}: {entrant.label}")
                starting = starters[entrant.server]()
                found.append(open_streams.measure(entrant, starting, stub, body, core=self.load_core))
        return found

    def _floor_us(self, body: Path) -> dict[str, float]:
        floor = [sys.executable, "-m", "benchmarks.gateway.floor", str(body)]
        shown = subprocess.run(
            ["taskset", "-c", str(self.server_core), *floor],
            cwd=servers.REPOSITORY,
            capture_output=True,
            check=True,
        )
        steps: dict[str, float] = json.loads(shown.stdout)
        return steps


def entrants_of(case: Case | PacedCase) -> tuple[Entrant, ...]:
    """Who takes part in a case."""
    return paced.ENTRANTS if isinstance(case, PacedCase) else case.entrants


def prime(server: Server, body: Path, entrant: Entrant) -> None:
    """Ask once or twice, so that every later request is a hit."""
    for _ in range(2):
        if not servers.post(server.target, body.read_bytes(), entrant.headers):
            raise RuntimeError(f"{entrant.label} does not answer at {server.target}")


def cpu_name() -> str:
    """The processor's name as Linux tells it."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
