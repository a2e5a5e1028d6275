"""One simulation, from the options to the report."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final, TypeAlias

from openclaw_cache.simulating.options import Options
from openclaw_cache.simulating.reading import trace_of
from openclaw_cache.simulation import plot
from openclaw_cache.simulation.report import Asked, curve_points, num_replays, report
from openclaw_cache.simulation.study import LRU, Study, study

_FEW_FOR_AGENT: Final = 1 << 16

Bar: TypeAlias = Callable[[str, int | None], AbstractContextManager[Callable[[int], None]]]


def simulated(options: Options, bar: Bar) -> dict[str, Any]:
    """Read, replay, draw.

    Args:
        options: what is asked for.
        bar: shows people how far it is: what is done, how many steps it has.

    Returns:
        What `--json` prints.

    Raises:
        ConfigError: an option or the trace is wrong; the message names it, or file, line and field.
        OSError: the picture cannot be written.
    """
    if options.plot is not None:
        plot.check(options.plot)
    asked, rate = options.asked(), options.rate()
    notes = options.notes()
    with trace_of(options, notes) as trace, bar("reading requests", None) as told:
        found = study(
            trace.requests,
            trace.block_tokens,
            asked.policies,
            rate=rate,
            is_bounded=options.sample != "off",
            told=told,
        )
    with bar("replaying", num_replays(found, asked)) as told:
        result = report(found, asked, told)
    if result["sample"]["is_small"]:
        notes.append(
            f"the sample has only {found.num_sampled_blocks:,} blocks and may be off by some hundredths: take a larger "
            "--sample"
        )
    replayed = found.trace
    if "agent" in asked.policies and replayed and replayed.rate < 1 and replayed.num_blocks < _FEW_FOR_AGENT:
        notes.append("agent learns from calls, and so small a sample has fewer of them: it may be off by .03")
    shown = {"file": options.trace, "form": trace.form, **result, "notes": notes}
    if options.plot is not None:
        _draw(options.plot, shown, found, asked)
        notes.append(f"drawn into {options.plot}")
    return shown


def _draw(file: Path, shown: dict[str, Any], found: Study, asked: Asked) -> None:
    curves = {}
    unit = found.block_tokens * asked.bytes_per_token
    tiers = [(row["name"], row["reach_blocks"] * unit) for row in shown["tiers"]]
    for policy in asked.policies:
        rows = [row for row in shown["capacities"] if row["hit_ratio"][policy] is not None]
        points = [(float(row["num_bytes"]), float(row["hit_ratio"][policy])) for row in rows]
        points += [
            (row["reach_blocks"] * unit, row["total_ratio_by_policy"][policy]) for row in shown["tiers"]
        ]
        curves[policy] = curve_points(found, asked) if policy == LRU else sorted(points)
    title = f"{Path(shown['file']).name}: {shown['num_requests']:,} requests"
    plot.draw(file, title, curves, shown["infinite"]["hit_ratio"], tiers)
