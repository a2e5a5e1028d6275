"""`openclaw-cache analyze`."""

from __future__ import annotations

import time
from typing import Annotated
from urllib.parse import urlencode

import typer

from openclaw_cache.analysis_tables import print_analysis
from openclaw_cache.command_options import DataDirOption, JsonOption, UrlOption
from openclaw_cache.console import print_json
from openclaw_cache.running_server import EXIT_USAGE, RunningServer, fail
from openclaw_cache.units import parse_time_range


def analyze(
    time_range: Annotated[
        str,
        typer.Option(
            help="last 15m, last 1h, last 7d, today, yesterday, or 2026-11-30T10:00/2026-11-30T12:00; the server's "
            "clock and days."
        ),
    ] = "last 1h",
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Look back: what missed and why, what it cost, what would help.

    The time is compared with the time of the same length before it. Findings come in order of money, and a diagnosis in
    five steps says what was seen.
    """
    try:
        parse_time_range(time_range, time.time())
    except ValueError as e:
        fail(f"--time-range: {e}", EXIT_USAGE)
    shown = RunningServer(url, data_dir).get(f"/admin/analyze?{urlencode({'time_range': time_range})}")
    if as_json:
        print_json(shown)
    else:
        print_analysis(shown)
