"""A person's words are told from the host's own prompts."""

from __future__ import annotations

import pytest

from openclaw_cache.memory.context.prompts import is_internal, is_machine_session, is_wake, query_of
from support import openclaw_turns

SUBAGENT = (
    "[Subagent Context] You are running as a subagent (depth 1/5). Complete the current [Subagent Task]; inherited "
    "conversation is background context, not your assignment.\n\n[Subagent Task]\n\nSummarize the word kiwi in one "
    "line.\n\nBegin. Execute the assigned task to completion."
)
FLUSH = "Pre-compaction memory flush. Store durable memories only in memory/2026-11-29.md (create memory/ if needed)."
ANNOUNCED = (
    "A background task completed. Use this result to reply to the user in your normal voice.\n\nsource"
)
SETTLED = "[Subagent Context] Your prior run ended while waiting for descendant subagent completions."


@pytest.mark.parametrize(
    ("prompt", "query"),
    [
        ("When is the deadline?", "When is the deadline?"),
        ("[Sun 2026-11-29 17:32 UTC] When is the deadline?", "When is the deadline?"),
        ("[Sun 2026-11-29 17:32 UTC] 截止日期是哪天？", "截止日期是哪天？"),
        ("[WIP] fix the deadline", "[WIP] fix the deadline"),
        (SUBAGENT, "Summarize the word kiwi in one line."),
        ("[cron:1f Daily report] Write the report", "[cron:1f Daily report] Write the report"),
    ],
)
def test_it_is_recalled_for_what_is_asked(prompt: str, query: str) -> None:
    assert query_of(prompt) == query


@pytest.mark.parametrize(
    "prompt",
    [
        "",
        "  \n",
        "[OpenClaw heartbeat poll]",
        "[Sun 2026-11-29 17:51 UTC] [OpenClaw heartbeat poll]",
        "[OpenClaw exec completion]\nDisable automatic completion turns",
        FLUSH,
        ANNOUNCED,
        SETTLED,
        "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>\nConversation data",
    ],
)
def test_nothing_is_recalled_for_a_prompt_of_the_hosts_own(prompt: str) -> None:
    assert query_of(prompt) is None


def test_of_recorded_prompts_those_of_heartbeats_and_announcements_ask_for_nothing() -> None:
    prompts = [c["prompt"] for c in openclaw_turns.calls() if c["call"] == "assemble"]
    silent = [p for p in prompts if query_of(p) is None]
    assert {p[:24] for p in silent} == {"Follow the heartbeat mon", "[Inter-session message] "}
    assert len(prompts) - len(silent) > 20


def test_wakes_are_known_before_and_after_the_host_rewrote_them() -> None:
    polls = [c["prompt"] for c in openclaw_turns.calls("main") if c["call"] == "assemble"]
    assert any(is_wake(p) for p in polls)
    assert is_wake("[Sun 2026-11-29 17:51 UTC] [OpenClaw heartbeat poll]")
    assert not is_wake(ANNOUNCED)
    assert not is_wake("What does [OpenClaw heartbeat poll] mean?")


def test_a_sub_agents_task_is_nobodys_word() -> None:
    assert is_internal(SUBAGENT)
    assert is_internal(ANNOUNCED)
    assert not is_internal("I prefer tea")


@pytest.mark.parametrize(
    ("key", "is_machine"),
    [
        ("agent:main:subagent:0d66d7c1", True),
        ("agent:main:cron:daily", True),
        ("agent:main:hook:mail", True),
        ("agent:main:main", False),
        ("agent:main:telegram:dm:42", False),
        ("agent:subagents:main", False),
        (None, False),
    ],
)
def test_sessions_without_a_person_are_known_by_their_key(key: str | None, *, is_machine: bool) -> None:
    assert is_machine_session(key) is is_machine
