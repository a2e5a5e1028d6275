"""Make a calibration from labelled pairs and their cosines. Pure; some seconds for thousands of pairs.

Each kind of pair has its own weights: a logistic regression, drawn to the weights of all kinds, and those to the ones
of a calibration that came before. What is known to speak against a pair never speaks for it, and the other way round.
What a limit is worth is told by pairs that had no part in their own weights: texts that belong together are left out
together, ten parts in turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np

from openclaw_cache.errors import ConfigError
from openclaw_cache.semantic import guards
from openclaw_cache.semantic.calibration import Calibration, Knots, Outcomes, knots_of, on_scale
from openclaw_cache.semantic.fitting import NUM_FOLDS, Floats, Labels, fit, folds, groups_by_text
from openclaw_cache.semantic.labelled import DEFAULT_DOMAIN, LabelledPair
from openclaw_cache.semantic.reading import Reading, read
from openclaw_cache.semantic.scoring import FEATURES, KINDS, features_of, kind_of
from openclaw_cache.semantic.validity import Check, Pair

MIN_PAIRS: Final = 60
"""From so many pairs on, a domain has limits of its own, and a kind of pair is not taken from the base."""

_SPEAKS_FOR: Final = ("cosine", "alike")
_SPEAKS_AGAINST: Final = (
    "small_words", "small_words_only", "whose", "is_brief", "heaviest", "is_swap",
    "is_reworded", "asks_other", "quantifiers", "relations",
)  # fmt: skip
_BOUND: Final = 50.0
_PULL: Final = 5.0
_SEED: Final = 20_261_130


@dataclass(frozen=True, slots=True)
class _Table:
    """Pairs as numbers."""

    rows: Floats
    labels: Labels
    kinds: list[str]
    domains: list[str]
    groups: list[int]
    passes: Labels
    """No guard refuses."""
    tells: Labels
    """Says what limits are worth, not only what weights are good."""

    def is_kind(self, kind: str) -> Labels:
        return np.array([kind == own for own in self.kinds], bool)


def calibrate(
    pairs: Sequence[LabelledPair],
    cosines: Sequence[float],
    *,
    embedder: str,
    fingerprint: str,
    base: Calibration | None = None,
    trap_share: float | None = None,
    checks: Sequence[Check] = guards.ALL,
    teaching: Sequence[tuple[LabelledPair, float]] = (),
) -> Calibration:
    """Fit weights and scales.

    Args:
        pairs: At least one of one answer and one trap that no guard refuses.
        cosines: Of each pair's vectors.
        embedder: Its name, for people.
        fingerprint: `Embedder.fingerprint`.
        base: What is taken for granted where the pairs are few, whatever its embedder.
        trap_share: Of the candidates, how many are traps; None = as among the pairs, or with few of them as the base.
        checks: The guards that will stand before the score.
        teaching: More pairs and their cosines, whose labels are good enough to learn weights from, not to count on.

    Raises:
        ConfigError: the pairs tell nothing: none of one answer, or no trap.
    """
    labels = [pair.same_answer for pair in pairs]
    if not any(labels) or all(labels):
        raise ConfigError(
            "pairs of one answer are needed, and pairs of different answers: these are all of one sort"
        )
    table = _table(
        [*pairs, *(pair for pair, _ in teaching)],
        [*cosines, *(cosine for _, cosine in teaching)],
        checks,
        len(pairs),
    )
    share = trap_share if trap_share is not None else float(1 - np.mean(labels))
    if trap_share is None and base is not None and len(labels) < MIN_PAIRS:
        share = base.trap_share  # so few say nothing of the mix, and the limits rest on the base's pairs
    weights = _fitted(table, table.passes, base)
    log_odds = _held_out(table, base)
    scales = {kind: knots_of(_outcomes(table, log_odds, table.is_kind(kind)), share) for kind in KINDS}
    found = Calibration(
        embedder=embedder,
        fingerprint=fingerprint,
        features=FEATURES,
        weights={kind: tuple(round(float(number), 5) for number in own) for kind, own in weights.items()},
        cosines=_cosines(table),
        scales=scales,
        outcomes=_by_domain(table, log_odds, scales),
        trap_share=round(share, 4),
    )
    return found if base is None or base.fingerprint != fingerprint else _completed(found, table, base)


def _completed(found: Calibration, table: _Table, base: Calibration) -> Calibration:
    """With the kinds of `base`, of the same embedder, that there are too few pairs of."""
    kept = [kind for kind in KINDS if (table.is_kind(kind) & table.tells).sum() < MIN_PAIRS]
    default = base.outcomes[DEFAULT_DOMAIN]
    outcomes = found.outcomes[DEFAULT_DOMAIN] | {kind: default[kind] for kind in kept if kind in default}
    return msgspec.structs.replace(
        found,
        weights=found.weights | {kind: base.weights[kind] for kind in kept},
        cosines=found.cosines | {kind: base.cosines[kind] for kind in kept},
        scales=found.scales | {kind: base.scales[kind] for kind in kept},
        outcomes=found.outcomes | {DEFAULT_DOMAIN: outcomes},
    )


def _table(
    pairs: Sequence[LabelledPair], cosines: Sequence[float], checks: Sequence[Check], num_telling: int
) -> _Table:
    readings: dict[str, Reading] = {}

    def reading(text: str) -> Reading:
        if text not in readings:
            readings[text] = read(text)
        return readings[text]

    judged = [
        Pair(reading(pair.a), reading(pair.b), float(cosine), pair.domain, 0.0)
        for pair, cosine in zip(pairs, cosines, strict=True)
    ]
    return _Table(
        rows=np.array([features_of(pair) for pair in judged], np.float64).reshape(len(pairs), len(FEATURES)),
        labels=np.array([pair.same_answer for pair in pairs], bool),
        kinds=[kind_of(pair) for pair in judged],
        domains=[pair.domain for pair in pairs],
        groups=groups_by_text([(pair.a, pair.b) for pair in pairs]),
        passes=np.array([all(check.verdict(pair).passes for check in checks) for pair in judged], bool),
        tells=np.arange(len(pairs)) < num_telling,
    )


def _fitted(table: _Table, used: Labels, base: Calibration | None) -> dict[str, Floats]:
    """Weights by kind from some of the pairs: intercept first, then as `FEATURES`."""
    rows, labels = table.rows[used], table.labels[used]
    lowest, highest = _bounds()
    counts = _weights(table, used)
    mean, spread = rows.mean(0), rows.std(0) + 1e-3
    scaled = np.column_stack([np.ones(len(rows)), (rows - mean) / spread])
    start = {kind: _start(kind, base, table, mean, spread) for kind in KINDS}
    bounds = {"lowest": lowest, "highest": highest}
    common = fit(scaled, labels, counts, start=start[KINDS[0]], pull=_PULL, **bounds)
    found = {}
    for kind in KINDS:
        own = table.is_kind(kind)[used]
        first = common if base is None else start[kind]
        weights = fit(scaled[own], labels[own], counts[own], start=first, pull=_PULL, **bounds)
        found[kind] = np.concatenate([[weights[0] - (weights[1:] / spread) @ mean], weights[1:] / spread])
    return found


def _start(kind: str, base: Calibration | None, table: _Table, mean: Floats, spread: Floats) -> Floats:
    """The weights of another calibration, for scaled features; its cosine in the measure of this embedder's."""
    if base is None:
        return np.zeros(len(FEATURES) + 1)
    known = dict(zip(base.features, base.weights[kind][1:], strict=True))
    weights = np.array([known.get(name, 0.0) for name in FEATURES])
    intercept = base.weights[kind][0]
    theirs, ours = base.cosines[kind], _cosines(table)[kind]
    own_cosine = weights[0] * theirs[1] / ours[1]
    intercept += weights[0] * theirs[0] - own_cosine * ours[0]
    weights[0] = own_cosine
    return np.concatenate([[intercept + weights @ mean], weights * spread])


def _bounds() -> tuple[Floats, Floats]:
    lowest, highest = np.full(len(FEATURES) + 1, -_BOUND), np.full(len(FEATURES) + 1, _BOUND)
    for place, name in enumerate(FEATURES, start=1):
        if name in _SPEAKS_FOR:
            lowest[place] = 0.0
        if name in _SPEAKS_AGAINST:
            highest[place] = 0.0
    return lowest, highest


def _weights(table: _Table, used: Labels) -> Floats:
    """How much each pair counts: within a kind both labels as much as each other, and those that teach as the rest."""
    counts = np.zeros(len(table.labels))
    for kind in KINDS:
        own = table.is_kind(kind) & used
        size = (own & table.tells).sum()
        for part in (table.tells, ~table.tells):
            for label in (False, True):
                same = own & part & (table.labels == label)
                if same.any():
                    counts[same] = size / 2 / same.sum()
    return counts[used]


def _held_out(table: _Table, base: Calibration | None) -> Floats:
    """The log odds of each pair by weights that it had no part in."""
    fold = folds(table.groups, _SEED)
    scores = np.zeros(len(table.labels))
    for number in range(NUM_FOLDS):
        weights = _fitted(table, table.passes & (fold != number), base)
        for kind in KINDS:
            out = table.is_kind(kind) & (fold == number) & table.tells
            scores[out] = weights[kind][0] + table.rows[out] @ weights[kind][1:]
    return scores


def _by_domain(table: _Table, log_odds: Floats, scales: dict[str, Knots]) -> dict[str, dict[str, Outcomes]]:
    scores = np.array(
        [
            round(on_scale(float(odds), scales[kind]), 6)
            for odds, kind in zip(log_odds, table.kinds, strict=True)
        ]
    )
    found = {}
    for domain in dict.fromkeys([DEFAULT_DOMAIN, *table.domains]):
        own = np.array([domain in (DEFAULT_DOMAIN, name) for name in table.domains], bool) & table.tells
        if domain == DEFAULT_DOMAIN or own.sum() >= MIN_PAIRS:
            by_kind = {kind: own & table.is_kind(kind) for kind in KINDS}
            found[domain] = {
                kind: _outcomes(table, scores, pairs) for kind, pairs in by_kind.items() if pairs.any()
            }
    return found


def _outcomes(table: _Table, scores: Floats, own: Labels) -> Outcomes:
    right, wrong = own & table.tells & table.labels, own & table.tells & ~table.labels
    return Outcomes(
        right=tuple(sorted(scores[right & table.passes].tolist())),
        wrong=tuple(sorted(scores[wrong & table.passes].tolist())),
        num_right=int(right.sum()),
        num_wrong=int(wrong.sum()),
    )


def _cosines(table: _Table) -> dict[str, tuple[float, float]]:
    found = {}
    for kind in KINDS:
        own = table.rows[table.is_kind(kind) & table.tells, 0]
        cosines = own if len(own) >= MIN_PAIRS else table.rows[:, 0]
        found[kind] = (round(float(cosines.mean()), 5), round(float(cosines.std()) + 1e-3, 5))
    return found
