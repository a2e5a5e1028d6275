"""What one run measured, and the targets that it is held against."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields

from benchmarks.gateway.cases import TARGETS
from benchmarks.gateway.memory import FLAT_RATIO, Memory
from benchmarks.gateway.open_streams import OpenStreams
from benchmarks.gateway.paced import CASES as PACED_CASES
from benchmarks.gateway.paced import MOST_RATIO, NOT_STORED, STORED, PacedFigures


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

    what: str
    bound: float
    value: float
    at_least: bool = False

    @property
    def met(self) -> bool:
        return self.value >= self.bound if self.at_least else self.value <= self.bound


@dataclass(slots=True)
class Report:
    """Everything that one run measured."""

    machine: str
    python: str
    measured_at: str
    load_average: float
    rounds: int
    rows: dict[tuple[str, str], Figure]
    paced: PacedFigures
    floor_us: dict[str, float]
    agent_bytes: int
    open_streams: list[OpenStreams] = field(default_factory=list)
    memory: Memory | None = None

    def verdicts(self) -> list[Verdict]:
        """The targets whose figures there are. CPU of the whole process tree is what they speak of."""
        found = []
        for target in TARGETS:
            left = self.rows.get(target.left)
            right = self.rows.get(target.right) if target.right else None
            if left is not None and (right is not None or target.right is None):
                value = left.tree_cpu_us / (right.tree_cpu_us if right else 1.0)
                found.append(Verdict(target.what, target.bound, value, target.at_least))
        found += self._paced_verdicts()
        for one in self.open_streams:
            if one.label == STORED.label:
                what = "TCP_NODELAY on both sides (1 = on every connection)"
                found.append(Verdict(what, 1, float(one.nodelay.both), at_least=True))
        if self.memory is not None:
            found.append(Verdict("memory after ÷ before", FLAT_RATIO, self.memory.growth_ratio))
        return found

    def _paced_verdicts(self) -> list[Verdict]:
        found = []
        for case in (one.name for one in PACED_CASES):
            for label in (NOT_STORED.label, STORED.label):
                cpu, added = self.paced.cpu_ratio(case, label), self.paced.added_ratio(case, label)
                if cpu is not None:
                    found.append(Verdict(f"{case}, {label}: CPU ÷ bare relay", MOST_RATIO, cpu))
                if added is not None:
                    found.append(Verdict(f"{case}, {label}: added p50 ÷ bare relay", MOST_RATIO, added))
        return found

    def as_json(self) -> dict[str, object]:
        rows = [{"case": case, "server": label, **asdict(f)} for (case, label), f in self.rows.items()]
        paced = [
            {"case": case, "server": label, "rounds": [asdict(f) for f in several]}
            for (case, label), several in self.paced.rounds.items()
        ]
        targets = [
            {"target": v.what, "value": v.value, "bound": v.bound, "met": v.met} for v in self.verdicts()
        ]
        structured = ("rows", "paced", "open_streams", "memory")
        own = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in structured}
        return {
            **own,
            "rows": rows,
            "paced": paced,
            "open_streams": [one.as_json() for one in self.open_streams],
            "targets": targets,
            "memory": self.memory.as_json() if self.memory else None,
        }
