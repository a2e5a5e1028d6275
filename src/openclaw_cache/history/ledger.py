"""The savings ledger: what requests cost, and what they did not, by day and by name. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from openclaw_cache.history.lines import Line
from openclaw_cache.history.rollup import Rollup
from openclaw_cache.history.table import Name, others, surplus

DIMENSIONS: Final = ("day", "namespace", "agent", "model", "upstream")
NUM_ROWS: Final = 10_000
"""Of one ledger; the smallest of more share a row, `other`."""


class Ledger:
    """Sums by some of `DIMENSIONS`; by none it is one row.

    Args:
        by: Which, in the order of the columns.
    """

    def __init__(self, by: Sequence[str]) -> None:
        self.by = tuple(by)
        self.total = Line()
        self.kv_saved_us = 0
        """Microseconds of prefill that our own engines did not need; whose they were is not known."""
        self._words = [DIMENSIONS.index(each) for each in self.by]
        self._rows: dict[Name, Line] = {}

    def add(self, rollup: Rollup) -> None:
        """Take in the sums of a time; of one day of UTC, where there is a row for each. Cost: O(lines)."""
        day = day_of(rollup.start_at)
        for name, line in rollup.lines.items():
            words = (day, *name)
            self._rows.setdefault(tuple(words[i] for i in self._words), Line()).absorb(line)
            self.total.absorb(line)
        self.kv_saved_us += sum(rollup.sums("kv_saved_us").values())

    def rows(self) -> list[tuple[Name, Line]]:
        """By day, then the most money, tokens and requests first."""
        rows = dict(self._rows)
        for name in surplus(rows, NUM_ROWS, lambda name: rows[name].num_requests):
            rows.setdefault(others(name), Line()).absorb(rows.pop(name))
        at = self.by.index("day") if "day" in self.by else None

        def order(row: tuple[Name, Line]) -> tuple[object, ...]:
            name, line = row
            size = (
                line.saved + line.spent,
                line.answered_saved_tokens + line.computed_tokens,
                line.num_requests,
            )
            return "" if at is None else name[at], *(-each for each in size), name

        return sorted(rows.items(), key=order)


def day_of(at: float) -> str:
    """The day of UTC, `2026-11-30`."""
    return datetime.fromtimestamp(at, UTC).date().isoformat()
