"""What no sequence of outcomes may do to a domain's limit."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from openclaw_cache.semantic.beta import at_most, quantile
from openclaw_cache.semantic.evidence import MOST_OUTCOMES, Evidence, EvidenceBook, Prior

scores = st.floats(0.5, 1.0)
outcomes = st.lists(st.tuples(scores, st.booleans(), st.booleans()), max_size=80)
counts = st.floats(0.01, 2000)


@given(st.floats(0.001, 0.999), counts, counts)
def test_the_two_sides_of_a_ratio_add_up_to_one(x: float, a: float, b: float) -> None:
    assert math.isclose(at_most(x, a, b) + at_most(1 - x, b, a), 1, abs_tol=1e-9)


@given(st.floats(0.01, 0.98), st.floats(0.001, 0.02), counts, counts)
def test_the_distribution_never_falls(x: float, more: float, a: float, b: float) -> None:
    assert at_most(x, a, b) <= at_most(x + more, a, b) + 1e-12


@given(st.floats(0.01, 0.99), st.floats(0.3, 500), st.floats(0.3, 500))
def test_a_quantile_has_its_probability_below_it(p: float, a: float, b: float) -> None:
    assert math.isclose(at_most(quantile(p, a, b), a, b), p, abs_tol=1e-9)


@given(
    outcomes, st.floats(0.5, 0.99), st.sampled_from([0.01, 0.03, 0.2]), st.integers(0, 5), st.integers(0, 500)
)
def test_a_review_only_raises_and_leaves_a_limit_that_holds(
    seen: list[tuple[float, bool, bool]], base: float, promised: float, wrong: int, right: int
) -> None:
    evidence, prior, before = Evidence(), Prior.of(wrong, right), base
    for score, is_good, is_verified in seen:
        evidence.hit(score)
        (evidence.verified if is_verified else evidence.told)(score, is_good=is_good)
        limit = evidence.review(base, promised, prior)
        if limit is None:
            assert evidence.off_because
            assert evidence.review(base, promised, prior) is None
            return
        assert before <= limit < 1
        assert evidence.holds(promised, limit, prior)
        before = limit


@given(outcomes, scores, st.booleans())
def test_a_good_outcome_makes_a_promise_no_less_likely_kept(
    seen: list[tuple[float, bool, bool]], score: float, is_verified: bool
) -> None:
    evidence, prior = Evidence(), Prior.of(1, 200)
    for at, is_good, _ in seen:
        evidence.hit(at)
        evidence.verified(at, is_good=is_good)
    evidence.hit(score)
    before = evidence.p_exceeds(0.01, 0.9, prior)
    (evidence.verified if is_verified else evidence.told)(score, is_good=True)
    assert evidence.p_exceeds(0.01, 0.9, prior) <= before + 1e-9


@given(outcomes)
def test_all_of_it_outlasts_a_restart(seen: list[tuple[float, bool, bool]]) -> None:
    book = EvidenceBook("c")
    for score, is_good, is_verified in seen:
        evidence = book.of("a" if is_verified else "b")
        evidence.hit(score)
        evidence.verified(score, is_good=is_good)
        evidence.review(0.9, 0.01, Prior.of(0, 100))
    assert EvidenceBook.unpacked(book.packed(), "c") == book


@given(st.integers(1, 3 * MOST_OUTCOMES), scores, st.integers(1, 50))
def test_the_outcomes_kept_are_bounded(num: int, score: float, one_bad_in: int) -> None:
    evidence = Evidence()
    for place in range(num):
        evidence.verified(score, is_good=place % one_bad_in > 0)
    assert min(num, MOST_OUTCOMES / 2) <= sum(evidence.good) + sum(evidence.bad) <= MOST_OUTCOMES
