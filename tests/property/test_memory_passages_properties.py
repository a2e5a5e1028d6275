"""Splitting any text."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw_cache.memory.passages import split


@given(st.text(max_size=3000) | st.text(alphabet="ab .。\n！?x\"”'1", max_size=4000))
@settings(deadline=None)
def test_nothing_is_lost_and_no_run_is_empty(text: str) -> None:
    runs = list(split(text))

    assert "".join(runs) == text
    assert all(runs)
