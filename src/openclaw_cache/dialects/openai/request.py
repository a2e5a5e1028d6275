"""Read an OpenAI chat completion request: only what the gateway decides by; the upstream validates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import orjson

from openclaw_cache.errors import RequestError
from openclaw_cache.types import Json

_ASK_USAGE = b'"stream_options":{"include_usage":true}'


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """What the gateway needs to know of a chat request.

    `n`, `temperature`, `seed` and the two limits are the client's own values, None where absent or null:
    the upstream judges them, we only compare. Small, so that it may be kept after its body is gone.
    """

    model: str
    stream: bool
    include_usage: bool
    has_tools: bool
    n: Json
    temperature: Json
    seed: Json
    max_tokens: Json
    max_completion_tokens: Json

    @property
    def wants_usage(self) -> bool:
        """Whether its reply must tell the usage: every whole one does, a stream where it was asked to."""
        return self.include_usage or not self.stream

    @property
    def limit(self) -> Json:
        """The request's own bound on completion tokens; the newer field counts where both are set."""
        return self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens


def parse(body: Json) -> ChatRequest:
    """Read a decoded body. A few µs; walks the messages only where the body has no `tools`.

    Raises:
        RequestError: 400, with `param`, for what we cannot go on without: model, messages, stream.
    """
    if not isinstance(body, dict):
        raise RequestError(400, "The request body must be a JSON object.")
    get = body.get
    model = get("model")
    if not isinstance(model, str) or not model:
        raise RequestError(400, "You must provide a model: a non-empty string.", param="model")
    messages = get("messages")
    if not isinstance(messages, list):
        raise RequestError(400, "You must provide messages: an array.", param="messages")
    stream = get("stream")
    if stream is not None and not isinstance(stream, bool):
        raise RequestError(400, "stream must be true, false or null.", param="stream")
    options = get("stream_options")
    return ChatRequest(
        model=model,
        stream=stream is True,
        include_usage=isinstance(options, dict) and options.get("include_usage") is True,
        has_tools=bool(get("tools") or get("functions")) or any(map(_is_tool_turn, messages)),
        n=get("n"),
        temperature=get("temperature"),
        seed=get("seed"),
        max_tokens=get("max_tokens"),
        max_completion_tokens=get("max_completion_tokens"),
    )


def _is_tool_turn(message: Json) -> bool:
    if not isinstance(message, dict):
        return False
    if message.get("role") in ("tool", "function"):
        return True
    return bool(message.get("tool_calls") or message.get("function_call"))


def prompt_text(body: dict[str, Json]) -> str:
    """Return all text of the messages, joined by LF: what eviction patterns are matched against."""
    return "\n".join(text for message in body["messages"] for text in texts(message))


def texts(message: Json) -> Iterator[str]:
    """Yield a message's texts: its string content, or its text parts in order."""
    if not isinstance(message, dict):
        return
    content = message.get("content")
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        for part in content:
            text = part.get("text") if isinstance(part, dict) else part
            if isinstance(text, str):
                yield text


def ask_usage(raw: bytes, body: dict[str, Json]) -> bytes:
    """Return the request's bytes with `stream_options.include_usage` set to true.

    Without `stream_options` the field is spliced in front and every other byte stays; otherwise the body
    is written anew in its order. `stream_options` that is no object is left for the upstream to refuse.
    """
    options = body.get("stream_options")
    if "stream_options" not in body:
        start = raw.index(b"{") + 1
        return b"".join((raw[:start], _ASK_USAGE, b"," if body else b"", raw[start:]))
    if options is not None and not isinstance(options, dict):
        return raw
    return orjson.dumps({**body, "stream_options": {**(options or {}), "include_usage": True}})
