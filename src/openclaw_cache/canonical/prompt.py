"""Where in a request's body its system prompt stands, and where a message behind the history may stand."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from openclaw_cache.types import Json

APIS: Final = frozenset({"chat", "responses", "messages"})
_SYSTEM_ROLES: Final = frozenset({"system", "developer"})
_MARK: Final = "cache_control"
_KEPT_ELSEWHERE: Final = ("previous_response_id", "conversation", "prompt")
"""Members of a Responses request by which part of the prompt is on the provider's side."""

_TAKES_LATE_SYSTEM: Final = re.compile(
    r"claude-(?:opus-(?:4-8|5|5-5)|(?:sonnet|haiku)-5-5|(?:fable|mythos)-5(?:-1)?)(?:-\d{8})?"
)
"""Models of Anthropic's that take `role: system` behind a user's message, by the names of its own API.

Source: platform.claude.com/docs/en/build-with-claude/mid-conversation-system-messages, and the model profiles of
langchain-ai/langchainjs (@langchain/anthropic 1.5.13), as of 2026-11-30. Of Claude Sonnet 5 reports differ: not here.
"""

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class SystemText:
    """One text of the system prompt."""

    path: Path
    """Where it stands in the body."""
    text: str
    is_marked: bool = False
    """Whether a mark for a provider's cache stands on its block."""


Place = Literal["message", "system_end"]
"""Where moved text goes: into a message behind all others, or to the end of Anthropic's `system`."""


def system_texts(body: dict[str, Json], api: str) -> list[SystemText]:
    """The texts of the system prompt in order: those before the first message of anybody else. Odd shapes have none."""
    if api == "messages":
        return _texts(body.get("system"), ("system",))
    found: list[SystemText] = []
    if api == "responses":
        found += _texts(body.get("instructions"), ("instructions",))
    name = "messages" if api == "chat" else "input"
    messages = body.get(name)
    first_role: Json = None
    for i, message in enumerate(messages if isinstance(messages, list) else ()):
        role = message.get("role") if isinstance(message, dict) else None
        if not isinstance(role, str) or role not in _SYSTEM_ROLES or role != (first_role or role):
            break
        first_role = role
        found += _texts(message.get("content"), (name, i, "content"))
    return found


def _texts(content: Json, path: Path) -> list[SystemText]:
    if isinstance(content, str):
        return [SystemText(path, content)]
    return [
        SystemText((*path, i, "text"), block["text"], is_marked=_MARK in block)
        for i, block in enumerate(content if isinstance(content, list) else ())
        if isinstance(block, dict) and isinstance(block.get("text"), str)
    ]


def place_behind(body: dict[str, Json], api: str) -> Place | None:
    """Where text of the system prompt may stand behind the history in its own role; None where it may not.

    A reply that the client has begun (a last message of the assistant) must stay last.
    """
    messages = body.get("input" if api == "responses" else "messages")
    if not isinstance(messages, list) or not messages or not isinstance(messages[-1], dict):
        return None
    last = messages[-1]
    role = last.get("role")
    if api == "chat":
        # No set: a role may be anything.
        return "message" if role in ("user", "tool", "function") else None
    if api == "responses":
        if any(body.get(name) for name in _KEPT_ELSEWHERE):
            return None
        # Unlike instructions, a message becomes part of a conversation that is stored there.
        if body.get("instructions") is not None and body.get("store") is not False:
            return None
        is_request = role == "user" or str(last.get("type")).endswith("_call_output")
        return "message" if is_request else None
    model = body.get("model")
    takes = isinstance(model, str) and _TAKES_LATE_SYSTEM.fullmatch(model) is not None
    return "message" if takes and role == "user" else "system_end"


def with_texts(body: dict[str, Json], texts: Sequence[SystemText], new: Sequence[str]) -> dict[str, Json]:
    """A copy of the body with other texts in place of `texts`; a block or message of which nothing is left goes."""
    changed = dict(body)
    for text, now in reversed(
        list(zip(texts, new, strict=True))
    ):  # from the end, so that places stay what they are
        if now == text.text:
            continue
        name, *rest = text.path
        value = _with(changed[str(name)], rest, now)
        if value is None:
            del changed[str(name)]
        else:
            changed[str(name)] = value
    return changed


def _with(value: Any, path: Sequence[str | int], text: str) -> Any:
    """`value` with `text` at `path`; None where nothing of it is left."""
    if not path:
        return text or None
    inner = _with(value[path[0]], path[1:], text)
    copy = value.copy()
    if inner is not None:
        copy[path[0]] = inner
        return copy
    if isinstance(copy, dict):
        return None  # a block without its text, a message without its content
    del copy[path[0]]
    return copy or None


def with_text_behind(
    body: dict[str, Json],
    original: dict[str, Json],
    api: str,
    place: Place,
    source: SystemText,
    text: str,
) -> dict[str, Json]:
    """A copy of the body with `text` behind all messages, in the role and form of `source`, where it stood.

    `source` tells its place in the `original` body.
    """
    block_type = "input_text" if api == "responses" else "text"
    is_block = source.path[-1] == "text"
    block: dict[str, Json] = {"type": block_type, "text": text}
    if place == "system_end":
        system = body.get("system", [])
        blocks = [{"type": "text", "text": system}] if isinstance(system, str) else system
        return {**body, "system": [*blocks, block]}
    name = "input" if api == "responses" else "messages"
    message: dict[str, Json] = {"role": "system", "content": [block] if is_block else text}
    if source.path[0] == name:
        model = original[name][source.path[1]]
        message = {key: model[key] for key in ("type", "role") if key in model} | {
            "content": message["content"]
        }
    return {**body, name: [*body[name], message]}
