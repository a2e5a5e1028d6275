"""Time: the older a stored reply, and the faster its domain changes, the more alike two questions must be. Pure.

    limit(age) = 1 - (1 - limit) · 2^(-age / half-life)

So what may be missing from full likeness halves with each half-life: 0.90 becomes 0.95, 0.975, and never falls. Past a
domain's `max_age_s` nothing answers. The age counts from when the reply was made; a hit does not refresh it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from openclaw_cache.semantic.validity import Pair, Verdict


@dataclass(frozen=True, slots=True)
class Volatility:
    """How fast the answers of one domain change."""

    half_life_s: float | None = None
    """None = they do not, up to `max_age_s`."""
    max_age_s: float | None = None
    """None = that of all domains."""

    def __post_init__(self) -> None:
        for seconds in (self.half_life_s, self.max_age_s):
            if seconds is not None and not seconds > 0:
                raise ValueError(f"{seconds}: a half-life and a maximum age are longer than 0")


_STEADY = Volatility()


@dataclass(frozen=True, slots=True)
class Decay:
    """Refuses what is too old, and raises limits for what is getting old.

    Args:
        max_age_s: No reply of any domain answers another question when it is older; a domain's own can only be shorter.
        domains: What is set for single ones.
    """

    name: ClassVar[str] = "age"

    max_age_s: float
    domains: Mapping[str, Volatility] = field(default_factory=dict)

    def verdict(self, pair: Pair) -> Verdict:
        """Refuse a reply that is past its domain's maximum age."""
        most = self.most_age_s(pair.domain)
        passes = pair.age_s <= most
        return Verdict(self.name, passes, "" if passes else "too_old", pair.age_s, most)

    def most_age_s(self, domain: str) -> float:
        """The age from which no reply of a domain answers another question."""
        own = self.domains.get(domain, _STEADY).max_age_s
        return self.max_age_s if own is None else min(own, self.max_age_s)

    def raised(self, limit: float, domain: str, age_s: float) -> float:
        """The limit for a reply of this age; `limit` itself for a new one, or where nothing decays."""
        half_life_s = self.domains.get(domain, _STEADY).half_life_s
        if half_life_s is None or age_s <= 0 or limit >= 1:
            return limit
        return max(limit, 1 - (1 - limit) * 2 ** (-age_s / half_life_s))
