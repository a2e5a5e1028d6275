"""What one request cost, what answering it ourselves saved, and the sums of both.

Only what would have been computed counts as saved by us. Prompt tokens that the provider had in its own cache when
the reply was made, or wrote into it then, it would have read from there again: a hit saves no more than the price
of reading them. What a provider caches without saying so cannot be known, and counts as computed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

import msgspec

from openclaw_cache.observe.prices import PICODOLLARS, Price

NUM_LABELS: Final = 256
OTHER: Final = "other"
UNKNOWN: Final = "unknown"
_MOST_LABEL_CHARACTERS: Final = 128


class TokenCounts(Protocol):
    """The usage of one reply. `prompt_tokens` is the whole prompt; what the provider cached is part of it."""

    @property
    def prompt_tokens(self) -> int | None:
        """Tokens of the prompt; None where the reply does not tell."""
        ...

    @property
    def completion_tokens(self) -> int | None:
        """Tokens of the reply; None where it does not tell, or has none."""
        ...

    @property
    def cached_tokens(self) -> int:
        """Of the prompt: read from the provider's cache."""
        ...

    @property
    def cache_write_tokens(self) -> int:
        """Of the prompt: computed, and written to the provider's cache."""
        ...


class Savings(msgspec.Struct, frozen=True, gc=False):
    """The record of one request: forwarded or answered by us, never both.

    A Struct because every hit makes one, and a frozen dataclass takes several times as long to make.
    """

    computed_tokens: int = 0
    """Of the prompt: computed by the upstream."""
    upstream_cached_tokens: int = 0
    """Of the prompt: in the upstream's own cache."""
    answered_prompt_tokens: int = 0
    """The prompt's, where we gave the reply: stored, or that of a request in the air."""
    answered_completion_tokens: int = 0
    """The reply's, where we gave it."""
    would_be_cached_tokens: int = 0
    """Of the answered prompt: what the provider would have had in its cache anyway."""
    spent: int | None = None
    """Picodollars; None where the tokens or their price are unknown."""
    saved: int | None = None
    """Picodollars; None where the tokens or their price are unknown."""

    @property
    def spent_usd(self) -> float | None:
        """What the upstream asks for this request."""
        return None if self.spent is None else self.spent / PICODOLLARS

    @property
    def saved_usd(self) -> float | None:
        """What it would have asked had we not answered."""
        return None if self.saved is None else self.saved / PICODOLLARS

    def fields(self) -> dict[str, int | float]:
        """For a log line: what is known and not zero."""
        known = {
            "computed_tokens": self.computed_tokens,
            "upstream_cached_tokens": self.upstream_cached_tokens,
            "answered_prompt_tokens": self.answered_prompt_tokens,
            "answered_completion_tokens": self.answered_completion_tokens,
            "would_be_cached_tokens": self.would_be_cached_tokens,
            "spent_usd": self.spent_usd,
            "saved_usd": self.saved_usd,
        }
        return {name: value for name, value in known.items() if value}


def of_forwarded(usage: TokenCounts | None, price: Price | None) -> Savings:
    """The record of a request that the upstream computed. Its own cache's savings are not ours."""
    if usage is None or usage.prompt_tokens is None:
        return Savings()
    fresh, written, cached = _parts(usage.prompt_tokens, usage)
    if price is None:
        return Savings(fresh + written, cached)
    rates = price.for_prompt(usage.prompt_tokens)
    prompt = fresh * rates.input + written * rates.cache_write + cached * rates.cached_input
    spent = prompt + (usage.completion_tokens or 0) * rates.output
    return Savings(fresh + written, cached, spent=spent, saved=0)


def of_answered(usage: TokenCounts | None, price: Price | None) -> Savings:
    """The record of a request that we answered, by the usage that its reply had when it was made."""
    if usage is None or usage.prompt_tokens is None:
        return Savings()
    fresh, written, cached = _parts(usage.prompt_tokens, usage)
    completion, cached = usage.completion_tokens or 0, written + cached
    saved = None
    if price is not None:
        rates = price.for_prompt(usage.prompt_tokens)
        saved = fresh * rates.input + cached * rates.cached_input + completion * rates.output
    return Savings(
        answered_prompt_tokens=usage.prompt_tokens,
        answered_completion_tokens=completion,
        would_be_cached_tokens=cached,
        spent=None if price is None else 0,
        saved=saved,
    )


def _parts(prompt: int, usage: TokenCounts) -> tuple[int, int, int]:
    """(computed only, computed and written to a cache, read from it): together the prompt, whatever is told."""
    cached = min(usage.cached_tokens, prompt)
    written = min(usage.cache_write_tokens, prompt - cached)
    return prompt - cached - written, written, cached


class _Sums:
    """Sums over many records. Whole picodollars: the order of adding does not matter."""

    __slots__ = ("_num_priced", "_num_requests", "_sums")

    def __init__(self) -> None:
        self._num_requests = self._num_priced = 0
        self._sums = [0] * 7

    def add(self, record: Savings) -> None:
        self._num_requests += 1
        sums = self._sums
        if record.computed_tokens or record.upstream_cached_tokens:
            sums[0] += record.computed_tokens
            sums[1] += record.upstream_cached_tokens
        else:
            sums[2] += record.answered_prompt_tokens
            sums[3] += record.answered_completion_tokens
            sums[4] += record.would_be_cached_tokens
        if record.spent is not None:
            self._num_priced += 1
            sums[5] += record.spent
            sums[6] += record.saved or 0

    def add_all(self, others: Iterable[_Sums]) -> _Sums:
        for other in others:
            self._num_requests += other._num_requests
            self._num_priced += other._num_priced
            self._sums = [a + b for a, b in zip(self._sums, other._sums, strict=True)]
        return self

    def summary(self) -> dict[str, int | float]:
        counted = {"num_requests": self._num_requests, "num_priced": self._num_priced}
        return counted | {"spent_usd": 0.0, "saved_usd": 0.0} | Savings(*self._sums).fields()


class SavingsBook:
    """Sums of all records since the start, per model and per agent, in bounded memory.

    The first labels get a line each; all that come later share one, `other`.

    Args:
        num_labels: Lines of models, and of agents.
    """

    def __init__(self, num_labels: int = NUM_LABELS) -> None:
        self._num_labels = num_labels
        self._models: dict[str, _Sums] = {}
        self._agents: dict[str, _Sums] = {}

    def add(self, model: str, agent: str | None, record: Savings) -> None:
        """Count one request. Cost: O(1)."""
        self._line(self._models, model).add(record)
        self._line(self._agents, UNKNOWN if agent is None else agent).add(record)

    def summary(self) -> dict[str, object]:
        """All sums, for `/admin/status`. `num_priced` requests are those that the money is of."""
        return {
            "total": _Sums().add_all(self._models.values()).summary(),
            "models": {name: sums.summary() for name, sums in self._models.items()},
            "agents": {name: sums.summary() for name, sums in self._agents.items()},
        }

    def _line(self, lines: dict[str, _Sums], label: str) -> _Sums:
        line = lines.get(label)
        if line is not None:
            return line
        # A client chooses these names: neither their number nor their length may be without bound.
        if len(label) > _MOST_LABEL_CHARACTERS or len(lines) >= self._num_labels:
            label = OTHER
        return lines.setdefault(label, _Sums())
