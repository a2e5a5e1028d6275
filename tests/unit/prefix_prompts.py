"""One agent's prompt in the form of each API, for tests of where prompts break."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

Json = Any
_FILLER = "Read the file before you change it, and say what you did in one line."

SYSTEM = "\n".join(
    [
        "You are a careful assistant that works in a repository.",
        "## Tooling",
        "- exec: run a command",
        "- read: read a file",
        *(f"Rule {number}: {_FILLER}" for number in range(20)),
        "## Workspace",
        "Working directory: /home/user/work/main",
        "## Skills",
        "<available_skills>",
        "  <skill>",
        "    <name>browser-automation</name>",
        "    <description>Use a browser.</description>",
        "  </skill>",
        "  <skill>",
        "    <name>weather</name>",
        "    <description>Tell the weather.</description>",
        "  </skill>",
        "</available_skills>",
        "# Project Context",
        "## /home/user/work/main/AGENTS.md",
        "# How we work",
        "Write tests first.",
        "## /home/user/work/main/MEMORY.md",
        "- The user likes short answers.",
        "- The project is called Bluefin.",
        "<!-- openclaw:attempt:DYNAMIC -->",
        "## Temporal Context",
        "Current date: 2026-11-29",
        "Time zone: UTC",
        "## Runtime",
        "Current model identity: vendor/model-1. If asked what model you are, answer with this value.",
        "<!-- /openclaw:attempt:DYNAMIC -->",
    ]
)


@dataclass(frozen=True)
class Tool:
    name: str
    description: str = "Does what its name says, carefully, and tells what came of it."
    schema: Json = field(
        default_factory=lambda: {
            "type": "object",
            "properties": {"path": {"type": "string", "description": "Where."}, "limit": {"type": "integer"}},
            "required": ["path"],
        }
    )


@dataclass(frozen=True)
class Turn:
    """A message: text, or a call of a tool, or its result."""

    role: str
    text: str = ""
    call: str = ""
    """The tool's name; `text` holds the arguments."""
    call_id: str = ""
    image: str = ""


@dataclass(frozen=True)
class Prompt:
    system: Sequence[str]
    tools: Sequence[Tool]
    turns: Sequence[Turn]

    def changed(self, **changes: Any) -> Prompt:
        return replace(self, **changes)

    def with_system(self, old: str, new: str) -> Prompt:
        assert any(old in text for text in self.system), old
        return replace(self, system=[text.replace(old, new, 1) for text in self.system])

    def and_then(self, *turns: Turn) -> Prompt:
        return replace(self, turns=[*self.turns, *turns])


def long_text(about: str) -> str:
    return "\n".join(f"{about}, line {number}: {_FILLER}" for number in range(12))


def sample() -> Prompt:
    """Two answered turns, one with a call, and a question."""
    return Prompt(
        [SYSTEM],
        [Tool("apply_patch"), Tool("exec"), Tool("openclaw"), Tool("read"), Tool("write")],
        [
            Turn("user", "What does the first module do? " + long_text("question")),
            Turn("assistant", '{"path":"src/a.py","limit":10}', call="read", call_id="call_1"),
            Turn("tool", long_text("source"), call_id="call_1"),
            Turn("assistant", long_text("answer")),
            Turn("user", "And the second one? " + long_text("second question")),
            Turn("assistant", long_text("second answer")),
            Turn("user", "Thank you. What is left to do?"),
        ],
    )


def chat(prompt: Prompt) -> dict[str, Json]:
    messages: list[Json] = [{"role": "system", "content": text} for text in prompt.system]
    for turn in prompt.turns:
        if turn.call:
            function = {"name": turn.call, "arguments": turn.text}
            call = {"id": turn.call_id, "type": "function", "function": function}
            messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        elif turn.role == "tool":
            messages.append({"role": "tool", "content": turn.text, "tool_call_id": turn.call_id})
        elif turn.image:
            image = {"type": "image_url", "image_url": {"url": turn.image}}
            messages.append({"role": turn.role, "content": [{"type": "text", "text": turn.text}, image]})
        else:
            messages.append({"role": turn.role, "content": turn.text})
    tools = [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": tool.schema},
        }
        for tool in prompt.tools
    ]
    return copy.deepcopy({"model": "m", "messages": messages, "tools": tools, "stream": True})


def anthropic(prompt: Prompt) -> dict[str, Json]:
    messages: list[Json] = []
    for turn in prompt.turns:
        if turn.call:
            block = {
                "type": "tool_use",
                "id": turn.call_id,
                "name": turn.call,
                "input": json.loads(turn.text),
            }
            messages.append({"role": "assistant", "content": [block]})
        elif turn.role == "tool":
            result = [{"type": "text", "text": turn.text}]
            block = {"type": "tool_result", "tool_use_id": turn.call_id, "content": result}
            messages.append({"role": "user", "content": [block]})
        elif turn.image:
            source = {"type": "base64", "media_type": "image/png", "data": turn.image}
            blocks = [{"type": "text", "text": turn.text}, {"type": "image", "source": source}]
            messages.append({"role": turn.role, "content": blocks})
        else:
            messages.append({"role": turn.role, "content": [{"type": "text", "text": turn.text}]})
    tools = [
        {"name": tool.name, "description": tool.description, "input_schema": tool.schema}
        for tool in prompt.tools
    ]
    system = [{"type": "text", "text": text} for text in prompt.system]
    return copy.deepcopy(
        {"model": "m", "max_tokens": 9, "system": system, "messages": messages, "tools": tools}
    )


def responses(prompt: Prompt) -> dict[str, Json]:
    items: list[Json] = [
        {"type": "message", "role": "system", "content": [{"type": "input_text", "text": text}]}
        for text in prompt.system
    ]
    for turn in prompt.turns:
        if turn.call:
            items.append(
                {"type": "function_call", "call_id": turn.call_id, "name": turn.call, "arguments": turn.text}
            )
        elif turn.role == "tool":
            items.append({"type": "function_call_output", "call_id": turn.call_id, "output": turn.text})
        else:
            kind = "output_text" if turn.role == "assistant" else "input_text"
            content: list[Json] = [{"type": kind, "text": turn.text}]
            if turn.image:
                content.append({"type": "input_image", "image_url": turn.image})
            items.append({"type": "message", "role": turn.role, "content": content})
    tools = [
        {"type": "function", "name": tool.name, "description": tool.description, "parameters": tool.schema}
        for tool in prompt.tools
    ]
    return copy.deepcopy({"model": "m", "input": items, "tools": tools})


SHAPES: dict[str, Callable[[Prompt], dict[str, Json]]] = {
    "chat": chat,
    "anthropic": anthropic,
    "responses": responses,
}
