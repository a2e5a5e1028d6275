"""Long work as people watch it: a bar on a terminal, else a line for each step where that is wanted."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from openclaw_cache.console import is_terminal, out

_console = Console(stderr=True, highlight=False, markup=False, emoji=False)


def watch(
    lines: Iterable[Mapping[str, Any]],
    num_steps: int,
    told: Callable[[Mapping[str, Any]], str],
    *,
    as_json: bool,
) -> list[Mapping[str, Any]]:
    """Read all lines of an answer as they come. Those with an `index` are steps.

    Args:
        lines: The answer.
        num_steps: How many steps there will be.
        told: A step in words.
        as_json: Whether stdout is kept for something else.
    """
    has_bar = _has_bar(as_json=as_json)
    taken: list[Mapping[str, Any]] = []
    with bar("warming", num_steps, as_json=as_json) as advance:
        for line in lines:
            taken.append(line)
            if "index" in line:
                advance(1)
                if not (as_json or has_bar):
                    out.print(told(line))
                elif not as_json and line.get("error"):
                    _console.print(told(line))
    return taken


@contextmanager
def bar(what: str, num_steps: int | None, *, as_json: bool) -> Iterator[Callable[[int], None]]:
    """A bar on stderr, where both ends are a terminal; gives what moves it on by so many steps.

    `num_steps` None: nobody knows how many there are.
    """
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(
        *columns, console=_console, transient=True, disable=not _has_bar(as_json=as_json)
    ) as progress:
        task = progress.add_task(what, total=num_steps)
        yield lambda steps: progress.advance(task, steps)


def _has_bar(*, as_json: bool) -> bool:
    return is_terminal(sys.stderr) and (as_json or is_terminal(sys.stdout))
