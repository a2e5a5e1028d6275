"""The question whether the reply to one question may answer another, as each check sees it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from openclaw_cache.semantic.reading import Reading


@dataclass(frozen=True, slots=True)
class Pair:
    """A question that was asked now, and one whose reply is stored, in the same partition."""

    asked: Reading
    stored: Reading
    cosine: float
    domain: str
    age_s: float
    """Since the stored reply was made."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one check says of a pair; `reason` is one word for people and metrics, empty where it passes."""

    check: str
    passes: bool
    reason: str = ""
    value: float | None = None
    limit: float | None = None


class Check(Protocol):
    """One reason why a stored reply may not answer. Knows no clock and no I/O."""

    name: str

    def verdict(self, pair: Pair) -> Verdict:
        """Judge a pair. Some tens of µs at most."""
        ...
