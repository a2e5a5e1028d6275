"""What providers and engines make of a prefix that is kept: the shortest that they cache, and the steps they count in.

Sources, as of 2026-11-30: Anthropic, platform.claude.com/docs/en/build-with-claude/prompt-caching (minimum by model,
lifetimes of 5 minutes and 1 hour); OpenAI, developers.openai.com/api/docs/guides/prompt-caching (from 1,024 tokens on,
in steps of 128; kept 5 to 10 minutes, up to an hour); vLLM, docs.vllm.ai, design/prefix_caching (whole blocks, 16 by
default); SGLang, docs.sglang.ai, RadixAttention (page size 1 by default); llama.cpp, its server's README (`--parallel`
slots, each with the one prompt it computed last).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Literal

from openclaw_cache.gateway.cache_hints.minimums import min_tokens
from openclaw_cache.request_logs.logged_request import LoggedRequest

Vendor = Literal["anthropic", "openai", "any"]

TTLS_S: Final = {"5 min": 300.0, "1 h": 3600.0}
"""Lifetimes of prefixes at providers."""


@dataclass(frozen=True, slots=True)
class CacheRule:
    """How one cache counts."""

    name: str
    vendor: Vendor
    step_tokens: int
    min_tokens: int = 0
    """0 for Anthropic: there it depends on the model."""

    def least(self, model: str) -> int:
        """The shortest prefix that it caches."""
        return min_tokens(model) if self.vendor == "anthropic" else self.min_tokens

    def cached(self, model: str, kept_tokens: int) -> int:
        """Tokens of a kept prefix that it has."""
        if kept_tokens < self.least(model):
            return 0
        return kept_tokens // self.step_tokens * self.step_tokens


CACHE_RULES: Final = (
    CacheRule("Anthropic", "anthropic", 1),
    CacheRule("OpenAI", "openai", 128, 1024),
    CacheRule("this server's engine, vLLM", "any", 16),
    CacheRule("SGLang", "any", 1),
)


def vendor_of(request: LoggedRequest) -> Vendor:
    """Whose model it is, by the API and the name."""
    name = request.model.casefold()
    if "claude" in name or request.api == "messages":
        return "anthropic"
    family = name.rpartition("/")[2]
    return "openai" if family.startswith(("gpt-", "chatgpt", "o1", "o3", "o4", "codex")) else "any"


@dataclass(slots=True)
class Rounded:
    """What one cache has of all kept prefixes of a log."""

    num_prefixes: int = 0
    num_below: int = 0
    kept_tokens: int = 0
    cached_tokens: int = 0


@dataclass(slots=True)
class CacheRules:
    """Counts of each rule that fits the log's models."""

    _by_rule: dict[CacheRule, Rounded] = field(default_factory=dict)
    num_unmarked: int = 0
    """Requests to Anthropic's API without a `cache_control`: nothing of them is cached."""
    num_anthropic: int = 0

    def count(self, request: LoggedRequest, kept_tokens: int) -> None:
        """Take in one kept prefix."""
        vendor = vendor_of(request)
        for rule in CACHE_RULES:
            if rule.vendor in ("any", vendor):
                rounded = self._by_rule.setdefault(rule, Rounded())
                rounded.num_prefixes += 1
                rounded.num_below += kept_tokens < rule.least(request.model)
                rounded.kept_tokens += kept_tokens
                rounded.cached_tokens += rule.cached(request.model, kept_tokens)

    def count_marks(self, request: LoggedRequest) -> None:
        """Take in whether a request asks Anthropic to cache."""
        if request.api == "messages" and request.is_whole:
            self.num_anthropic += 1
            self.num_unmarked += b'"cache_control"' not in request.raw

    def as_json(self) -> list[dict[str, Any]]:
        """A row for each rule, in the order of the list."""
        return [
            {
                "cache": rule.name,
                "min_tokens": rule.min_tokens or None,
                "step_tokens": rule.step_tokens,
                "num_prefixes": found.num_prefixes,
                "num_below_minimum": found.num_below,
                "kept_tokens": found.kept_tokens,
                "cached_tokens": found.cached_tokens,
                "rounded_off_tokens": found.kept_tokens - found.cached_tokens,
            }
            for rule in CACHE_RULES
            if (found := self._by_rule.get(rule)) is not None
        ]
