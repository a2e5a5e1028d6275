"""What in a prompt changes from request to request without meaning, or could stand behind the history. Pure."""

from openclaw_cache.canonical.canonical import Canonicalised, Level, canonicalise
from openclaw_cache.canonical.rules import RULE_IDS, RULES

__all__ = ["RULES", "RULE_IDS", "Canonicalised", "Level", "canonicalise"]
