"""Where a Messages request gets `cache_control`, so that the next turn of the conversation finds what it left.

Anthropic's cache is written at a breakpoint, and read at one: from there it looks back over at most 20 blocks for a
place where an earlier request wrote (platform.claude.com/docs/en/build-with-claude/prompt-caching). Four breakpoints
are allowed, and these are ours:

1. the end of the tools, which outlives a system prompt that changes;
2. the end of the system prompt, which all conversations of an agent share;
3. the end of the last user message: all that this request is about;
4. the end of the user message before the latest reply. There the previous request put its third one, so it is
   found even where the turn in between has more than 20 blocks, as one with many tool calls does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from openclaw_cache.gateway.cache_hints.minimums import min_tokens
from openclaw_cache.gateway.cache_hints.text import BYTES_PER_TOKEN, text_bytes
from openclaw_cache.types import Json

_FIELD: Final = "cache_control"
_BLOCKS: Final = frozenset({"text", "image", "document", "tool_use", "tool_result"})
"""Blocks that can carry a breakpoint. Thinking cannot; of others we do not know."""

_OPAQUE: Final = frozenset({"input", "input_schema"})
"""Members in which the name is the tool's own."""


def with_breakpoints(raw: bytes, body: dict[str, Json]) -> dict[str, Json] | None:
    """A copy of the body with at most four breakpoints; None where it gets none.

    Cost: O(size) where the client's own markers must be looked for, else little.
    """
    model = body.get("model")
    if not isinstance(model, str) or not _is_known_shape(body) or _has_marker(raw, body):
        return None
    # What precedes a breakpoint, in the order in which the model reads it. Once long enough, it stays so.
    length = _Length(min_tokens(model) * BYTES_PER_TOKEN)
    marked = dict(body)
    for name in ("tools", "system"):
        if name in body and length.reaches(body[name]):
            marked[name] = _marked_tools(body[name]) if name == "tools" else _marked_content(body[name])
    messages: list[Json] = list(body["messages"])
    ends = _ends_of_requests(messages)
    for i, message in enumerate(messages):
        if length.reaches(message["content"]) and i in ends:
            content = _marked_content(message["content"])
            if content is not message["content"]:
                messages[i] = {**message, "content": content}
                marked["messages"] = messages
    return marked if any(marked[name] is not body[name] for name in body) else None


class _Length:
    def __init__(self, wanted_bytes: int) -> None:
        self._missing = wanted_bytes

    def reaches(self, value: Json) -> bool:
        """Whether the prompt is long enough with this part too."""
        if self._missing:
            self._missing -= text_bytes(value, self._missing)
        return not self._missing


def _ends_of_requests(messages: Sequence[Json]) -> set[int]:
    """The last user messages of this request and of the one before it."""
    ends: list[int] = []
    is_open = True
    for i in range(len(messages) - 1, -1, -1):
        role = messages[i]["role"]
        if role == "assistant":
            is_open = True
        elif role == "user" and is_open:
            is_open = False
            ends.append(i)
            if len(ends) == 2:
                break
    return set(ends)


def _marked_tools(tools: list[Json]) -> list[Json]:
    """Marks the last tool that is part of the prompt from the start: one that is deferred cannot be marked."""
    return _with_marker(tools, [bool(tool.get("name")) and not tool.get("defer_loading") for tool in tools])


def _marked_content(content: Json) -> Json:
    if isinstance(content, str):
        return [_marker_on({"type": "text", "text": content})] if content.strip() else content
    return _with_marker(content, [_can_be_marked(block) for block in content])


def _with_marker(items: list[Json], fit: list[bool]) -> list[Json]:
    if not any(fit):
        return items
    i = len(fit) - 1 - fit[::-1].index(True)
    return [*items[:i], _marker_on(items[i]), *items[i + 1 :]]


def _marker_on(item: dict[str, Any]) -> dict[str, Any]:
    return {**item, _FIELD: {"type": "ephemeral"}}


def _can_be_marked(block: dict[str, Json]) -> bool:
    if block.get("type") == "text":
        text = block.get("text")
        return isinstance(text, str) and bool(text.strip())
    return block.get("type") in _BLOCKS


def _is_known_shape(body: dict[str, Json]) -> bool:
    messages = body.get("messages")
    return (
        isinstance(messages, list)
        and all(
            isinstance(m, dict)
            and m.get("role") in {"user", "assistant", "system"}
            and _is_content(m.get("content"))
            for m in messages
        )
        and ("system" not in body or _is_content(body["system"]))
        and ("tools" not in body or _is_list_of_objects(body["tools"]))
    )


def _is_content(value: Json) -> bool:
    return isinstance(value, str) or _is_list_of_objects(value)


def _is_list_of_objects(value: Json) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


def _has_marker(raw: bytes, body: dict[str, Json]) -> bool:
    """Whether the client set a breakpoint anywhere, or said that there is to be none (`null`)."""
    if _FIELD in body:
        return True
    if _FIELD.encode() not in raw and b"\\u" not in raw:  # an escape may hide the name
        return False
    rest: list[Json] = [body.get(name) for name in ("tools", "system", "messages")]
    while rest:
        item = rest.pop()
        if isinstance(item, list):
            rest += item
        elif isinstance(item, dict):
            if _FIELD in item:
                return True
            rest += [member for name, member in item.items() if name not in _OPAQUE]
    return False
