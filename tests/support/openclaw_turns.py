"""What OpenClaw 2026.9.6 told a context engine, recorded in the order of its calls.

Whole sessions with tool calls, a sub-agent and its announcement, heartbeats, compactions and a reset. Long texts are
cut; ids and times are as they came.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from openclaw_cache.memory.context.host import HostMessage

_FILE = Path(__file__).with_name("openclaw_turns.jsonl")


def calls(name: str | None = None) -> list[dict[str, Any]]:
    """The calls, of all sessions or of `agent:main:NAME`; `messages` as the plugin sends them."""
    found = [json.loads(line) for line in _FILE.read_text(encoding="utf-8").splitlines()]
    return [c for c in found if name is None or c["session_key"].startswith(f"agent:main:{name}")]


def messages(call: dict[str, Any]) -> list[HostMessage]:
    """The messages of a call."""
    return msgspec.convert(call["messages"], list[HostMessage])
