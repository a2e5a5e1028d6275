"""Read an OpenAI chat completion request: only what the gateway decides by; the upstream validates."""

from __future__ import annotations

from collections.abc import Iterator

import orjson

from openclaw_cache.dialects.request import Request
from openclaw_cache.errors import RequestError
from openclaw_cache.types import Json

_ASK_USAGE = b'"stream_options":{"include_usage":true}'


def parse(body: Json) -> Request:
    """Read a decoded body. A few µs, and a walk over the messages and the parts of their contents.

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
    newer = get("max_completion_tokens")
    return Request(
        model=model,
        stream=stream is True,
        include_usage=isinstance(options, dict) and options.get("include_usage") is True,
        has_tools=bool(get("tools") or get("functions")) or any(map(_is_tool_turn, messages)),
        n=get("n"),
        temperature=get("temperature"),
        seed=get("seed"),
        limit=get("max_tokens") if newer is None else newer,
        state=_kept_state(body),
        num_messages=len(messages),
    )


def _kept_state(body: dict[str, Json]) -> str:
    """The field by which the upstream keeps something, looks up what it kept, or searches; empty without one."""
    if body.get("store") is True:
        return "store"
    if body.get("web_search_options") is not None:
        return "web_search_options"
    return _reference(body["messages"])


def _reference(messages: list[Json]) -> str:
    """By what a message refers to what the upstream holds: earlier speech, or a file, by its id."""
    for message in messages:
        if not isinstance(message, dict):
            continue
        audio, content = message.get("audio"), message.get("content")
        if isinstance(audio, dict) and audio.get("id"):
            return "audio"
        for part in content if isinstance(content, list) else ():
            file = part.get("file") if isinstance(part, dict) else None
            if isinstance(file, dict) and file.get("file_id"):
                return "file_id"
    return ""


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
