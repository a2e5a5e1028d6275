"""Pauses between the requests of a session that are longer than a provider keeps a prefix."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from openclaw_cache.doctor.cache_rules import TTLS_S


@dataclass(slots=True)
class Pauses:
    """Counts by lifetime."""

    num_known: int = 0
    _num: dict[str, int] = field(default_factory=lambda: dict.fromkeys(TTLS_S, 0))
    _tokens: dict[str, int] = field(default_factory=lambda: dict.fromkeys(TTLS_S, 0))

    def count(self, earlier_at: float | None, later_at: float | None, kept_tokens: int) -> None:
        """Take in two requests, one after the other."""
        if earlier_at is None or later_at is None:
            return
        self.num_known += 1
        for name, ttl_s in TTLS_S.items():
            if later_at - earlier_at > ttl_s:
                self._num[name] += 1
                self._tokens[name] += kept_tokens

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        rows = [
            {
                "longer_than": name,
                "ttl_s": TTLS_S[name],
                "num": self._num[name],
                "kept_tokens": self._tokens[name],
            }
            for name in TTLS_S
        ]
        return {"num_known": self.num_known, "pauses": rows}
