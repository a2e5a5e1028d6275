"""What the command line prints: tables for people, JSON for programs."""

from __future__ import annotations

import json
import sys
from datetime import datetime
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from openclaw_cache.config import Provenance, describe, values

# Values come from configurations and clients: none of them is markup. Into a file or pipe nothing is wrapped.
_out = Console(
    highlight=False,
    markup=False,
    emoji=False,
    soft_wrap=True,
    width=None if sys.stdout.isatty() else 10_000,
)


def print_json(value: object) -> None:
    """Print JSON, indented."""
    typer.echo(json.dumps(value, ensure_ascii=False, indent=2))


def print_config(loaded: Provenance, *, as_json: bool) -> None:
    """Print every setting, its value and where it came from; in JSON with its own type."""
    rows = describe(loaded)
    if as_json:
        typed = values(loaded)
        print_json(
            {
                field: {"value": typed[field], "shown": shown, "source": source}
                for field, shown, source in rows
            }
        )
        return
    table = _table("setting", "value", "from")
    for row in rows:
        table.add_row(*map(_printable, row))
    _out.print(table)


def print_status(shown: dict[str, Any]) -> None:
    """Print the answer of `/admin/status`."""
    ratio, store = shown["hit_ratio"], shown["store"]
    memory = shown["result_cache"]["memory"]
    title = f"openclaw-cache {shown['version']} at {shown['url']}, up {_span(shown['uptime_s'])}"
    table = _table("", "", title=title, show_header=False)
    for upstream in shown["upstreams"]:
        table.add_row(f"upstream {upstream['name']}", _printable(_upstream(upstream)))
    requests = ", ".join(f"{count:,} {outcome}" for outcome, count in shown["requests"].items() if count)
    table.add_row("requests", requests or "none yet")
    hits = f"{ratio['num_hits']:,} of {ratio['num_lookups']:,}"
    table.add_row("hit ratio, 15 min", f"{ratio['ratio']:.3f} ({hits})" if ratio["num_lookups"] else "–")
    table.add_row("tokens not computed", f"{shown['saved_tokens']:,}")
    used, allowed = _size(memory["memory_bytes"]), _size(memory["capacity_bytes"])
    table.add_row("result cache, memory", f"{memory['num_entries']:,} entries, {used} of {allowed}")
    table.add_row("store", _printable(_store(store)))
    degraded = ", ".join(f"{what} {count:,}" for what, count in shown["degraded"].items() if count)
    table.add_row("degraded", degraded or "never")
    _out.print(table)


def print_evicted(report: dict[str, Any], pattern: str) -> None:
    """Print the answer of `/admin/evict`."""
    verb = "would go" if report["dry_run"] else "removed"
    num_matched = report["num_matched"]
    _out.print(f"{num_matched:,} {'entry' if num_matched == 1 else 'entries'} {verb}")
    if num_matched:
        table = _table("model", "namespace", "created", "bytes")
        for row in report["sample"]:
            created, size = _when(row["created_at"]), f"{row['size_bytes']:,}"
            table.add_row(_printable(row["model"]), _printable(row["namespace"]), created, size)
        hidden = num_matched - len(report["sample"])
        if hidden > 0:
            table.add_row("…", "", "", f"and {hidden:,} more")
        _out.print(table)
    elif "*" not in pattern:
        _out.print(
            f'note: a pattern must match the whole text; for a part of it write "*{_printable(pattern)}*"'
        )
    if report["num_corrupt"]:
        _out.print(f"{report['num_corrupt']} unreadable entries {verb} too")


def print_invalidated(done: dict[str, Any]) -> None:
    """Print the answer of `/admin/invalidate`."""
    model = _printable(done["model"])
    if done["served"]:
        _out.print(f"invalidated: no reply of '{model}' from before now will be served")
    else:
        _out.print(
            f"note: no upstream serves '{model}' now; see `openclaw-cache status` for the names that are"
        )
        _out.print("whatever was stored under this name is invalidated")
    if not done["durable"]:
        _out.print(
            "note: the store keeps no append-only file; if it loses its data, everything is recomputed"
        )


def _table(*headers: str, **options: Any) -> Table:
    table = Table(**options)
    for header in headers:
        table.add_column(header, overflow="fold")
    return table


def _upstream(shown: dict[str, Any]) -> str:
    models = ", ".join(shown["models"])
    if shown["kind"] != "embedded":
        return f"{shown['kind']} at {', '.join(shown['urls'])}: {models}"
    reason = f" ({shown['reason']})" if shown["state"] != "ready" and shown["reason"] else ""
    return f"embedded, {shown['state']}{reason}: {models}"


def _store(shown: dict[str, Any]) -> str:
    server = shown.get("server")
    if not server:
        return f"{shown['kind']}, DOWN: {shown.get('reason', 'unknown')}"
    bound = f" of {_size(server['max_bytes'])}" if server["max_bytes"] else ""
    return f"{shown['kind']}, up, {server['num_keys']:,} keys, {_size(server['used_bytes'])}{bound}"


def _printable(text: str) -> str:
    """A text without what a terminal may take for a command: a model's name is any client's word."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def _size(num_bytes: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if num_bytes < 1000:
            return f"{num_bytes:.0f} {unit}" if unit == "B" else f"{num_bytes:.1f} {unit}"
        num_bytes /= 1000
    return f"{num_bytes:.1f} TB"


def _span(seconds: float) -> str:
    minutes, hours, days = seconds / 60, seconds / 3600, seconds / 86400
    if minutes < 2:
        return f"{seconds:.0f} s"
    return f"{minutes:.0f} min" if hours < 2 else f"{hours:.1f} h" if days < 2 else f"{days:.1f} d"


def _when(unix: float) -> str:
    return datetime.fromtimestamp(unix).astimezone().isoformat(" ", "seconds")
