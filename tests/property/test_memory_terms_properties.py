"""Terms of any text."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from openclaw_cache.memory.terms import telling_terms, terms, text_query

TEXTS = st.text(max_size=300) | st.text(alphabet="aB9é_.-'/@#+, 数据的我ーガक한\u0301", max_size=100)


@given(TEXTS)
@example("\ud800 half a pair")
@example("ﷺ" * 20)
@example("a" * 200 + "_" + "b" * 200)
@settings(deadline=None)
def test_a_term_has_no_white_space_no_quote_and_is_short(text: str) -> None:
    for term in terms(text):
        assert 0 < len(term) <= 64
        assert not any(char.isspace() or char in "\"'*:()^\0" for char in term)


@given(TEXTS)
@settings(deadline=None)
def test_every_term_of_a_question_is_one_that_a_text_can_have(text: str) -> None:
    assert set(text_query(text).terms) <= set(terms(text))


@given(TEXTS)
@settings(deadline=None)
def test_a_question_stays_bounded_and_has_no_term_twice(text: str) -> None:
    asked = text_query(text).terms

    assert len(asked) <= 64
    assert len(set(asked)) == len(asked)
    assert bool(asked) == bool(terms(text))


@given(TEXTS)
@settings(deadline=None)
def test_a_question_asks_for_what_it_tells(text: str) -> None:
    if (telling := telling_terms(text)) and len(telling) <= 64:
        assert text_query(text).terms == telling
