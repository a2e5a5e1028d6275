"""Names of sessions, conversations and requests. A model may be asked for them, so they are moved."""

from __future__ import annotations

import re
from typing import Final

from openclaw_cache.canonical.rule import Example, Line

IDS: Final = (
    Line(
        id="id-line",
        level="full",
        what="A line that names the session, conversation, thread, request, run or trace by an id, and nothing else.",
        why="Such an id is another one in each session or request: a fresh session shares nothing of what stands "
        "behind it, and where it is made anew with each request, no turn does.",
        source=(
            "https://github.com/code-yeongyu/oh-my-openagent/issues/6881",
            "https://github.com/HybridAIOne/hybridclaw/issues/1517",
        ),
        begins=(
            "session",
            "current session",
            "conversation",
            "thread",
            "request",
            "run",
            "turn",
            "trace",
            "chat",
            "correlation",
        ),
        pattern=re.compile(
            r"[ \t]*(?:[-*•] )?(?:\*\*)?(?P<label>"
            r"(?i:(?:current )?(?:session|conversation|thread|request|run|turn|trace|chat|correlation)[ _-]?id))"
            r"(?:\*\*)?:(?:\*\*)?[ \t]*`?"
            r"(?:[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"  # RFC 9562
            r"|[a-z]{2,12}[_-](?=[A-Za-z0-9_-]*\d)[A-Za-z0-9_-]{8,64}"  # req_011CQ…
            r"|[0-9A-HJKMNP-TV-Z]{26}"  # ULID
            r"|(?=[0-9a-f]*\d)[0-9a-f]{8,64})"
            r"`?[ \t\r]*",
            re.ASCII,
        ),
        example=Example(
            before="<memory_metadata>\n- AGENT_ID: coder\n- CONVERSATION_ID: 7266ba87-ad47-4eda-a9b9-3dd269776311\n"
            "</memory_metadata>\nYou write code.",
            after="<memory_metadata>\n- AGENT_ID: coder\n</memory_metadata>\nYou write code.",
            moved="- CONVERSATION_ID: 7266ba87-ad47-4eda-a9b9-3dd269776311",
        ),
    ),
)
