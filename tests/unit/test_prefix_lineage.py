"""A request goes on from the earlier prompt that it shares most with; what is remembered is bounded."""

from __future__ import annotations

from typing import Any

import pytest

from openclaw_cache.prefix.lineage import MAX_LINES, Lineages
from openclaw_cache.prefix.outline import Outline, outline
from unit.prefix_prompts import SHAPES, Prompt, Turn, long_text, sample


def _chat(prompt: Prompt) -> Outline:
    return outline(SHAPES["chat"](prompt))


def _answered(prompt: Prompt, number: int) -> Prompt:
    return prompt.and_then(Turn("assistant", f"Answer {number}."), Turn("user", f"Question {number}?"))


def _heartbeat(prompt: Prompt) -> Prompt:
    return prompt.changed(tools=[tool for tool in prompt.tools if tool.name != "openclaw"])


def test_the_first_prompt_of_all_has_no_predecessor() -> None:
    found = Lineages[int]().add("scope", "a", _chat(sample()), 1)
    assert (found.previous, found.best, found.kept_bytes, found.lost_bytes) == (None, None, 0, 0)
    assert found.prefix_break() is None


def test_two_lines_of_a_session_do_not_break_each_other() -> None:
    lineages: Lineages[str] = Lineages()
    user, beat = sample(), _heartbeat(sample())
    lineages.add("scope", "a", _chat(user), "user 1")
    first_beat = lineages.add("scope", "a", _chat(beat), "beat 1")
    broken = first_beat.prefix_break()
    assert broken is not None
    assert (broken.cause, broken.label) == ("tool_missing", 'tool "openclaw" is missing')
    second = lineages.add("scope", "a", _chat(_answered(user, 1)), "user 2")
    assert second.previous is not None
    assert second.previous.tag == "beat 1"
    assert second.previous.comparison.cause == "tool_added"
    assert second.best is not None
    assert second.best.tag == "user 1"
    assert second.prefix_break() is None
    assert second.lost_bytes == 0
    third = lineages.add("scope", "a", _chat(_answered(beat, 1)), "beat 2")
    assert third.best is not None
    assert third.best.tag == "beat 1"
    assert third.prefix_break() is None


def test_what_another_session_has_of_a_prompt_is_kept_and_not_lost() -> None:
    """A radix tree has all prompts: only what none of them begins with is computed again."""
    lineages: Lineages[str] = Lineages()
    head = "\n".join(long_text(f"chapter {n}") for n in range(8))
    shared = _heartbeat(sample()).changed(system=[f"{head}\n{sample().system[0]}"])
    lineages.add("scope", "a", _chat(shared.changed(tools=sample().tools)), "a 1")
    lineages.add("scope", "b", _chat(shared.with_system("2026-11-29", "2026-11-30")), "b 1")
    found = lineages.add("scope", "a", _chat(shared), "a 2")
    assert found.best is not None
    assert found.best.tag == "a 1"
    assert found.best.comparison.kept_bytes < 1000  # the second tool is missing
    assert found.kept_bytes > len(head)  # what "b" has goes up to the date
    broken = found.prefix_break()
    assert broken is not None
    assert broken.cause == "tool_missing"
    assert found.lost_bytes == found.best.comparison.reachable_bytes - found.kept_bytes
    assert broken.lost_tokens < found.best.comparison.lost_bytes / 5 - len(head) / 5


def test_a_change_is_told_once() -> None:
    lineages: Lineages[int] = Lineages()
    changed = sample().with_system("2026-11-29", "2026-11-30")
    lineages.add("scope", "a", _chat(sample()), 1)
    broken = lineages.add("scope", "a", _chat(_answered(changed, 1)), 2).prefix_break()
    assert broken is not None
    assert broken.cause == "date"
    assert lineages.add("scope", "a", _chat(_answered(_answered(changed, 1), 2)), 3).prefix_break() is None


def test_tokens_are_scaled_by_what_the_provider_counted() -> None:
    lineages: Lineages[int] = Lineages()
    prompt = _chat(sample().with_system("2026-11-29", "2026-11-30"))
    lineages.add("scope", "a", _chat(sample()), 1)
    found = lineages.add("scope", "a", prompt, 2)
    broken = found.prefix_break(prompt_tokens=prompt.num_bytes // 2)
    assert broken is not None
    assert broken.kept_tokens == pytest.approx(found.kept_bytes / 2, abs=2)
    assert broken.lost_tokens == pytest.approx(found.lost_bytes / 2, abs=2)
    assert broken.at_byte == found.kept_bytes


def test_another_session_is_the_predecessor_of_a_sessions_first_prompt() -> None:
    lineages: Lineages[int] = Lineages()
    lineages.add("scope", "a", _chat(sample()), 1)
    other = sample().changed(turns=[Turn("user", "Tell me a joke.")])
    found = lineages.add("scope", "b", _chat(other), 2)
    assert (found.previous, found.is_of_another_session) == (None, True)
    assert found.best is not None
    assert found.best.tag == 1
    assert found.prefix_break() is None  # another conversation


def test_a_head_that_changes_from_session_to_session_is_told() -> None:
    lineages: Lineages[int] = Lineages()
    for number in range(3):
        prompt = sample().changed(system=[f"Current time: 2026-11-29 17:0{number} UTC\n{sample().system[0]}"])
        found = lineages.add("scope", f"session {number}", _chat(prompt), number)
        broken = found.prefix_break()
        assert (broken.cause if broken else None) == ("date" if number else None)


def test_scopes_share_nothing() -> None:
    lineages: Lineages[int] = Lineages()
    lineages.add(("team a", "m"), "s", _chat(sample()), 1)
    found = lineages.add(("team b", "m"), "s", _chat(sample()), 2)
    assert (found.previous, found.best, found.kept_bytes) == (None, None, 0)


def test_sessions_that_nobody_names_differ_in_their_first_message_without_alarm() -> None:
    prompts = [
        outline({"messages": [{"role": "user", "content": f"{question}\n{long_text('rules')}"}]})
        for question in ("What is a cat?", "Who was Ada?")
    ]
    told, untold = Lineages[int](), Lineages[int]()
    for number, prompt in enumerate(prompts):
        last_told = told.add("scope", "s", prompt, number).prefix_break()
        last_untold = untold.add("scope", "", prompt, number, is_told=False).prefix_break()
    assert last_told is not None
    assert last_untold is None


def test_a_session_keeps_a_bounded_number_of_lines() -> None:
    lineages: Lineages[int] = Lineages()
    for number in range(MAX_LINES + 5):
        prompt = sample().changed(system=[f"You are number {number}.\n{sample().system[0]}"])
        lineages.add("scope", "a", _chat(prompt), number)
    tags = set()
    for number in range(MAX_LINES + 5):
        prompt = sample().changed(system=[f"You are number {number}.\n{sample().system[0]}"])
        found = lineages.add("scope", f"b{number}", _chat(_answered(prompt, 1)), -1)
        if found.best and found.best.comparison.is_continued:
            tags.add(found.best.tag)
    assert tags == set(range(5, MAX_LINES + 5))


def test_text_that_prompts_share_is_held_once() -> None:
    lineages: Lineages[int] = Lineages()
    size = _chat(sample()).num_bytes
    for session in range(50):
        prompt = sample().changed(turns=[Turn("user", f"Question {session}?")])
        lineages.add("scope", session, _chat(prompt), session)
    assert lineages.num_bytes < 12 * size


def test_memory_is_bounded_and_the_sessions_used_last_stay() -> None:
    lineages: Lineages[int] = Lineages(max_bytes=200_000)
    for session in range(200):
        body: dict[str, Any] = {"messages": [{"role": "user", "content": f"{session} " * 3000}]}
        lineages.add("scope", session, outline(body), session)
        assert lineages.num_bytes <= 200_000
    assert 1 <= len(lineages) < 30
    again = outline({"messages": [{"role": "user", "content": "199 " * 3000}]})
    assert lineages.add("scope", 199, again, 0).kept_bytes == again.num_bytes


def test_one_prompt_that_is_too_large_is_not_held() -> None:
    lineages: Lineages[int] = Lineages(max_bytes=1000)
    lineages.add("scope", "a", outline({"prompt": "x" * 5000}), 1)
    assert (lineages.num_bytes, len(lineages)) == (0, 0)


def test_the_number_of_sessions_is_bounded() -> None:
    lineages: Lineages[int] = Lineages(max_sessions=10)
    for session in range(100):
        lineages.add(session % 3, session, outline({"prompt": f"{session}"}), session)
    assert len(lineages) == 10


def test_a_prompt_without_parts_is_not_remembered() -> None:
    lineages: Lineages[int] = Lineages()
    lineages.add("scope", "a", outline({}), 1)
    assert len(lineages) == 0


def test_forgetting_a_scope_leaves_the_others() -> None:
    lineages: Lineages[int] = Lineages()
    lineages.add("one", "a", _chat(sample()), 1)
    lineages.add("two", "a", _chat(sample()), 2)
    lineages.forget("one")
    assert lineages.add("one", "a", _chat(sample()), 3).best is None
    assert lineages.add("two", "a", _chat(sample()), 4).best is not None
    lineages.forget("one")
    lineages.forget("two")
    assert (lineages.num_bytes, len(lineages)) == (0, 0)
