"""Objections that no likeness outweighs, one rule to a file."""

from __future__ import annotations

from typing import Final

from openclaw_cache.semantic.guards.direction import Direction
from openclaw_cache.semantic.guards.kind import Kind
from openclaw_cache.semantic.guards.names import Names
from openclaw_cache.semantic.guards.negation import Negation
from openclaw_cache.semantic.guards.numbers import Numbers
from openclaw_cache.semantic.guards.opposites import Opposites
from openclaw_cache.semantic.guards.quantifiers import Quantifiers
from openclaw_cache.semantic.guards.substitution import Substitution
from openclaw_cache.semantic.guards.symbols import Symbols
from openclaw_cache.semantic.guards.wording import Wording
from openclaw_cache.semantic.validity import Check

ALL: Final[tuple[Check, ...]] = (
    Numbers(),
    Symbols(),
    Wording(),
    Negation(),
    Quantifiers(),
    Kind(),
    Direction(),
    Opposites(),
    Names(),
    Substitution(),
)
"""The rules, the cheapest first."""
