"""What is demanded of a candidate now: calibration's limit, as evidence, age and a caller's caution have raised it.

One limit per domain that the operator named, and one for all others, so that nobody escapes what was learnt by making
up a name. Pure but for the one callback by which what was learnt outlasts a restart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from openclaw_cache.semantic.agreement import Agreement
from openclaw_cache.semantic.calibration import ANCHORS, Calibration
from openclaw_cache.semantic.decay import Decay
from openclaw_cache.semantic.domains import DEFAULT
from openclaw_cache.semantic.entry_evidence import EntryBook
from openclaw_cache.semantic.evidence import Estimate, EvidenceBook, Prior
from openclaw_cache.semantic.validity import Pair, Verdict
from openclaw_cache.types import CacheKey, Json

SIMILARITY: Final = "similarity"
"""Name of the check for likeness."""


@dataclass(frozen=True, slots=True)
class DomainRule:
    """What the operator wants of one domain."""

    max_wrong_ratio: float
    limit: float | None = None
    """On the calibrated scale, instead of the one by which the calibration keeps `max_wrong_ratio`."""
    enabled: bool = True


@dataclass(slots=True)
class Learning:
    """Limits, and what moves them.

    Args:
        calibration: What the scores of this embedder mean.
        rules: Of the domains that the operator named.
        default: Of all others.
        decay: How limits rise with age.
        book: What was seen of domains; by their names, or `default`.
        entries: What was seen of single entries.
        save: Takes what is to outlast a restart.
    """

    calibration: Calibration
    rules: Mapping[str, DomainRule]
    default: DomainRule
    decay: Decay
    book: EvidenceBook
    entries: EntryBook
    save: Callable[[bytes], None]
    _bases: dict[str, float | None] = field(default_factory=dict)
    """Calibration's limits, by domain."""

    def verdicts(self, pair: Pair, key: CacheKey, score: float, *, is_strict: bool) -> list[Verdict]:
        """Whether a candidate of this score is young and alike enough."""
        limit = self.limit(pair.domain)
        if limit is None:
            return [Verdict(SIMILARITY, False, "off", score)]
        limit = self.decay.raised(limit, pair.domain, pair.age_s)
        if is_strict:
            limit = 1 - (1 - limit) / 2
        own = limit + self.entries.stricter_by(key)
        likeness = Verdict(SIMILARITY, score >= own, "", score, round(own, 6))
        if not likeness.passes:
            reason = "entry" if score >= limit else "unlike"
            likeness = Verdict(SIMILARITY, False, reason, score, round(own, 6))
        return [self.decay.verdict(pair), likeness]

    def limit(self, domain: str) -> float | None:
        """The limit in force for new replies of a domain; None where nothing passes, and `why_off` says why."""
        name = self.known(domain)
        base = self._base(name)
        if base is None or not self._rule(name).enabled:
            return None
        return self.book.of(name).limit(base)

    def why_off(self, domain: str) -> str:
        """Why nothing of a domain is answered by meaning; empty where it is."""
        name = self.known(domain)
        rule = self._rule(name)
        if not rule.enabled:
            return "switched off in the settings"
        if self._base(name) is None:
            held = next((ratio for _, ratio in reversed(ANCHORS) if ratio > rule.max_wrong_ratio), None)
            hint = f"max_wrong_ratio: {held:.0%}, or " if held and self.calibration.limit(held, name) else ""
            return (
                f"the calibration cannot hold {rule.max_wrong_ratio * 100:.3g} % wrong at any limit; what helps: "
                f"{hint}a calibration of your own pairs (openclaw-cache calibrate)"
            )
        return self.book.of(name).off_because

    def known(self, domain: str) -> str:
        """The name under which a domain is judged and learnt of."""
        return domain if domain in self.rules else DEFAULT

    def hit(self, domain: str, score: float) -> int:
        """A reply was given. Returns how many of the domain there were before."""
        evidence = self.book.of(self.known(domain))
        evidence.hit(score)
        return evidence.num_hits - 1

    def num_hits(self, domain: str) -> int:
        """How many replies of a domain were given."""
        return self.book.of(self.known(domain)).num_hits

    def refused(self, domain: str) -> None:
        """There was a candidate, and it was refused."""
        self.book.of(self.known(domain)).refused()

    def verified(self, domain: str, key: CacheKey, score: float, outcome: Agreement) -> None:
        """The model answered a hit's question itself."""
        evidence = self.book.of(self.known(domain))
        if outcome is Agreement.UNSURE:
            evidence.unsure()
            return
        is_good = outcome is Agreement.AGREE
        evidence.verified(score, is_good=is_good)
        self._learnt(domain, key, score, is_good=is_good)

    def told(self, domain: str, key: CacheKey, score: float, *, is_good: bool) -> None:
        """Somebody said whether a hit was right."""
        self.book.of(self.known(domain)).told(score, is_good=is_good)
        self._learnt(domain, key, score, is_good=is_good)

    def compared(
        self, domain: str, key: CacheKey, score: float, outcome: Agreement, *, by_score: bool
    ) -> None:
        """A refused candidate's reply was compared with the model's own.

        `by_score` is whether only its likeness was against it: a guard's refusal says nothing of the entry.
        """
        if outcome is Agreement.UNSURE:
            return
        is_right = outcome is Agreement.AGREE
        self.book.of(self.known(domain)).compared(is_right=is_right)
        if by_score:
            self.entries.add(key, score, is_right=is_right)

    def reset(self, domain: str) -> None:
        """Begin anew with a domain, at the calibration's limit."""
        self.book.of(self.known(domain)).reset()
        self.save(self.book.packed())

    def status(self) -> list[Json]:
        """All domains, for an operator's eyes. Some ms."""
        return [self._status(name) for name in dict.fromkeys([DEFAULT, *self.rules])]

    def _status(self, name: str) -> Json:
        evidence, base, rule = self.book.of(name), self._base(name), self._rule(name)
        shown: dict[str, Json] = {
            "domain": name,
            "limit": self.limit(name),
            "calibrated_limit": base,
            "max_wrong_ratio": rule.max_wrong_ratio,
            "num_hits": evidence.num_hits,
            "num_unsure": round(evidence.num_unsure),
            "off_because": self.why_off(name) or None,
        }
        if base is not None:
            prior = self._prior(name, base)
            shown["wrong_ratio"] = _estimate(evidence.wrong_ratio(base, prior))
            shown["recall"] = _estimate(evidence.recall(base, prior))
        return shown

    def _learnt(self, domain: str, key: CacheKey, score: float, *, is_good: bool) -> None:
        self.entries.add(key, score, is_right=is_good)
        name = self.known(domain)
        base = self._base(name)
        if base is not None:
            self.book.of(name).review(base, self._rule(name).max_wrong_ratio, self._prior(name, base))
        self.save(self.book.packed())

    def _rule(self, name: str) -> DomainRule:
        return self.rules.get(name, self.default)

    def _base(self, name: str) -> float | None:
        if name not in self._bases:
            rule = self._rule(name)
            given = rule.limit
            self._bases[name] = self.calibration.limit(rule.max_wrong_ratio, name) if given is None else given
        return self._bases[name]

    def _prior(self, name: str, limit: float) -> Prior:
        num_wrong, num_right = self.calibration.expected(limit, name)
        return Prior.of(num_wrong, num_right)


def _estimate(found: Estimate) -> Json:
    return {
        "mean": round(found.mean, 5),
        "low": round(found.low, 5),
        "high": round(found.high, 5),
        "num_seen": found.num_seen,
    }
