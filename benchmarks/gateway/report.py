"""Figures, targets, and how they are shown."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields

from benchmarks.gateway.cases import TARGETS, Case, Target
from benchmarks.gateway.memory import FLAT_RATIO, Memory
from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True)
class Figure:
    """One run of one server, or the medians of several."""

    cpu_us: float
    """CPU of the server's own process for each request."""
    tree_cpu_us: float
    """CPU of all its processes, the store included."""
    p50_us: float
    requests_per_s: float


def median(several: Sequence[Figure]) -> Figure:
    """The median of every figure."""
    return Figure(
        **{one.name: statistics.median(getattr(f, one.name) for f in several) for one in fields(Figure)}
    )


@dataclass(frozen=True, slots=True)
class Verdict:
    """A target and what was measured."""

    target: Target
    value: float

    @property
    def met(self) -> bool:
        bound = self.target.bound
        return self.value >= bound if self.target.at_least else self.value <= bound


@dataclass(slots=True)
class Report:
    """Everything that one run measured."""

    machine: str
    python: str
    measured_at: str
    load_average: float
    rounds: int
    rows: dict[tuple[str, str], Figure]
    floor_us: dict[str, float]
    agent_bytes: int
    memory: Memory | None = None

    def verdicts(self) -> list[Verdict]:
        """The targets whose figures there are. CPU of the whole process tree is what they speak of."""
        found = []
        for target in TARGETS:
            left = self.rows.get(target.left)
            right = self.rows.get(target.right) if target.right else None
            if left is not None and (right is not None or target.right is None):
                value = left.tree_cpu_us / (right.tree_cpu_us if right else 1.0)
                found.append(Verdict(target, value))
        return found

    def as_json(self) -> dict[str, object]:
        rows = [{"case": case, "server": label, **asdict(f)} for (case, label), f in self.rows.items()]
        targets = [
            {"target": v.target.what, "value": v.value, "bound": v.target.bound, "met": v.met}
            for v in self.verdicts()
        ]
        own = {
            one.name: getattr(self, one.name) for one in fields(self) if one.name not in ("rows", "memory")
        }
        memory = self.memory.as_json() if self.memory else None
        return {**own, "rows": rows, "targets": targets, "memory": memory}


def show(report: Report, cases: Sequence[Case], console: Console) -> None:
    """Print the tables."""
    console.print(
        f"{report.machine}; Python {report.python}; load {report.load_average}; "
        f"medians of {report.rounds} rounds; {report.measured_at}"
    )
    table = Table("case", "server", "CPU µs", "CPU µs, all", "÷ first", "p50 µs", "requests/s")
    for case in cases:
        first: Figure | None = None
        for entrant in case.entrants:
            figure = report.rows.get((case.name, entrant.label))
            if figure is None:
                continue
            first = first or figure
            table.add_row(
                case.name,
                entrant.label,
                f"{figure.cpu_us:,.0f}",
                f"{figure.tree_cpu_us:,.0f}",
                f"{figure.tree_cpu_us / first.tree_cpu_us:.2f}",
                f"{figure.p50_us:,.0f}",
                f"{figure.requests_per_s:,.0f}",
            )
        table.add_section()
    console.print(table)
    steps = ", ".join(f"{name} {us:,.0f}" for name, us in report.floor_us.items())
    total = sum(report.floor_us.values())
    console.print(f"floor of the agent's request of {report.agent_bytes:,} bytes, µs: {steps} = {total:,.0f}")
    targets = Table("target", "bound", "measured", "met")
    for verdict in report.verdicts():
        sign = "≥" if verdict.target.at_least else "≤"
        met = "yes" if verdict.met else "[bold]no"
        targets.add_row(verdict.target.what, f"{sign} {verdict.target.bound:g}", f"{verdict.value:,.2f}", met)
    if (memory := report.memory) is not None:
        shown = f"{memory.growth_ratio:.3f} ({memory.rss_bytes[0] / 1e6:.1f} → {memory.rss_bytes[-1] / 1e6:.1f} MB"
        targets.add_row(
            "memory after ÷ before",
            f"≤ {FLAT_RATIO:g}",
            f"{shown} over {memory.requests[-1] - memory.requests[0]:,} requests)",
            "yes" if memory.flat else "[bold]no",
        )
    console.print(targets)
