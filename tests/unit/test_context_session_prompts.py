"""The last prompts of sessions are kept within a bound on their bytes."""

from __future__ import annotations

from openclaw_cache.gateway.session_prompts import SessionPrompt, SessionPrompts
from openclaw_cache.types import Namespace

ONE, TWO = Namespace("one"), Namespace("two")


def prompt(size: int) -> SessionPrompt:
    return SessionPrompt("local", "salt", b"x" * size)


def test_the_sessions_that_asked_last_are_kept() -> None:
    prompts = SessionPrompts(max_bytes=100)
    for session in ("a", "b", "a", "c"):
        prompts.note(ONE, session, prompt(40))
    assert prompts.num_bytes == 80
    assert [prompts.find(ONE, s) is not None for s in "abc"] == [True, False, True]


def test_a_new_prompt_takes_the_place_of_the_old_one() -> None:
    prompts = SessionPrompts(max_bytes=100)
    prompts.note(ONE, "a", prompt(90))
    prompts.note(ONE, "a", prompt(20))
    assert (prompts.find(ONE, "a"), prompts.num_bytes) == (prompt(20), 20)


def test_one_that_is_too_large_is_not_kept_and_its_predecessor_neither() -> None:
    prompts = SessionPrompts(max_bytes=100)
    prompts.note(ONE, "b", prompt(50))
    prompts.note(ONE, "a", prompt(50))
    prompts.note(ONE, "a", prompt(101))
    assert (prompts.find(ONE, "a"), prompts.num_bytes) == (None, 50)
    assert prompts.find(ONE, "b") == prompt(50)


def test_sessions_of_two_namespaces_are_two() -> None:
    prompts = SessionPrompts()
    prompts.note(ONE, "a", prompt(1))
    assert prompts.find(TWO, "a") is None
    prompts.forget(TWO, "a")
    prompts.forget(ONE, "a")
    assert prompts.num_bytes == 0
