"""Rows of whole numbers by name, a bounded number of them."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence, Sized
from typing import Final, Protocol

Name = tuple[str, ...]
"""What a row is called: one word or more."""
Table = dict[Name, list[int]]
"""The rows of one family."""

OTHER: Final = "other"
MAX_WORD_BYTES: Final = 128
"""A row with a longer word is counted as `other`."""


class Rows(Container[Name], Sized, Protocol):
    """What there is so far."""


def place(rows: Rows, name: Name, max_rows: int) -> Name:
    """Under which name a new row is counted: clients choose names, so neither number nor length may be without bound.

    Some characters move cursors or break lines: they are written as escapes.
    """
    name = tuple(map(str.__str__, name))  # a member of an enumeration would be no key of a JSON object
    if not all(map(str.isprintable, name)):
        name = tuple(word if word.isprintable() else ascii(word)[1:-1] for word in name)
    if name not in rows and (len(rows) >= max_rows or any(map(_is_long, name))):
        return others(name)
    return name


def add(table: Table, name: Name, amounts: Sequence[int], max_rows: int) -> None:
    """Add amounts to a row; a new one where `max_rows` are there already is `other`. Cost: O(words + amounts)."""
    row = table.get(name)
    if row is None:
        row = table.setdefault(place(table, name, max_rows), [0] * len(amounts))
    for i, amount in enumerate(amounts):
        row[i] += amount


def absorb(table: Table, other: Table) -> None:
    """Add another table's rows to these, without a bound. Cost: O(rows)."""
    for name, amounts in other.items():
        row = table.get(name)
        if row is None:
            table[name] = list(amounts)
            continue
        row.extend([0] * (len(amounts) - len(row)))  # another version counts more
        for i, amount in enumerate(amounts):
            row[i] += amount


def trim(table: Table, max_rows: int) -> None:
    """Put the smallest rows, by their first number, together as `other` where there are more than `max_rows`."""
    for name in surplus(table, max_rows, lambda name: table[name][0]):
        absorb(table, {others(name): table.pop(name)})


def surplus(names: Iterable[Name], max_rows: int, size: Callable[[Name], int]) -> Sequence[Name]:
    """Which rows are too many: the smallest, so that `max_rows` are left when they are one, `other`."""
    known = list(names)
    if len(known) <= max_rows:
        return ()
    named = sorted((name for name in known if name != others(name)), key=lambda name: (-size(name), name))
    return named[max(0, max_rows - (len(known) - len(named)) - 1) :]


def others(name: Name) -> Name:
    """The name of what has no row of its own."""
    return (OTHER,) * len(name)


def shortened(word: str) -> str:
    """A word that a row can have; one that is too long loses its end, so that the row keeps its other words."""
    if not _is_long(word):
        return word
    return word.encode(errors="replace")[: MAX_WORD_BYTES - 3].decode(errors="ignore") + "…"


def _is_long(word: str) -> bool:
    return len(word.encode(errors="replace")) > MAX_WORD_BYTES
