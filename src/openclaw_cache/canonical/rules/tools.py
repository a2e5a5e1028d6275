"""The order in which tools are told. It has no meaning, and tools stand at the very beginning of a prompt."""

from __future__ import annotations

from typing import Final

from openclaw_cache.canonical.rule import Example, ToolOrder
from openclaw_cache.canonical.rules.openclaw import STABLE_BEGIN

# Which turns of OpenClaw 2026.9.6 have which tools: each kind has all of the kind before it, and more. Before the
# owner's come those that are told in other words where the owner's are missing.
_MEMORY_FLUSH: Final = ("read", "write")
_SUB_AGENT: Final = (
    "agents_wait", "apply_patch", "browser", "canvas", "create_goal", "dashboard", "dir_fetch", "dir_list", "edit",
    "file_fetch", "file_write", "get_goal", "github_identity_status", "ls", "memory_get", "memory_search",
    "node_inference", "sessions_history", "sessions_list", "sessions_search", "sessions_yield", "skill_workshop",
    "subagents", "talk_voice", "theme", "tool_call", "tool_describe", "tool_search", "tts", "update_goal", "web_fetch",
    "web_search",
)  # fmt: skip
_TOLD_OTHERWISE: Final = ("exec", "process", "sessions_send")
_OWNER_ONLY: Final = (
    "automations", "conversations_list", "conversations_send", "conversations_turn", "gateway", "intent", "mobile_ui",
    "nodes", "openclaw", "plugins", "portal", "sessions", "terminal", "transcripts",
)  # fmt: skip

TOOLS: Final = (
    ToolOrder(
        id="openclaw-tools",
        level="full",
        what="OpenClaw's tools: those that all kinds of turns have come first, those of the owner's own turns last.",
        why="Heartbeats, events and sub-agents have fewer tools than a user's turn. OpenClaw sends them by name, so "
        "the first one that is missing ends the prefix: after 2.5 % of the prompt between user turn and heartbeat.",
        source=(
            "https://github.com/openclaw/openclaw/issues/70417",
            "https://github.com/openclaw/openclaw/issues/107076",
        ),
        prompt_begins=STABLE_BEGIN,
        ranks={
            **dict.fromkeys(_MEMORY_FLUSH, 0),
            **dict.fromkeys(_SUB_AGENT, 1),
            **dict.fromkeys(_TOLD_OTHERWISE, 3),
            **dict.fromkeys(_OWNER_ONLY, 4),
        },
        rank_of_others=2,
        example=Example(
            before=("edit", "exec", "message", "openclaw", "read", "write"),
            after=("read", "write", "edit", "message", "exec", "openclaw"),
            system=f"{STABLE_BEGIN}\nYou are a personal assistant.",
        ),
    ),
    ToolOrder(
        id="tools-by-name",
        level="full",
        what="Tools, by name.",
        why="Servers of tools (MCP) give them in no certain order, so it may change with every start of one, and "
        "nothing behind the first tool that moved is found again.",
        source=(
            "https://github.com/openclaw/openclaw/pull/58037",
            "https://github.com/anomalyco/opencode/pull/24339",
            "https://github.com/langchain-ai/deepagents/pull/2497",
            "https://github.com/librefang/librefang/issues/3765",
        ),
        example=Example(before=("zeta", "alpha", "mu"), after=("alpha", "mu", "zeta")),
    ),
)
