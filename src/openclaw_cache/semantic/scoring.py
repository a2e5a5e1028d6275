"""How sure it is that one answer serves two questions: the cosine and what the rules see, in one number. Pure."""

from __future__ import annotations

from functools import lru_cache
from operator import attrgetter
from typing import Final

import numpy as np

from openclaw_cache.semantic.calibration import Calibration, on_scale
from openclaw_cache.semantic.guards.features import features
from openclaw_cache.semantic.reading import Reading
from openclaw_cache.semantic.validity import Pair
from openclaw_cache.semantic.words import function_words
from openclaw_cache.semantic.words.listed import listed

SMALL: Final = ("small_words", "small_words_only", "whose", "is_brief")
SEEN: Final = (
    "same", "alike", "heaviest", "is_swap", "is_reworded", "typos", "asks_other", "quantifiers", "relations",
    "reordered", "frame", "length",
)  # fmt: skip
"""Those of the rules' features that are weighed: the same whichever of two questions came first."""
FEATURES: Final = ("cosine", *SMALL, *SEEN)
"""What a score is made of, in order."""
KINDS: Final = ("english", "chinese", "both")
"""Kinds of pair, each with weights and a scale of its own: no Chinese in it, both in Chinese, one of each."""

_seen: Final = attrgetter(*SEEN)
_SAYS_NOTHING: Final = function_words.OPENERS | frozenset(
    listed("a an the do does did can could is are be of in on it i you 的 了 吗 呢 啊 呀 请问 你好 谢谢 在")
)
_MINE: Final = frozenset(listed("my mine i me 我 我的"))
_YOURS: Final = frozenset(listed("your yours you 你 你的 您"))


class Scorer:
    """Scores pairs on the calibrated scale (`calibration`): 0 to 1, never falling as the cosine rises.

    Knows no guards: a pair that one refuses is scored all the same.

    Raises:
        ValueError: the calibration was made for other features.
    """

    def __init__(self, calibration: Calibration) -> None:
        if calibration.features != FEATURES:
            raise ValueError("the calibration was made by another release: make it anew")
        self._weights = {
            kind: (weights[0], np.asarray(weights[1:])) for kind, weights in calibration.weights.items()
        }
        self._scales = calibration.scales

    def score(self, pair: Pair) -> float:
        """How sure it is. Some 40 µs beside the guards."""
        kind = kind_of(pair)
        intercept, weights = self._weights[kind]
        log_odds = intercept + float(weights @ np.asarray(features_of(pair)))
        return on_scale(log_odds, self._scales[kind])


def kind_of(pair: Pair) -> str:
    """Which of `KINDS` a pair is of."""
    if pair.asked.has_han != pair.stored.has_han:
        return "both"
    return "chinese" if pair.asked.has_han else "english"


def features_of(pair: Pair) -> tuple[float, ...]:
    """The numbers that are weighed, in the order of `FEATURES`."""
    seen = features(pair)
    return (pair.cosine, *small(pair, is_reworded=seen.is_reworded), *_seen(seen))


def small(pair: Pair, *, is_reworded: float) -> tuple[float, ...]:
    """What the words without matter say, in the order of `SMALL`.

    `small_words` is the share of them that only one question has, `small_words_only` the same where no other words
    differ, `whose` whether one speaks of mine and the other of yours, `is_brief` how little either says.
    """
    asked, stored = pair.asked, pair.stored
    ours, theirs = _small_words(asked), _small_words(stored)
    either = (ours | theirs) - _SAYS_NOTHING
    share = len((ours ^ theirs) - _SAYS_NOTHING) / len(either) if either else 0.0
    mine, yours = (not ours.isdisjoint(_MINE), not theirs.isdisjoint(_MINE))
    of_you, of_yours = (not ours.isdisjoint(_YOURS), not theirs.isdisjoint(_YOURS))
    whose = (mine, of_you) != (yours, of_yours) and mine != of_you and yours != of_yours
    return (share, share * (1 - is_reworded), float(whose), 1 / (1 + min(asked.weight, stored.weight)))


@lru_cache(maxsize=1024)
def _small_words(reading: Reading) -> frozenset[str]:
    return frozenset(reading.order) - reading.keys
