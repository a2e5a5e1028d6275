"""What has to be taken out of turns when memories are forgotten."""

import pytest

from openclaw_cache.memory.forgetting import texts_to_redact
from openclaw_cache.memory.record import Memory


def version(text: str, number: int = 1) -> Memory:
    return Memory("mem_1", text, "fact", (), "api", 1.0, 1.0, 1.0, version=number)


def test_the_texts_of_all_versions_go_longest_first() -> None:
    versions = [version("I live in Rome", 1), version("I live in Rome, near the river", 2)]
    assert texts_to_redact(versions) == ["I live in Rome, near the river", "I live in Rome"]


def test_a_text_that_two_memories_share_goes_once() -> None:
    assert texts_to_redact([version("I live in Rome"), version(" I live in Rome\n", 2)]) == ["I live in Rome"]


@pytest.mark.parametrize("text", ["", "  ", "tea", "我吃素", "blue", "Berlin", "coffee"])
def test_words_that_everybody_uses_stay(text: str) -> None:
    assert texts_to_redact([version(text)]) == []


@pytest.mark.parametrize("text", ["a b c", "4471", "x@y.z", "Nordhausen", "我住在沪", "住在上海市", "Tee!"])
def test_whatever_tells_something_goes(text: str) -> None:
    assert texts_to_redact([version(text)]) == [text]
