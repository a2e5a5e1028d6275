"""Blocks of any notes."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw_cache.memory.retrieval.block import HEAD, TAIL, Noted, harmless, render, without

TEXTS = st.text(max_size=200) | st.lists(
    st.sampled_from(
        [
            "<",
            ">",
            "</",
            "recalled_notes",
            "<<<",
            "!--",
            "|",
            " ",
            "\n",
            "openclaw:",
            "attempt:",
            "_",
            "\u200b",
        ]
    ),
    max_size=12,
).map("".join)
NOTES = st.lists(
    st.builds(Noted, st.just("memory"), st.text(min_size=1, max_size=8), TEXTS, st.floats(0, 4e9)),
    max_size=12,
    unique_by=lambda note: note.owner,
)


@given(NOTES, st.integers(0, 12), st.integers(0, 400))
@settings(deadline=None)
def test_a_block_is_bounded_and_its_fence_is_closed_once(notes: list[Noted], items: int, tokens: int) -> None:
    block = render(notes, items, tokens)

    assert len(block.items) <= items
    assert block.num_tokens <= tokens or not block.items
    if block.items:
        inside = block.text.removeprefix(HEAD).removesuffix(TAIL)
        assert len(inside.splitlines()) == len(block.items)
        assert "</" not in inside
        assert "<<" not in inside
        assert "<!" not in inside
        assert TAIL not in inside


@given(NOTES, st.data())
@settings(deadline=None)
def test_taking_notes_out_is_as_if_they_had_never_been(notes: list[Noted], data: st.DataObject) -> None:
    gone = data.draw(st.sets(st.sampled_from([note.owner for note in notes]))) if notes else set()
    whole = render(notes, 100, 100_000)

    assert without(whole.items, gone) == render(
        [note for note in notes if note.owner not in gone], 100, 100_000
    )


@given(TEXTS)
@settings(deadline=None)
def test_what_is_harmless_stays_as_it_is(text: str) -> None:
    assert harmless(harmless(text)) == harmless(text)
