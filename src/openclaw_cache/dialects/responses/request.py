"""Read a Responses request: only what the gateway decides by; the upstream validates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from openclaw_cache.dialects.request import Request
from openclaw_cache.dialects.responses.state import kept_state
from openclaw_cache.errors import RequestError
from openclaw_cache.types import Json

_PLAIN_ITEMS: Final = (None, "message", "reasoning", "item_reference", "compaction", "compaction_trigger")
"""Types of input items that no tool has a part in. All others are calls, their outputs, or lists of tools."""

_TEXTS: Final = ("content", "output", "summary", "arguments", "input")
"""Fields of an input item that hold text: a string, or a list of parts."""

_PART_TEXTS: Final = ("text", "refusal", "stdout", "stderr")


def parse(body: Json) -> Request:
    """Read a decoded body. A few µs, and one walk over the input items where the request is stateless.

    Raises:
        RequestError: 400, with `param`, for what we cannot go on without: model, input of a known form, stream.
    """
    if not isinstance(body, dict):
        raise RequestError(400, "The request body must be a JSON object.")
    get = body.get
    model = get("model")
    if not isinstance(model, str) or not model:
        raise RequestError(400, "You must provide a model: a non-empty string.", param="model")
    given = get("input")
    if given is not None and not isinstance(given, str | list):
        raise RequestError(400, "input must be a string or an array.", param="input")
    stream = get("stream")
    if stream is not None and not isinstance(stream, bool):
        raise RequestError(400, "stream must be true, false or null.", param="stream")
    items = given if isinstance(given, list) else []
    return Request(
        model=model,
        stream=stream is True,
        has_tools=bool(get("tools")) or any(map(_has_tool_part, items)),
        temperature=get("temperature"),
        seed=get("seed"),  # vLLM's: OpenAI has none here
        limit=get("max_output_tokens"),
        state=kept_state(body),
        num_messages=1 if isinstance(given, str) else len(items),
    )


def _has_tool_part(item: Json) -> bool:
    return isinstance(item, dict) and item.get("type") not in _PLAIN_ITEMS


def messages(body: dict[str, Json]) -> list[Json]:
    """Return the conversation: the instructions as a system message, then every item that has a role.

    A string of input is one user message. O(number of items); nothing is copied but the list.
    """
    told: list[Json] = []
    instructions, given = body.get("instructions"), body.get("input")
    if isinstance(instructions, str):
        told.append({"role": "system", "content": instructions})
    if isinstance(given, str):
        told.append({"role": "user", "content": given})
    elif isinstance(given, list):
        told += (item for item in given if isinstance(item, dict) and isinstance(item.get("role"), str))
    return told


def prompt_text(body: dict[str, Json]) -> str:
    """Return all text of the prompt, joined by LF: instructions, messages, reasoning, tool calls and their outputs."""
    return "\n".join(_texts(body))


def _texts(body: dict[str, Json]) -> Iterator[str]:
    instructions, given = body.get("instructions"), body.get("input")
    if isinstance(instructions, str):
        yield instructions
    if isinstance(given, str):
        yield given
    for item in given if isinstance(given, list) else ():
        if isinstance(item, dict):
            for name in _TEXTS:
                yield from _field_texts(item.get(name))


def _field_texts(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for part in value:
            if isinstance(part, str):
                yield part
            elif isinstance(part, dict):
                yield from (part[name] for name in _PART_TEXTS if isinstance(part.get(name), str))
