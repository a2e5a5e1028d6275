"""Which API a body is for, and what a reply of it says of its tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from openclaw_cache.dialects.anthropic.messages import MessagesDialect
from openclaw_cache.dialects.completions.completions import CompletionsDialect
from openclaw_cache.dialects.dialect import Dialect
from openclaw_cache.dialects.openai.chat import ChatDialect
from openclaw_cache.dialects.responses.responses import ResponsesDialect
from openclaw_cache.dialects.sse import SseParser
from openclaw_cache.dialects.usage import Usage
from openclaw_cache.errors import StreamError
from openclaw_cache.request_logs.logged_request import decoded
from openclaw_cache.types import Json

_BY_PATH: Final = (
    ("/chat/completions", "chat"),
    ("/completions", "completions"),
    ("/responses", "responses"),
    ("/messages", "messages"),
)
_OTHER_PATHS: Final = (
    "/embeddings",
    "/count_tokens",
    "/moderations",
    "/rerank",
    "/models",
    "/batches",
    "/files",
)
_DIALECTS: Final[Mapping[str, Dialect]] = {
    "chat": ChatDialect(),
    "completions": CompletionsDialect(),
    "responses": ResponsesDialect(),
    "messages": MessagesDialect(),
}


def api_of_path(url: str) -> str | None:
    """The API of a path or URL; None where it is none that takes a prompt."""
    path = url.partition("?")[0].partition("#")[0].rstrip("/")
    return next((api for end, api in _BY_PATH if path.endswith(end)), None)


def is_other_path(url: str) -> bool:
    """Whether it is a path of these APIs that takes no prompt to reply to."""
    return url.partition("?")[0].rstrip("/").endswith(_OTHER_PATHS)


def api_of_body(body: dict[str, Json]) -> str | None:
    """The API that a body is for, by its shape; None where it has no prompt."""
    if isinstance(body.get("messages"), list):
        return "messages" if _is_anthropic(body) else "chat"
    if "input" in body and ("model" in body or "instructions" in body):
        is_embedding = "embed" in str(body["model"]) if "model" in body else False
        return None if is_embedding else "responses"
    return "completions" if isinstance(body.get("prompt"), str | list) else None


def _is_anthropic(body: dict[str, Json]) -> bool:
    """Whether a body with `messages` is one of Anthropic's: a `system` field, its tools, its blocks."""
    if "system" in body or "anthropic_version" in body:
        return True
    tools = body.get("tools")
    if (
        any("input_schema" in tool for tool in tools if isinstance(tool, dict))
        if isinstance(tools, list)
        else False
    ):
        return True
    for message in body["messages"]:
        content = message.get("content") if isinstance(message, dict) else None
        for block in content if isinstance(content, list) else ():
            if isinstance(block, dict) and block.get("type") in ("tool_use", "tool_result", "thinking"):
                return True
    return False


def usage_of(api: str, reply: Json) -> Usage | None:
    """What a reply, or its `usage` alone, says of its tokens. Understood are replies, streams as text, and usages."""
    if isinstance(reply, str):
        return _usage_of_text(api, reply)
    if not isinstance(reply, dict):
        return None
    if isinstance(reply.get("body"), dict | str):  # what the batch API and some proxies put around it
        return usage_of(api, reply["body"])
    if not isinstance(reply.get("usage"), dict):
        reply = {"usage": reply}
    named = [_DIALECTS[api]] if api in _DIALECTS else []
    for dialect in (*named, *(_DIALECTS[name] for name in ("chat", "messages"))):
        usage = dialect.usage(reply)
        if usage is not None and usage.prompt_tokens is not None:
            return usage
    return None


def _usage_of_text(api: str, text: str) -> Usage | None:
    if text.lstrip()[:1] == "{":
        try:
            return usage_of(api, decoded(text))
        except ValueError:
            return None
    if api not in _DIALECTS or "data:" not in text:
        return None
    try:
        events = [event.data for event in SseParser().feed(text.encode("utf-8", "replace") + b"\n\n")]
    except StreamError:
        return None
    return _DIALECTS[api].stream_usage(events)
