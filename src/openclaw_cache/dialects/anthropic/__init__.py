"""Anthropic's Messages dialect: read requests, merge and split replies, follow streams. No I/O."""

from openclaw_cache.dialects.anthropic.admission import REFUSALS, Refusal
from openclaw_cache.dialects.anthropic.count_tokens import CountTokensDialect
from openclaw_cache.dialects.anthropic.messages import MessagesDialect

__all__ = ["REFUSALS", "CountTokensDialect", "MessagesDialect", "Refusal"]
