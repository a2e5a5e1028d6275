"""Say by what a Responses request leans on something that the upstream keeps, or has it do something.

A stored reply cannot answer such a request: what it leans on may be gone or belong to somebody else, what is to be
kept would not be kept, and what a tool does on the server would not be done.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from openclaw_cache.types import Json

_CLIENT_TOOLS: Final = frozenset(
    {"function", "custom", "namespace", "local_shell", "apply_patch", "computer", "computer_use_preview"}
)
"""Tools whose calls come back to the client, which carries them out. A type that we do not know counts as the
server's: a bypass costs a hit, a search that was not made gives an old answer."""

_TOOL_LISTS: Final = ("additional_tools", "tool_search_output")
"""Input items that offer more tools in the midst of a conversation."""


def kept_state(body: dict[str, Json]) -> str:
    """Return the field by which the upstream keeps or looks up something; empty where there is none.

    Walks the input only where the request forbids the upstream to store it (`store: false`; to store is OpenAI's
    default). O(number of items and parts) then.
    """
    for name in ("previous_response_id", "conversation", "background", "prompt"):
        if body.get(name) not in (None, False):
            return name
    if body.get("store") is not False:
        return "store"
    return _cache_state(body.get("prompt_cache_options")) or _input_state(body)


def _cache_state(options: Json) -> str:
    """Orders to the provider's prompt cache that are more than a hint: to fill it, or to compare with a response."""
    if isinstance(options, dict) and (
        options.get("prewarm") or options.get("comparison_response_id") is not None
    ):
        return "prompt_cache_options"
    return ""


def _input_state(body: dict[str, Json]) -> str:
    given = body.get("input")
    items = [item for item in given if isinstance(item, dict)] if isinstance(given, list) else []
    if any(map(_is_reference, items)):
        return "item_reference"
    if any(part.get("file_id") is not None for item in items for part in _parts(item)):
        return "file_id"
    offered = [body.get("tools"), *(item.get("tools") for item in items if item.get("type") in _TOOL_LISTS)]
    return "tools" if any(map(_has_server_tool, offered)) else ""


def _is_reference(item: dict[str, Json]) -> bool:
    """Whether an item is there by its id alone.

    That is an item reference, whose type may be left out, reasoning without its content, open or encrypted, and
    an image that the server generated and was not sent back.
    """
    kind = item.get("type")
    if kind is None:
        return "id" in item and "role" not in item
    if kind == "reasoning":
        return item.get("id") is not None and not (item.get("encrypted_content") or item.get("content"))
    if kind == "image_generation_call":
        return item.get("result") is None
    return bool(kind == "item_reference")


def _parts(item: dict[str, Json]) -> Iterator[dict[str, Json]]:
    """Yield the parts of a message, and of a tool's output."""
    for value in (item.get("content"), item.get("output")):
        for part in value if isinstance(value, list) else (value,):
            if isinstance(part, dict):
                yield part


def _has_server_tool(tools: Json) -> bool:
    return isinstance(tools, list) and not all(map(_runs_at_client, tools))


def _runs_at_client(tool: Json) -> bool:
    if not isinstance(tool, dict):
        return False
    kind = tool.get("type")
    if kind == "shell":
        environment = tool.get("environment")
        return isinstance(environment, dict) and environment.get("type") == "local"
    if kind == "tool_search":
        return bool(tool.get("execution") == "client")
    return kind in _CLIENT_TOOLS and not _has_server_tool(tool.get("tools"))
