"""How a report is printed."""

from __future__ import annotations

from benchmarks.gateway import paced
from benchmarks.gateway.cases import CASES
from benchmarks.gateway.report import Figure, Report
from rich.console import Console
from rich.table import Table


def show(report: Report, console: Console) -> None:
    """Print the tables."""
    console.print(
        f"{report.machine}; Python {report.python}; load {report.load_average} at the start; "
        f"medians of {report.rounds} rounds; {report.measured_at}"
    )
    for table in (_requests(report), _events(report), _open_streams(report)):
        if table.row_count:
            console.print(table)
    steps = ", ".join(f"{name} {us:,.0f}" for name, us in report.floor_us.items())
    total = sum(report.floor_us.values())
    console.print(f"floor of the agent's request of {report.agent_bytes:,} bytes, µs: {steps} = {total:,.0f}")
    if (memory := report.memory) is not None:
        begin, end = memory.rss_bytes[0] / 1e6, memory.rss_bytes[-1] / 1e6
        sent = memory.requests[-1] - memory.requests[0]
        console.print(f"memory: {begin:.1f} → {end:.1f} MB over {sent:,} requests")
    console.print(_targets(report))


def _requests(report: Report) -> Table:
    table = Table("case", "server", "CPU µs", "CPU µs, all", "÷ first", "p50 µs", "requests/s")
    for case in CASES:
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
        if first is not None:
            table.add_section()
    return table


def _events(report: Report) -> Table:
    table = Table("case", "server", "CPU µs an event", "÷ bare", "p50 µs", "added µs", "÷ bare", "events/s")
    figures = report.paced
    for case in (one.name for one in paced.CASES):
        for label in (entrant.label for entrant in paced.ENTRANTS):
            if (case, label) not in figures.rounds:
                continue
            is_direct = label == paced.DIRECT.label
            table.add_row(
                case,
                label,
                "" if is_direct else _shown(figures.median(case, label, lambda f: f.tree_cpu_us)),
                "" if is_direct else _shown(figures.cpu_ratio(case, label), ".2f"),
                _shown(figures.median(case, label, lambda f: f.p50_us)),
                "" if is_direct else _shown(figures.added_us(case, label)),
                "" if is_direct else _shown(figures.added_ratio(case, label), ".2f"),
                _shown(figures.median(case, label, lambda f: f.events_per_s)),
            )
        table.add_section()
    return table


def _open_streams(report: Report) -> Table:
    table = Table("server", "streams", "MB before", "MB open", "kB a stream", "no delay, client", "upstream")
    for one in report.open_streams:
        sockets = one.nodelay
        table.add_row(
            one.label,
            f"{one.num_streams}",
            f"{one.rss_before_bytes / 1e6:,.1f}",
            f"{one.rss_open_bytes / 1e6:,.1f}",
            f"{one.rss_per_stream_bytes / 1e3:,.1f}",
            f"{sockets.num_accepted_nodelay} of {sockets.num_accepted}",
            f"{sockets.num_upstream_nodelay} of {sockets.num_upstream}",
        )
    return table


def _targets(report: Report) -> Table:
    table = Table("target", "bound", "measured", "met")
    for verdict in report.verdicts():
        sign = "≥" if verdict.at_least else "≤"
        met = "yes" if verdict.met else "[bold]no"
        table.add_row(verdict.what, f"{sign} {verdict.bound:g}", f"{verdict.value:,.3g}", met)
    return table


def _shown(value: float | None, form: str = ",.0f") -> str:
    return "" if value is None else format(value, form)
