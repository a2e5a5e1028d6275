"""All rules, in the order in which they are tried. Where two could touch the same text, the earlier one does."""

from __future__ import annotations

from typing import Final

from openclaw_cache.canonical.rule import Rule
from openclaw_cache.canonical.rules.dates import DATES
from openclaw_cache.canonical.rules.ids import IDS
from openclaw_cache.canonical.rules.nonces import NONCES
from openclaw_cache.canonical.rules.openclaw import OPENCLAW
from openclaw_cache.canonical.rules.tools import TOOLS

RULES: Final[tuple[Rule, ...]] = (*NONCES, *OPENCLAW, *DATES, *IDS, *TOOLS)

RULE_IDS: Final = tuple(rule.id for rule in RULES)
