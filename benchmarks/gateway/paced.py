"""Streams as a model paces them: what one event costs, and how much later it comes than without a server between."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.gateway import load, streams
from benchmarks.gateway.cases import NO_STORE, Entrant
from benchmarks.gateway.servers import Server

DIRECT = Entrant("no server between", "stub")
BARE = Entrant("bare relay", "bare-relay")
NOT_STORED = Entrant("ours, not stored", "ours", NO_STORE)
STORED = Entrant("ours, stored", "ours")
ENTRANTS = (
    DIRECT,
    BARE,
    NOT_STORED,
    STORED,
    Entrant("sglang-router", "sglang-router"),
    Entrant("LiteLLM", "litellm"),
)
MOST_RATIO = 1.3


@dataclass(frozen=True, slots=True)
class PacedCase:
    """So many streams at once, an event of each every `pace_ms`."""

    num_streams: int
    pace_ms: int
    length: int = 1
    """Factor on the length of a run, so that a stream has enough events for its request to count little."""

    @property
    def name(self) -> str:
        return f"{self.num_streams} streams, an event each {self.pace_ms} ms"

    def order(self, body: Path, headers: dict[str, str], seconds: int, serial: int) -> streams.Order:
        """What the client is to ask for."""
        num_events = self.length * seconds * 1000 // self.pace_ms
        text = body.read_text().replace('"bench"', f'"bench-{self.pace_ms}ms"')
        text = text.removesuffix("}") + f',"max_tokens":{num_events}}}'
        apart_s = self.pace_ms / 1e3 / self.num_streams
        return streams.Order(text, headers, self.num_streams, num_events, apart_s, serial)


CASES = (PacedCase(10, 20), PacedCase(200, 100, length=3))


@dataclass(frozen=True, slots=True)
class PacedFigure:
    """One run of one server."""

    cpu_us: float
    """CPU of the server's own process for each event, the requests' share included."""
    tree_cpu_us: float
    """CPU of all its processes."""
    p50_us: float
    """From the stub's write to the client's read, median of all events."""
    events_per_s: float


@dataclass(slots=True)
class PacedFigures:
    """All rounds of all servers, by case and label. Compared within a round: other load changes between rounds."""

    rounds: dict[tuple[str, str], list[PacedFigure]] = field(default_factory=dict)

    def add(self, case: PacedCase, entrant: Entrant, figure: PacedFigure) -> None:
        self.rounds.setdefault((case.name, entrant.label), []).append(figure)

    def median(self, case: str, label: str, of: Callable[[PacedFigure], float]) -> float | None:
        """The median over all rounds; None where there are none."""
        found = self.rounds.get((case, label))
        return statistics.median(map(of, found)) if found else None

    def added_us(self, case: str, label: str) -> float | None:
        """How much later an event comes than with no server between: the median over all rounds."""
        added = self._added(case, label)
        return statistics.median(added) if added else None

    def cpu_ratio(self, case: str, label: str) -> float | None:
        """CPU for each event ÷ the bare relay's."""
        own, bare = self.rounds.get((case, label), []), self.rounds.get((case, BARE.label), [])
        ratios = [a.tree_cpu_us / b.tree_cpu_us for a, b in zip(own, bare, strict=False)]
        return statistics.median(ratios) if ratios else None

    def added_ratio(self, case: str, label: str) -> float | None:
        """What is added ÷ what the bare relay adds."""
        own, bare = self._added(case, label), self._added(case, BARE.label)
        ratios = [a / b for a, b in zip(own, bare, strict=False) if b > 0]
        return statistics.median(ratios) if ratios else None

    def _added(self, case: str, label: str) -> list[float]:
        own, direct = self.rounds.get((case, label), []), self.rounds.get((case, DIRECT.label), [])
        return [a.p50_us - b.p50_us for a, b in zip(own, direct, strict=False)]


def run(
    case: PacedCase, entrant: Entrant, server: Server, body: Path, *, core: int, seconds: int, serial: int
) -> PacedFigure:
    """Stream once through one server. Raises RuntimeError where a stream was not what was asked for."""
    order = case.order(body, entrant.headers, seconds, serial)
    tree = load.tree(server.pid)
    own, whole = load.precise_cpu_s([server.pid]), load.precise_cpu_s(tree)
    with streams.streaming(server.target, order, body.with_name("order.json"), core=core) as process:
        seen = streams.seen(process)
    own, whole = load.precise_cpu_s([server.pid]) - own, load.precise_cpu_s(tree) - whole
    return PacedFigure(
        cpu_us=own / seen.num_events * 1e6,
        tree_cpu_us=whole / seen.num_events * 1e6,
        p50_us=seen.p50_us,
        events_per_s=seen.num_events / seen.seconds,
    )
