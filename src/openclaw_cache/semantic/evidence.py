"""How many of a domain's semantic hits are wrong: what calibration promised, and what was seen since. Pure.

The wrong ratio, of all hits, is known from two sides. *Verification* is a sample: the model answers again, and the two
answers are compared. *Feedback* is what people say of single hits, and they speak up more when one is wrong; so each
counts only as much as one hit does in the sample, (W + verified) / (W + hits), with W the weight of the prior. Together
they give a Beta distribution of the ratio:

    Beta(prior wrong + verified bad + w · told bad,  prior right + verified good + w · told good)

When the ratio is above what was promised with P > 0.5, the limit rises by `STEP` on the calibrated scale, and what was
seen is counted again at the new limit: outcomes are kept with their scores, so that those of a looser limit do not
weigh on a tighter one. When no limit below 1 holds, the domain is switched off. A limit that holds on its own is left
alone: without one wrong hit at or above it, calibration has the last word.

Nothing becomes looser by itself: above a raised limit nothing is learnt of what lies below it. An operator's `reset` or
another calibration starts anew. Counts are halved at `MOST_OUTCOMES` outcomes or `MOST_HITS` hits, so that the old
weighs less than the new.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple, Self

import msgspec

from openclaw_cache.semantic.beta import at_most, quantile

STEP: Final = 0.01
"""By how much a limit rises that does not hold."""
PRIOR_WEIGHT: Final = 100.0
"""How many verified hits calibration weighs at most: some hundreds of pairs are not this domain's own traffic."""
MOST_OUTCOMES: Final = 500
MOST_HITS: Final = 20_000
MOST_DOMAINS: Final = 1000
"""Callers name domains: beyond so many, what is seen counts for `default`."""
DEFAULT: Final = "default"

_NO_COUNT: Final = 1e12
_LOWEST: Final = 0.5
_BINS_PER_UNIT: Final = 200
_NUM_BINS: Final = 100
_CONFIDENCE: Final = 0.95


class Estimate(NamedTuple):
    """A ratio that was not counted but inferred: the mean, and the bounds that it lies within with 95 %."""

    mean: float
    low: float
    high: float
    num_seen: int
    """How many outcomes it rests on, beside the prior; after a halving, what is left of them."""


class Prior(NamedTuple):
    """What calibration found at a domain's limit, as counts of wrong and right hits."""

    wrong: float
    right: float

    @classmethod
    def of(cls, num_wrong: float, num_right: float, most: float = PRIOR_WEIGHT) -> Self:
        """Counts that weigh `most` hits at most. Half a hit is added to each, as one that knows nothing would."""
        weight = num_wrong + num_right + 1.0
        share = min(1.0, most / weight)
        return cls((num_wrong + 0.5) * share, (num_right + 0.5) * share)


NOTHING_KNOWN: Final = Prior.of(0, 0)


def _no_counts() -> list[float]:
    return [0.0] * _NUM_BINS


class Evidence(msgspec.Struct):
    """What was seen of one domain. Bounded: some hundred numbers."""

    floor: float = 0.0
    """The limit that was raised to; 0 = never."""
    off_because: str = ""
    """Why the domain is switched off, for people; empty while it is on."""
    hits: list[float] = msgspec.field(default_factory=_no_counts)
    """By score, as all lists here: `bin_of`."""
    good: list[float] = msgspec.field(default_factory=_no_counts)
    """Verified."""
    bad: list[float] = msgspec.field(default_factory=_no_counts)
    told_good: list[float] = msgspec.field(default_factory=_no_counts)
    """Feedback."""
    told_bad: list[float] = msgspec.field(default_factory=_no_counts)
    num_hits: int = 0
    """Since the start, never halved: how new the domain is."""
    num_unsure: float = 0.0
    """Verified hits where neither could be said."""
    num_refused: float = 0.0
    """Look-ups with a candidate that was refused."""
    refused_right: float = 0.0
    """Of those that were compared: the candidate's reply would have been right."""
    refused_wrong: float = 0.0

    def __post_init__(self) -> None:
        counts = (self.hits, self.good, self.bad, self.told_good, self.told_bad)
        if any(len(bins) != _NUM_BINS for bins in counts):
            raise ValueError("evidence of another scale")
        sums = (self.num_hits, self.num_unsure, self.num_refused, self.refused_right, self.refused_wrong)
        if not all(
            0 <= count < _NO_COUNT for count in (*sums, *(count for bins in counts for count in bins))
        ):
            raise ValueError("a count is no count")
        if not 0 <= self.floor <= 1:
            raise ValueError("a limit beyond the scale")

    def hit(self, score: float) -> None:
        """A hit was given."""
        self.num_hits += 1
        self.hits[bin_of(score)] += 1
        self._forget()

    def verified(self, score: float, *, is_good: bool) -> None:
        """A hit was answered anew by the model, and the two compared."""
        (self.good if is_good else self.bad)[bin_of(score)] += 1
        self._forget()

    def unsure(self) -> None:
        """A hit was verified, and nothing can be said of it."""
        self.num_unsure += 1

    def told(self, score: float, *, is_good: bool) -> None:
        """Somebody said whether a hit was right."""
        (self.told_good if is_good else self.told_bad)[bin_of(score)] += 1
        self._forget()

    def refused(self) -> None:
        """There was a candidate, and it was refused."""
        self.num_refused += 1

    def compared(self, *, is_right: bool) -> None:
        """A refused candidate's reply was compared with the model's own: right means a hit was missed."""
        if is_right:
            self.refused_right += 1
        else:
            self.refused_wrong += 1

    def limit(self, base: float) -> float | None:
        """The limit in force where calibration asks for `base`; None where the domain is switched off."""
        return None if self.off_because else max(base, self.floor)

    def posterior(self, limit: float, prior: Prior) -> tuple[float, float]:
        """The Beta distribution of the wrong ratio of hits that score `limit` or more."""
        start = bin_of(limit)
        good, bad = sum(self.good[start:]), sum(self.bad[start:])
        weight = sum(prior)
        # More outcomes than hits are seen only after a halving, or where hits were given before the count began.
        weight = min(1.0, (weight + good + bad) / (weight + sum(self.hits[start:])))
        wrong = prior.wrong + bad + weight * sum(self.told_bad[start:])
        return wrong, prior.right + good + weight * sum(self.told_good[start:])

    def p_exceeds(self, max_wrong_ratio: float, limit: float, prior: Prior) -> float:
        """The probability that more than `max_wrong_ratio` of the hits at this limit are wrong."""
        return 1.0 - at_most(max_wrong_ratio, *self.posterior(limit, prior))

    def holds(self, max_wrong_ratio: float, limit: float, prior: Prior) -> bool:
        """Whether what was seen leaves the promise standing at this limit."""
        start = bin_of(limit)
        if not any(self.bad[start:]) and not any(self.told_bad[start:]):
            return True
        return self.p_exceeds(max_wrong_ratio, limit, prior) <= 0.5

    def review(self, base: float, max_wrong_ratio: float, prior: Prior) -> float | None:
        """Raise the limit as far as the evidence asks, and return it; None where the domain is switched off.

        To be called when an outcome was added. Some 20 µs a step.

        Args:
            base: The limit that calibration, or the operator, asks for.
            max_wrong_ratio: What was promised.
            prior: What calibration found at `base`; a tighter limit is taken to be no worse.
        """
        while (limit := self.limit(base)) is not None and not self.holds(max_wrong_ratio, limit, prior):
            raised = (math.floor(limit / STEP + 1e-6) + 1) * STEP
            if raised < 1 - STEP / 2:
                self.floor = round(raised, 6)
                continue
            start = bin_of(limit)
            num_bad = sum(self.bad[start:]) + sum(self.told_bad[start:])
            seen = num_bad + sum(self.good[start:]) + sum(self.told_good[start:])
            self.off_because = (
                f"more than {max_wrong_ratio:.2%} of its hits are wrong at every limit: {num_bad:.0f} of {seen:.0f} "
                f"verified or told at {limit:.2f} and above"
            )
        return limit

    def wrong_ratio(self, base: float, prior: Prior) -> Estimate:
        """Of the hits given at the limit in force, how many are wrong. Some ms: for reports."""
        limit = max(base, self.floor)
        wrong, right = self.posterior(limit, prior)
        start = bin_of(limit)
        counts = (self.good, self.bad, self.told_good, self.told_bad)
        seen = sum(sum(bins[start:]) for bins in counts)
        return _estimate(wrong, right, seen)

    def recall(self, base: float, prior: Prior) -> Estimate:
        """Of the stored replies that would have been right, how many were given.

        Right hits ÷ (right hits + refused candidates that were right). How many hits were right comes from
        `wrong_ratio`'s mean; the bounds are those of the refused ones, which are the less known.
        """
        wrong = self.wrong_ratio(base, prior).mean
        right_hits = sum(self.hits) * (1 - wrong)
        missed = _estimate(
            self.refused_right + 0.5, self.refused_wrong + 0.5, self.refused_right + self.refused_wrong
        )

        def given(refused_right_ratio: float) -> float:
            all_right = right_hits + self.num_refused * refused_right_ratio
            return right_hits / all_right if all_right else 1.0

        return Estimate(given(missed.mean), given(missed.high), given(missed.low), missed.num_seen)

    def reset(self) -> None:
        """Forget all, and switch on again at calibration's limit, as a new domain: an operator's word."""
        fresh = Evidence()
        for name in self.__struct_fields__:
            setattr(self, name, getattr(fresh, name))

    def _forget(self) -> None:
        counts = (self.hits, self.good, self.bad, self.told_good, self.told_bad)
        if sum(map(sum, counts[1:])) <= MOST_OUTCOMES and sum(self.hits) <= MOST_HITS:
            return
        for bins in counts:
            bins[:] = [count / 2 for count in bins]
        self.num_unsure /= 2
        self.num_refused /= 2
        self.refused_right /= 2
        self.refused_wrong /= 2


class EvidenceBook(msgspec.Struct):
    """The evidence of all domains under one calibration; lasts beyond a restart as `packed`."""

    calibration: str
    """Names the calibration whose scale the scores are on."""
    domains: dict[str, Evidence] = {}

    def of(self, domain: str) -> Evidence:
        """A domain's evidence. Beyond `MOST_DOMAINS` domains, the one of `default`."""
        evidence = self.domains.get(domain)
        if evidence is None:
            if len(self.domains) >= MOST_DOMAINS:
                domain = DEFAULT
            evidence = self.domains.setdefault(domain, Evidence())
        return evidence

    def packed(self) -> bytes:
        """All of it, for the next start."""
        return msgspec.msgpack.encode(self)

    @classmethod
    def unpacked(cls, packed: bytes, calibration: str) -> Self:
        """What was kept; an empty book where nothing readable was, or it was kept under another calibration."""
        try:
            book = msgspec.msgpack.decode(packed, type=cls)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return cls(calibration)
        return book if book.calibration == calibration else cls(calibration)


def bin_of(score: float) -> int:
    """Which of the counts a score belongs to: steps of 0.005 from 0.5 to 1. All below 0.5 belong to the first."""
    place = math.floor((score - _LOWEST) * _BINS_PER_UNIT + 1e-6)
    return min(max(place, 0), _NUM_BINS - 1)


def _estimate(wrong: float, right: float, seen: float) -> Estimate:
    tail = (1 - _CONFIDENCE) / 2
    return Estimate(
        mean=wrong / (wrong + right),
        low=quantile(tail, wrong, right),
        high=quantile(1 - tail, wrong, right),
        num_seen=round(seen),
    )
