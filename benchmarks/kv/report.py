"""Tables and targets of a run, and how they are shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True)
class Target:
    """A bound, and what was measured against it."""

    what: str
    value: float
    bound: float

    @property
    def met(self) -> bool:
        return self.value <= self.bound


@dataclass(slots=True)
class Section:
    """One table. `notes` say what a reader must know to read it."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)

    def as_json(self) -> dict[str, object]:
        targets = [asdict(target) | {"met": target.met} for target in self.targets]
        return {
            "title": self.title,
            "columns": self.columns,
            "rows": self.rows,
            "notes": self.notes,
            "targets": targets,
        }

    def show(self, console: Console) -> None:
        table = Table(*self.columns, title=self.title, title_justify="left")
        for row in self.rows:
            table.add_row(*row)
        console.print(table)
        for note in self.notes:
            console.print(f"  {note}", highlight=False)


def quantile(values: Sequence[float], ratio: float) -> float:
    """The smallest value that at least `ratio` of all values do not pass."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(ratio * len(ordered)))]


def show_targets(sections: Sequence[Section], console: Console) -> None:
    table = Table("target", "bound", "measured", "met")
    for target in (t for section in sections for t in section.targets):
        met = "yes" if target.met else "[bold]no"
        table.add_row(target.what, f"≤ {target.bound:,.4g}", f"{target.value:,.4g}", met)
    console.print(table)
