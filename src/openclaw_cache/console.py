"""How values are written for people on a terminal."""

from __future__ import annotations

import json
import sys
from datetime import datetime
from typing import Any, TextIO

import typer
from rich.console import Console
from rich.table import Table


def is_terminal(stream: TextIO | None) -> bool:
    """Whether somebody reads it. There is none where a process was started with it closed (`2>&-`)."""
    return stream is not None and stream.isatty()


# Values come from configurations and clients: none of them is markup. Into a file or pipe nothing is wrapped.
out = Console(
    highlight=False,
    markup=False,
    emoji=False,
    soft_wrap=True,
    width=None if is_terminal(sys.stdout) else 10_000,
)


def print_json(value: object) -> None:
    """Print JSON, indented. What the output's encoding has no bytes for (half of a surrogate pair) is escaped."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(value, indent=2)
    typer.echo(text)


def new_table(*headers: str, **options: Any) -> Table:
    """A table whose long cells are folded, not cut."""
    table = Table(**options)
    for header in headers:
        table.add_column(header, overflow="fold")
    return table


def printable(text: str) -> str:
    """A text in one line, without what a terminal may take for a command: a model's name is any client's word."""
    one_line = text.replace("\n", "\N{RETURN SYMBOL}")
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in one_line)


def plural(count: int, one: str, many: str | None = None) -> str:
    """`1 block`, `2,000 blocks`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def size(num_bytes: float) -> str:
    """`1.2 MB` for 1200000."""
    for unit in ("B", "kB", "MB", "GB"):
        if num_bytes < 1000:
            return f"{num_bytes:.0f} {unit}" if unit == "B" else f"{num_bytes:.1f} {unit}"
        num_bytes /= 1000
    return f"{num_bytes:.1f} TB"


def span(seconds: float) -> str:
    """`45 s`, `90 min`, `3.5 h`, `2.0 d`."""
    minutes, hours, days = seconds / 60, seconds / 3600, seconds / 86400
    if minutes < 2:
        return f"{seconds:.0f} s"
    return f"{minutes:.0f} min" if hours < 2 else f"{hours:.1f} h" if days < 2 else f"{days:.1f} d"


def when(unix: float) -> str:
    """A moment in local time."""
    return datetime.fromtimestamp(unix).astimezone().isoformat(" ", "seconds")
