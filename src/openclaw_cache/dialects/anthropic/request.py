"""Read a Messages request: only what the gateway decides by; the upstream validates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from openclaw_cache.dialects.request import Request
from openclaw_cache.errors import RequestError
from openclaw_cache.types import Json

_STATE: Final = ("container", "thread", "mcp_servers", "diagnostics", "fallback_credit_token")
"""Fields by which Anthropic keeps or looks up state: a container's files, a conversation it holds, what tool
servers say just now, an earlier request to compare with, a credit that can be used once.

`context_management` and `compaction` are not among them: they work on the request's own messages.
"""

_STATELESS_TOOLS: Final = (
    *("custom", "bash_", "text_editor_", "memory_", "computer_", "browser_"),  # run by the client
    "tool_search_tool_",  # run by Anthropic, over the request's own tools
)
"""How the types of tools begin that look at nothing but the request. A type that we do not know counts as a
server's: it may search the web, or run code."""

_TEXTS: Final = ("title", "context", "text", "thinking")
"""Fields of a block that hold a text of the prompt. Signatures, encrypted content and file data are none."""


def parse(body: Json) -> Request:
    """Read a decoded body of `POST /v1/messages`. O(number of content blocks), about 0.2 µs each.

    Raises:
        RequestError: 400, with `param`, for what we cannot go on without: model, messages, stream.
    """
    model, messages, stream = _basics(body)
    uses_tools, state = _walk(messages)
    get = body.get
    tools = get("tools")
    return Request(
        model=model,
        stream=stream,
        has_tools=bool(tools) or uses_tools,
        temperature=get("temperature"),
        limit=get("max_tokens"),
        state=_field_state(body) or ("tools" if _has_server_tool(tools) else state),
        num_messages=len(messages),
    )


def parse_count(body: Json) -> Request:
    """Read a decoded body of `POST /v1/messages/count_tokens`. O(number of content blocks).

    Tools do not count here, and neither does sampling: nothing is called, nothing is drawn. Files and held
    conversations do: the number of their tokens is the server's to know.

    Raises:
        RequestError: 400, with `param`; for a stream too, which this endpoint does not have.
    """
    model, messages, stream = _basics(body)
    if stream:
        raise RequestError(400, "stream must not be true: tokens are counted in one reply.", param="stream")
    return Request(
        model=model,
        temperature=0,
        state=_field_state(body) or _walk(messages)[1],
        num_messages=len(messages),
    )


def _basics(body: Json) -> tuple[str, list[Json], bool]:
    """Model, messages and whether to stream."""
    if not isinstance(body, dict):
        raise RequestError(400, "The request body must be a JSON object.")
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise RequestError(400, "You must provide a model: a non-empty string.", param="model")
    messages = body.get("messages")
    if not isinstance(messages, list):
        raise RequestError(400, "You must provide messages: an array.", param="messages")
    stream = body.get("stream")
    if stream is not None and not isinstance(stream, bool):
        raise RequestError(400, "stream must be true, false or null.", param="stream")
    return model, messages, stream is True


def _field_state(body: dict[str, Json]) -> str:
    for name in _STATE:
        if body.get(name):
            return name
    return ""


def _has_server_tool(tools: Json) -> bool:
    return isinstance(tools, list) and any(map(_is_server_tool, tools))


def _is_server_tool(tool: Json) -> bool:
    kind = tool.get("type") if isinstance(tool, dict) else None
    return isinstance(kind, str) and not kind.startswith(_STATELESS_TOOLS)


def _walk(messages: list[Json]) -> tuple[bool, str]:
    """Whether the conversation uses tools, and the state that its blocks refer to."""
    uses_tools, state = False, ""
    contents = [message.get("content") for message in messages if isinstance(message, dict)]
    for content in contents:  # grows by what stands inside tool results and documents
        if not isinstance(content, list):
            continue
        for block in content:
            kind = block.get("type") if isinstance(block, dict) else "text"
            if kind == "text":  # nearly every block
                continue
            if isinstance(kind, str) and "tool" in kind:
                uses_tools = True
            source = block.get("source")
            contents += block.get("content"), source.get("content") if isinstance(source, dict) else None
            state = state or _block_state(block)
    return uses_tools, state


def _block_state(block: dict[str, Json]) -> str:
    """`file_id` where a block is a file that the upstream holds, `tools` where it declares a server's tool."""
    source = block.get("source")
    if block.get("file_id") or (isinstance(source, dict) and source.get("type") == "file"):
        return "file_id"
    tool = block.get("tool")  # of a tool_addition, which may bring a definition of its own
    if isinstance(tool, dict) and _is_server_tool(tool.get("definition")):
        return "tools"
    return ""


def messages(body: dict[str, Json]) -> Sequence[Json]:
    """Return the conversation, the system prompt first as a message of role `system`."""
    system = body.get("system")
    turns: list[Json] = body["messages"]
    return [{"role": "system", "content": system}, *turns] if system else turns


def prompt_text(body: dict[str, Json]) -> str:
    """Return all text of the prompt, joined by LF: system, messages, tool results, documents, thinking.

    What a tool was called with is no text of the prompt, here as in the other dialects. O(number of blocks).
    """
    found: list[str] = []
    for message in messages(body):
        if isinstance(message, dict):
            _gather(message.get("content"), found)
    return "\n".join(found)


def _gather(content: Json, found: list[str]) -> None:
    """Add the texts of a content: itself, or those of its blocks in order."""
    if isinstance(content, str):
        found.append(content)
    elif isinstance(content, list):
        for block in content:
            if isinstance(block, dict):
                _gather_block(block, found)


def _gather_block(block: dict[str, Json], found: list[str]) -> None:
    is_text = block.get("type") == "text"  # nearly every block, and it has nothing else
    for name in ("text",) if is_text else _TEXTS:
        text = block.get(name)
        if isinstance(text, str):
            found.append(text)
    if is_text:
        return
    _gather(block.get("content"), found)
    source = block.get("source")
    if isinstance(source, dict):
        data = source.get("data")
        if source.get("type") == "text" and isinstance(data, str):
            found.append(data)
        _gather(source.get("content"), found)
