"""Dates and times of now. They have a meaning, so they are moved."""

from __future__ import annotations

import re
from typing import Final

from openclaw_cache.canonical.rule import Example, Line
from openclaw_cache.canonical.rules.when import WHEN

_WHY: Final = (
    "A clock in the system prompt ends the prefix there with every second, minute or day, and all messages behind it "
    "are computed again."
)
_KIND: Final = r"(?:date|time|day|datetime|timestamp|date (?:and|&) time|date/time|time and date)"

DATES: Final = (
    Line(
        id="date-line",
        level="full",
        what="A line that says when it is, or when the session or the prompt began, and nothing else: `Current date: "
        "…`, `Current date and time: …`, `Today's date is …`, `Today is …`, `Conversation started: …`, `当前时间：…`.",
        why=_WHY,
        source=(
            "https://github.com/earendil-works/pi/issues/1873",
            "https://github.com/earendil-works/pi/issues/2013",
            "https://github.com/NousResearch/hermes-agent/pull/20451",
            "https://github.com/miurla/morphic/pull/932",
            "https://github.com/joshuadavidthomas/opencode-agent-memory/issues/8",
            "https://github.com/code-yeongyu/oh-my-openagent/issues/6881",
        ),
        begins=(
            "current",
            "the current",
            "local time",
            "today",
            "conversation started",
            "session started",
            "system prompt last recompiled",
            "当前",
            "今天",
            "现在",
        ),
        pattern=re.compile(
            r"[ \t]*(?:[-*•] )?(?:\*\*)?(?P<label>"
            rf"(?i:(?:the )?current (?:local |system |utc )?{_KIND}|local time|today(?:'s date)?"
            r"|(?:conversation|session) started(?: at)?|system prompt last recompiled)"
            r"|当前(?:系统)?(?:日期|时间|日期和时间|日期时间)|今天(?:的日期)?|现在(?:的时间)?)"
            r"(?:\*\*)?(?: ?\([A-Za-z/_ +:0-9-]{1,40}\))?[ \t]*(?::|：|=|is:?|是)?(?:\*\*)?[ \t]*"
            rf"(?:`|\*\*)?{WHEN}(?:`|\*\*)?[.。]?[ \t\r]*"
        ),
        example=Example(
            before="You are an expert coding assistant.\n"
            "Current date and time: Monday, March 9, 2026 at 06:00:31 PM PDT\n"
            "Current working directory: /home/user/app",
            after="You are an expert coding assistant.\nCurrent working directory: /home/user/app",
            moved="Current date and time: Monday, March 9, 2026 at 06:00:31 PM PDT",
        ),
    ),
    Line(
        id="date-heading",
        level="full",
        what="A heading such as `## Current Date & Time` with the line below it, where that is a date or time alone.",
        why=_WHY,
        source=(
            "https://github.com/openclaw/openclaw/issues/7650",
            "https://github.com/openclaw/openclaw/pull/29042",
            "https://github.com/gptme/gptme/issues/137",
        ),
        begins=("current", "today", "date", "当前"),
        pattern=re.compile(
            rf"#{{1,6}} (?P<label>(?i:current {_KIND}|today(?:'s date)?|date(?: (?:and|&) time)?)|当前(?:日期|时间))"
            r"[ \t\r]*\n"
            rf"(?:[-*] )?(?:\*\*)?(?:UTC:?)?(?:\*\*)?[ \t]*{WHEN}[.。]?[ \t\r]*"
        ),
        num_lines=2,
        example=Example(
            before="You are a personal assistant.\n## Current Date & Time\n"
            "Sunday, February 2, 2026, 6:47 PM (America/Los_Angeles)\n## Workspace\n/home/user",
            after="You are a personal assistant.\n## Workspace\n/home/user",
            moved="## Current Date & Time\nSunday, February 2, 2026, 6:47 PM (America/Los_Angeles)",
        ),
    ),
    Line(
        id="date-tag",
        level="full",
        what="A line that is a tag such as `<current_date>` around a date or time.",
        why=_WHY,
        source=("https://github.com/Systemorph/MeshWeaver/pull/2108",),
        begins=("current", "today", "date", "time"),
        pattern=re.compile(
            r"[ \t]*<(?P<label>current_?(?i:date|time|datetime|date_time)|today|todays_date"
            r"|date|time|datetime|timestamp)>"
            rf"[ \t]*{WHEN}[ \t]*</(?P=label)>[ \t\r]*"
        ),
        example=Example(
            before="<current_date>2026-11-29</current_date>\nYou are a helpful assistant.",
            after="You are a helpful assistant.",
            moved="<current_date>2026-11-29</current_date>",
        ),
    ),
)
