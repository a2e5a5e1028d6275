"""Why a stored reply was given for another question, or was not: kept for a while, to explain and to learn from."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from openclaw_cache.semantic.validity import Verdict
from openclaw_cache.types import CacheKey, Json, Namespace

MOST: Final = 10_000


@dataclass(slots=True)
class Decision:
    """One look-up: the best candidate, what each check said of it, and what became of it. Without any text."""

    request_id: str
    at: float
    model: str
    namespace: Namespace
    domain: str
    outcome: str
    """`hit`, or the check that refused the best candidate, or why none was looked for."""
    cosine: float | None = None
    score: float | None = None
    limit: float | None = None
    age_s: float | None = None
    verdicts: Sequence[Verdict] = ()
    key: CacheKey | None = None
    """Of the stored reply."""
    learned: str = ""
    """What came to be known of it: `good` or `bad`, and from whom."""
    id: str = field(default_factory=lambda: f"s{secrets.token_urlsafe(9)}")
    """Says nothing of the entry: it is shown to the client, for feedback."""

    def shown(self) -> Json:
        """For an operator's eyes."""
        return {
            "id": self.id,
            "request_id": self.request_id,
            "at": self.at,
            "model": self.model,
            "namespace": self.namespace,
            "domain": self.domain,
            "outcome": self.outcome,
            "cosine": self.cosine,
            "score": self.score,
            "limit": self.limit,
            "age_s": self.age_s,
            "checks": [
                {"check": v.check, "passes": v.passes, "reason": v.reason, "value": v.value, "limit": v.limit}
                for v in self.verdicts
            ],
            "learned": self.learned or None,
        }


class Decisions:
    """The last decisions, by their own id and by their request's."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._by_id: OrderedDict[str, Decision] = OrderedDict()
        self._by_request: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Decision]:
        return iter(self._by_id.values())

    def add(self, decision: Decision) -> None:
        """Keep it; the oldest gives way."""
        if len(self._by_id) >= self._most:
            _, oldest = self._by_id.popitem(last=False)
            if self._by_request.get(oldest.request_id) == oldest.id:
                del self._by_request[oldest.request_id]
        self._by_id[decision.id] = decision
        self._by_request[decision.request_id] = decision.id

    def find(self, name: str) -> Decision | None:
        """The decision of this id, or of the request of this id; None where it is not known, or no more."""
        return self._by_id.get(name) or self._by_id.get(self._by_request.get(name, ""))
