"""What a rule of the canonicaliser is. The rules themselves are in `rules/`, one file per family."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class Example:
    """What a rule does to a system prompt, or to a list of tools: a test by itself."""

    before: str | Sequence[str]
    """The system prompt, or the tools' names in the order in which they came."""
    after: str | Sequence[str]
    moved: str = ""
    """The message that stands behind the history then; empty where nothing moves."""
    system: str = ""
    """For a rule about tools: the system prompt beside them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One thing that can be told apart from all others by its shape alone."""

    id: str
    level: Literal["safe", "full"]
    """The first level that applies it."""
    what: str
    why: str
    source: Sequence[str]
    """Public reports of it, and where its shape is known from."""
    example: Example


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadLine(Rule):
    """Drops the first line of the first system text."""

    pattern: re.Pattern[str]
    """The whole line, without its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section(Rule):
    """Moves what stands between two markers, and the markers."""

    begin: str
    end: str
    alien: Sequence[str]
    """What cannot stand in it: then the markers are not what they seem."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line(Rule):
    """Moves a line, or a heading and the line below it, that stands once in the system prompt and in no code."""

    begins: Sequence[str]
    """Every such line begins with one of these in any case, behind a bullet, a heading's marks or `<`."""
    pattern: re.Pattern[str]
    """All of it, without its last line's end. Its group `label` is what may stand but once."""
    num_lines: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOrder(Rule):
    """Puts tools into an order that does not depend on the request."""

    prompt_begins: str = ""
    """Only beside system prompts that begin so."""
    ranks: Mapping[str, int] = field(default_factory=dict)
    """Tools of a lower rank stand first, those of one rank by name."""
    rank_of_others: int = 0
