"""A filter as SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from openclaw_cache.memory.record import Filter

OF_PASSAGE: Final = (
    " LEFT JOIN memory m ON m.number = p.memory LEFT JOIN message g ON g.number = p.message"
    " LEFT JOIN turn t ON t.number = g.turn LEFT JOIN session s ON s.number = g.session"
)
"""What belongs to a passage `p`; SQLite leaves out what a statement does not ask for."""


def of_passages(within: Filter) -> tuple[str, list[Any]]:
    """The condition on a passage `p`, joined with `OF_PASSAGE`, and its values."""
    conditions, values = ["1"], list[Any]()
    if within.of is not None:
        conditions.append(f"p.{within.of} IS NOT NULL")
    _add_times(within, "p.at", conditions, values)
    _add_memory_fields(within, conditions, values)
    if within.session is not None:
        conditions.append("coalesce(s.name, m.session) = ?")
        values.append(within.session)
    if not within.with_heartbeats:
        conditions.append("coalesce(t.is_heartbeat, 0) = 0")
    return " AND ".join(conditions), values


def of_memories(within: Filter) -> tuple[str, list[Any]]:
    """The condition on a memory `m`, and its values."""
    conditions, values = ["0" if within.of == "message" else "1"], list[Any]()
    _add_times(within, "m.at", conditions, values)
    _add_memory_fields(within, conditions, values)
    if within.session is not None:
        conditions.append("m.session = ?")
        values.append(within.session)
    return " AND ".join(conditions), values


def marks(num_values: int) -> str:
    """Places for so many values, for `IN (…)`."""
    return ",".join("?" * num_values)


def _add_times(within: Filter, column: str, conditions: list[str], values: list[Any]) -> None:
    if within.since is not None:
        conditions.append(f"{column} >= ?")
        values.append(within.since)
    if within.until is not None:
        conditions.append(f"{column} < ?")
        values.append(within.until)


def _add_memory_fields(within: Filter, conditions: list[str], values: list[Any]) -> None:
    if within.kinds:
        kinds = set(within.kinds)
        conditions.append(f"m.kind IN ({marks(len(kinds))})")
        values += kinds
    if within.tags:
        tags = set(within.tags)
        conditions.append(
            "(SELECT count(*) FROM tag WHERE memory = m.number"  # noqa: S608 - only question marks are put in
            f" AND name IN ({marks(len(tags))})) = {len(tags)}"
        )
        values += tags
    if not within.with_superseded:
        conditions.append("m.superseded_by IS NULL")
