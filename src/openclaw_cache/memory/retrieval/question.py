"""What is asked of a memory."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import tzinfo
from typing import TYPE_CHECKING, Final, Literal

from openclaw_cache.memory.record import Filter
from openclaw_cache.memory.retrieval.time_words import TimeRange, find_range

if TYPE_CHECKING:
    from openclaw_cache.embedding.embedder import Vector

Mode = Literal["hybrid", "vector", "text", "time"]
EVERYTHING: Final = Filter()
HALF_LIFE_S: Final = 30 * 86_400.0
"""After which what was remembered counts as half as fresh."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is looked for, how, and among what.

    `vector` is the text's, None where there is none (then the other rankings do). `asked` is the time that the text
    names: what is of that time comes first. `within` is never crossed. `now` is what age counts from, `half_life_s` how
    fast it does; None = not at all.
    """

    text: str
    now: float
    vector: Vector | None = None
    mode: Mode = "hybrid"
    asked: TimeRange | None = None
    within: Filter = EVERYTHING
    limit: int = 10
    half_life_s: float | None = HALF_LIFE_S


def question(
    text: str,
    now: float,
    tz: tzinfo,
    *,
    vector: Vector | None = None,
    mode: Mode = "hybrid",
    within: Filter = EVERYTHING,
    limit: int = 10,
) -> Question:
    """A question with the time that its words name."""
    return Question(
        text=text,
        now=now,
        vector=vector,
        mode=mode,
        asked=find_range(text, now, tz),
        within=within,
        limit=limit,
    )
