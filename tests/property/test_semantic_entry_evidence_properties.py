"""What an outcome may do to an entry, and what not."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from openclaw_cache.semantic.entry_evidence import MOST_OUTCOMES, Curve, EntryEvidence

curves = st.builds(Curve, st.floats(0.3, 0.9), st.floats(2, 80))
scores = st.floats(0, 1)
outcomes = st.lists(st.tuples(scores, st.booleans()), max_size=MOST_OUTCOMES - 1)


@given(curves, outcomes, scores)
def test_a_good_outcome_never_makes_it_stricter_and_a_bad_one_never_more_lenient(
    curve: Curve, seen: list[tuple[float, bool]], score: float
) -> None:
    before = EntryEvidence(curve, seen).stricter_by
    good, bad = EntryEvidence(curve, seen), EntryEvidence(curve, seen)
    good.add(score, is_right=True)
    bad.add(score, is_right=False)
    assert 0 <= good.stricter_by <= before + 1e-9
    assert bad.stricter_by >= before - 1e-9


@given(curves, outcomes)
def test_the_order_of_outcomes_does_not_matter(curve: Curve, seen: list[tuple[float, bool]]) -> None:
    one, other = EntryEvidence(curve, seen), EntryEvidence(curve, seen[::-1])
    assert abs(one.stricter_by - other.stricter_by) < 1e-6


@given(curves, outcomes, scores, st.floats(0, 1), st.floats(0, 1))
def test_what_may_be_given_at_a_score_may_be_given_at_a_higher_one(
    curve: Curve, seen: list[tuple[float, bool]], score: float, more: float, limit: float
) -> None:
    entry = EntryEvidence(curve, seen)
    if score >= limit and not entry.must_explore(score, limit):
        assert not entry.must_explore(score + more, limit)
