"""What a model is given of a text."""

from __future__ import annotations

import pytest

from openclaw_cache.embedding.text import prepared


@pytest.mark.parametrize(
    "text", ["", " ", "\t\n\r ", "\0", "\0 \0", "\u00a0\u3000", "\u200b\u200d", "\ufeff"]
)
def test_a_text_without_a_visible_character_is_nothing_to_read(text: str) -> None:
    assert prepared(text, 100) is None


@pytest.mark.parametrize("text", ["?", "1", "退款", "🙂", "שלום", "مرحبا", "é", "e\u0301"])
def test_one_visible_character_is_something_to_read(text: str) -> None:
    assert prepared(text, 100) == text


def test_nul_becomes_a_space_so_that_what_follows_it_is_read_too() -> None:
    assert prepared("open\0the account", 100) == "open the account"


def test_half_a_surrogate_pair_becomes_the_replacement_character() -> None:
    made = prepared("a\ud83d b\udc00", 100)

    assert made == "a\ufffd b\ufffd"
    made.encode()


def test_white_space_around_a_text_does_not_make_another_text() -> None:
    assert prepared("  a b \n", 100) == "a b"


def test_a_text_of_more_characters_than_allowed_is_not_read() -> None:
    assert prepared("a" * 100, 100) == "a" * 100
    assert prepared("a" * 101, 100) is None
