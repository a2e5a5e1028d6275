"""Whatever is said, a memory is a piece of it, and nothing that the user did not say becomes one."""

from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw_cache.memory.capture.candidates import MOST, MOST_CHARS, candidates
from openclaw_cache.memory.capture.own_words import QUOTED, own_words
from openclaw_cache.memory.capture.reading import slot_of
from openclaw_cache.memory.record import Message

SAID = (
    "My name is Ada|我住在上海|remember that |记住：|We decided to use Rust|I like tea"
    "|the deadline is Friday|always write tests"
)
MARKS = (
    '. |。|\n|\n\n|```\n|> |"|“|”|<x>|</x>|<<<BEGIN_A_CONTEXT>>>|<<<END_A_CONTEXT>>>|[Sun 2026-11-29 17:32 UTC] '
    "| and |, |?|\t|- |'"
)
PIECES = st.lists(
    st.sampled_from([*SAID.split("|"), *MARKS.split("|")]) | st.text(max_size=10), max_size=20
).map("".join)


@settings(max_examples=200, deadline=None)
@given(PIECES)
def test_a_memory_stands_in_the_message_word_for_word(text: str) -> None:
    found = candidates([Message("m", "user", text, 1.0)], 2.0)
    assert len(found) <= MOST
    for candidate in found:
        assert candidate.text in text
        assert candidate.text == candidate.text.strip()
        assert 4 <= len(candidate.text) <= MOST_CHARS


@settings(max_examples=150, deadline=None)
@given(PIECES)
def test_own_words_are_the_text_with_some_of_it_blanked(text: str) -> None:
    words = own_words(text)
    assert len(words) == len(text)
    assert all(own in ("\n", QUOTED, there) for own, there in zip(words, text, strict=True))


@settings(max_examples=100, deadline=None)
@given(PIECES)
def test_nothing_in_a_fence_becomes_a_memory(text: str) -> None:
    fenced = "~~~~~~\n" + text.replace("~", "") + "\n~~~~~~\n"
    assert candidates([Message("m", "user", fenced, 1.0)], 2.0) == []


@settings(max_examples=200, deadline=None)
@given(PIECES)
def test_any_text_has_a_slot_or_none(text: str) -> None:
    slot = slot_of(text)
    assert slot is None or (slot and "{" not in slot)
