"""The command `doctor`: what breaks the reuse of prefixes, in logs of requests or in a running server."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import urlencode

import typer

from openclaw_cache import doctor_tables
from openclaw_cache.command_options import DataDirOption, JsonOption, UrlOption
from openclaw_cache.console import print_json
from openclaw_cache.doctor.diagnosis import Diagnosis
from openclaw_cache.errors import ConfigError
from openclaw_cache.observe.prices import Prices
from openclaw_cache.request_logs.log import RequestLog
from openclaw_cache.running_server import EXIT_NO, EXIT_USAGE, RunningServer, fail
from openclaw_cache.units import parse_ratio


def doctor(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            help="Logs of requests: OpenAI or Anthropic JSONL, OpenClaw transcripts, captures, HAR, traces of texts; "
            "folders of them; - is stdin.",
            show_default=False,
        ),
    ] = None,
    live: Annotated[bool, typer.Option("--live", help="Ask the running server instead.")] = False,
    max_lost: Annotated[
        str | None,
        typer.Option(
            help="Fail only where breaks lose more of what was within reach: 1%. Default: on any break."
        ),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Count what sessions do not share with each other too.")
    ] = False,
    session: Annotated[
        str | None, typer.Option(help="Only sessions whose name begins so.", show_default=False)
    ] = None,
    limit: Annotated[int, typer.Option(help="At most so many findings of each kind.")] = 20,
    no_text: Annotated[bool, typer.Option("--no-text", help="Do not show the text around a break.")] = False,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say what breaks prefix reuse, what it costs, and what helps.

    Exit code 0 where prefixes are stable, 1 where a break was found: one that loses at least 64 tokens and 1 % of what
    was within reach.
    """
    try:
        bound = None if max_lost is None else parse_ratio(max_lost)
    except ValueError as e:
        fail(f"--max-lost: {e}", EXIT_USAGE)
    if limit < 1:
        fail(f"--limit: {limit} is not a number of findings", EXIT_USAGE)
    if live == bool(files):
        fail("name files to look at, or --live for the running server", EXIT_USAGE)
    if live:
        if session is not None or strict or no_text:
            fail("--session, --strict and --no-text do not go with --live", EXIT_USAGE)
        is_stable = _live(RunningServer(url, data_dir), bound, limit, as_json=as_json)
    else:
        is_stable = _offline(
            files or [], bound, session, limit, strict=strict, no_text=no_text, as_json=as_json
        )
    if not is_stable:
        raise typer.Exit(EXIT_NO)


def _offline(
    files: list[str],
    bound: float | None,
    session: str | None,
    limit: int,
    *,
    strict: bool,
    no_text: bool,
    as_json: bool,
) -> bool:
    """Read logs and print what was found; returns whether prefixes are stable."""
    try:
        log, diagnosis = RequestLog(files), Diagnosis(Prices.load())
        for request in log.requests():
            if session is None or (request.session or "").startswith(session):
                diagnosis.add(request)
    except ConfigError as e:
        fail(str(e), EXIT_USAGE)
    if not diagnosis.num_requests:
        fail(f"--session: no session's name begins with {session!r}", EXIT_USAGE)
    shown = diagnosis.as_json(limit=limit, with_text=not no_text)
    shown |= {
        "is_stable": _is_stable(shown, bound, strict=strict),
        "num_other": log.num_other,
        "num_skipped": log.num_skipped,
        "skipped": [{"file": one.file, "line": one.line, "reason": one.reason} for one in log.skipped],
    }
    if as_json:
        print_json(shown)
    else:
        doctor_tables.print_diagnosis(shown)
    return bool(shown["is_stable"])


def _is_stable(shown: dict[str, Any], bound: float | None, *, strict: bool) -> bool:
    lost, reachable, num = (int(shown[name]) for name in ("lost_tokens", "reachable_tokens", "num_breaks"))
    if strict:
        lost += shown["between_sessions_lost_tokens"]
        reachable += shown["between_sessions_reachable_tokens"]
        num += shown["num_between_sessions_breaks"]
    return num == 0 if bound is None else bool(lost <= bound * reachable)


def _live(server: RunningServer, bound: float | None, limit: int, *, as_json: bool) -> bool:
    """Print what the running server has seen; returns whether prefixes are stable."""
    shown = server.get(f"/admin/prefixes?{urlencode({'limit': limit})}")
    lost = sum(row["lost_tokens"] for row in shown["causes"].values())
    is_stable = not shown["causes"] if bound is None else lost <= bound * shown["reachable_tokens"]
    if as_json:
        print_json({**shown, "is_stable": is_stable})
    else:
        doctor_tables.print_live(shown, limit=limit)
    return is_stable
