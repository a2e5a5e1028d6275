"""What becomes of a statement about something that other memories speak of already."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from openclaw_cache.memory.capture.reading import statement_of
from openclaw_cache.memory.capture.sameness import is_same
from openclaw_cache.memory.record import Memory


class Said(Protocol):
    """What superseding looks at: a candidate or a memory."""

    @property
    def text(self) -> str:
        """What is said."""
        ...

    @property
    def slot(self) -> str | None:
        """What it is about, where only one such statement is true at a time."""
        ...

    @property
    def at(self) -> float:
        """The time it speaks of, Unix s."""
        ...


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of a statement.

    `store` it; `skip` it, as `ids` say it already; `supersede`: it takes the place of `ids`; `outdated`: the newer
    memories `ids` have taken its place.
    """

    action: Literal["store", "skip", "supersede", "outdated"]
    ids: tuple[str, ...] = ()


def superseding(new: Said, holders: Sequence[Memory]) -> Decision:
    """Decide what becomes of `new` beside the current memories of its slot, oldest first.

    The same text or the same value is known already. Another value takes the place of all that are not newer than
    it (by the time they speak of).
    """
    others = [memory for memory in holders if memory.slot == new.slot and memory.superseded_by is None]
    for memory in others:
        if is_same(new.text, memory.text):
            return Decision("skip", (memory.id,))
    if new.slot is None or not others:
        return Decision("store")
    value = _value(new.text)
    same = [memory.id for memory in others if value is not None and _value(memory.text) == value]
    if len(same) == len(others):
        return Decision("skip", tuple(same))
    newer = tuple(memory.id for memory in others if memory.at > new.at)
    if newer:
        return Decision("outdated", newer)
    return Decision("supersede", tuple(memory.id for memory in others))


def _value(text: str) -> str | None:
    statement = statement_of(text)
    return statement.value if statement else None
