"""The command `savings`: the ledger of what was spent and saved."""

from __future__ import annotations

import sys
import time
from datetime import UTC
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlencode

import typer

from openclaw_cache.command_options import DataDirOption, JsonOption, UrlOption
from openclaw_cache.console import new_table, out, plural, print_json, printable, span
from openclaw_cache.running_server import EXIT_USAGE, RunningServer, fail
from openclaw_cache.units import parse_time_range

_NUM_SHOWN: Final = 50
_STDOUT: Final = "-"
_SECONDS: Final = 120.0
"""Below it tenths count."""


def savings(
    time_range: Annotated[
        str,
        typer.Option(help="last 30d, last 24h, today, yesterday, or 2026-11-01/2026-11-30; days of UTC."),
    ] = "last 30d",
    by: Annotated[
        str, typer.Option(help="Some of day, namespace, agent, model, upstream; a comma between.")
    ] = "day",
    csv: Annotated[
        str | None, typer.Option("--csv", metavar="FILE", help="Write CSV into a file; - is stdout.")
    ] = None,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add up what was spent and saved: tokens, seconds, money.

    Only what would have been computed counts as saved: what a provider would have had in its own cache does not. Days
    are days of UTC.
    """
    if csv is not None and as_json:
        fail("--csv and --json: only one of them", EXIT_USAGE)
    try:
        parse_time_range(time_range, time.time(), UTC)
    except ValueError as e:
        fail(f"--time-range: {e}", EXIT_USAGE)
    query = {"time_range": time_range, "by": by}
    server = RunningServer(url, data_dir)
    if csv is not None:
        _write(server, query | {"format": "csv"}, csv)
        return
    shown = server.get(f"/admin/savings?{urlencode(query)}")
    if as_json:
        print_json(shown)
        return
    _print(shown)


def _write(server: RunningServer, query: dict[str, str], name: str) -> None:
    content = b"".join(server.download(f"/admin/savings?{urlencode(query)}"))
    if name == _STDOUT:
        sys.stdout.buffer.write(content)
        sys.stdout.flush()
        return
    try:
        Path(name).write_bytes(content)
    except OSError as e:
        fail(f"--csv: cannot write {name}: {e.strerror}", EXIT_USAGE)
    num_rows = max(0, content.count(b"\r\n") - 1)
    typer.echo(f"{plural(num_rows, 'row')} in {name}")


def _print(shown: dict[str, Any]) -> None:
    rows, total, by = shown["rows"], shown["total"], shown["by"]
    table = new_table(
        *by, "requests", "answered", "computed", "provider cached", "saved", "KV", "waited less", "spent $", "saved $"
    )  # fmt: skip
    for column in table.columns[len(by) :]:
        column.justify = "right"
    for row in rows[:_NUM_SHOWN]:
        table.add_row(*(printable(row[each]) for each in by), *_cells(row))
    if len(rows) != 1:
        table.add_section()
        table.add_row(*["all"][: len(by)], *[""] * (len(by) - 1), *_cells(total))
    out.print(table)
    if len(rows) > _NUM_SHOWN:
        out.print(f"{plural(len(rows) - _NUM_SHOWN, 'row')} more: --csv or --json has them all")
    if total["num_priced"] < total["num_requests"]:
        out.print(
            f"The money is of {total['num_priced']:,} of {plural(total['num_requests'], 'request')}: the others "
            "failed, or their model has no price (savings.prices_file)."
        )
    if not shown["is_complete"]:
        out.print(
            "Some of it is missing: the store does not answer, or has sums that cannot be read "
            "(damaged, or under another key: see the server's log)."
        )


def _cells(row: dict[str, Any]) -> list[str]:
    saved = row["result_saved_tokens"] + row["semantic_saved_tokens"] + row["flight_saved_tokens"]
    counts = (
        row["num_requests"],
        row["num_answered"],
        row["computed_tokens"],
        row["upstream_cached_tokens"],
        saved,
        row["kv_saved_tokens"],
    )
    return [
        *(f"{count:,}" for count in counts),
        f"{row['saved_s']:.1f} s" if row["saved_s"] < _SECONDS else span(row["saved_s"]),
        f"{row['spent_usd']:,.4f}",
        f"{row['saved_usd']:,.4f}",
    ]
