"""OpenClaw marks what may change from turn to turn."""

from __future__ import annotations

from typing import Final

from openclaw_cache.canonical.rule import Example, Section

STABLE_BEGIN: Final = "<!-- openclaw:attempt:STABLE -->"
STABLE_END: Final = "<!-- /openclaw:attempt:STABLE -->"
"""Around workspace files and skills: what stands between them is never touched."""

_BEGIN: Final = "<!-- openclaw:attempt:DYNAMIC -->"
_END: Final = "<!-- /openclaw:attempt:DYNAMIC -->"

OPENCLAW: Final = (
    Section(
        id="openclaw-dynamic",
        level="full",
        what="The section of OpenClaw's system prompt between its DYNAMIC markers: date, time zone, channel, message "
        "context, model identity and, in Responses and Anthropic's API, the `Runtime:` line with the session's id.",
        why="It stands before the history: a new date, another channel or another permission makes the whole history "
        "behind it new.",
        source=(
            "https://github.com/openclaw/openclaw/issues/19989",
            "https://github.com/openclaw/openclaw/issues/54256",
            "https://github.com/openclaw/openclaw/issues/150081",
        ),
        begin=_BEGIN,
        end=_END,
        alien=(STABLE_BEGIN, STABLE_END),
        example=Example(
            before=f"{STABLE_BEGIN}\nYou are a personal assistant.\n{STABLE_END}\n"
            f"{_BEGIN}\nCurrent date: 2026-11-29\nTime zone: UTC\n{_END}",
            after=f"{STABLE_BEGIN}\nYou are a personal assistant.\n{STABLE_END}",
            moved=f"{_BEGIN}\nCurrent date: 2026-11-29\nTime zone: UTC\n{_END}",
        ),
    ),
)
