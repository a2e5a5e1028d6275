"""A request as a model reads it: its parts in order, each named in the client's own terms."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import msgspec
import orjson

from openclaw_cache.prefix.content import pieces_of_message
from openclaw_cache.types import Json

Kind = Literal["tool", "system", "message"]

_SYSTEM_ROLES: Final = ("system", "developer")
_MARK: Final = "cache_control"


class Part(msgspec.Struct, frozen=True, gc=False):
    """One tool, system text or message."""

    kind: Kind
    pointer: str
    """Its place in the body: a JSON pointer. A system text's is that of the text itself."""
    name: str
    """A tool's name, a message's role (`prompt`: a bare text)."""
    text: str
    """All of it that a model reads: a tool as compact JSON in the client's key order, a message with its role."""
    spans: tuple[tuple[int, str], ...] = ()
    """Of a message: where in `text` which of its values begins, in characters, with the rest of its pointer."""
    size: int = -1
    """UTF-8 bytes of `text`, where they are known."""

    @property
    def num_bytes(self) -> int:
        """UTF-8 bytes of the text."""
        return self.size if self.size >= 0 else utf8_size(self.text)


@dataclass(frozen=True, slots=True)
class Outline:
    """A prompt: tools, then system texts, then messages."""

    model: str
    parts: Sequence[Part]

    @property
    def num_bytes(self) -> int:
        """UTF-8 bytes of all texts."""
        return sum(part.num_bytes for part in self.parts)


def utf8_size(text: str) -> int:
    """UTF-8 bytes of a text; a lone surrogate counts as three. O(1) for ASCII."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def outline(body: dict[str, Json]) -> Outline:
    """Read a body of any API (chat, completions, responses, messages), or a text trace's `{"prompt": …}`.

    Marks for providers' caches (`cache_control`) and what only steers the reply are left out. A content that is one
    text reads the same as a list with that text. What is no such body has no parts; nothing raises. Cost: O(size).
    """
    model = body.get("model")
    parts = [*_tools(body), *_system_texts(body), *_messages(body)]
    return Outline(model if isinstance(model, str) else "", parts)


def _tools(body: dict[str, Json]) -> Iterator[Part]:
    for key in ("tools", "functions"):
        tools = body.get(key)
        for number, tool in enumerate(tools if isinstance(tools, list) else ()):
            yield _part("tool", f"/{key}/{number}", _tool_name(tool), compact(_unmarked_tool(tool)))


def _tool_name(tool: Json) -> str:
    if not isinstance(tool, dict):
        return ""
    function = tool.get("function")
    inner = function.get("name") if isinstance(function, dict) else None
    for name in (inner, tool.get("name"), tool.get("type")):
        if isinstance(name, str):
            return name
    return ""


def _unmarked_tool(tool: Json) -> Json:
    """Without the mark that clients put on their last tool; deeper ones are a schema's own business."""
    if not isinstance(tool, dict):
        return tool
    if _MARK in tool:
        tool = {name: value for name, value in tool.items() if name != _MARK}
    function = tool.get("function")
    if isinstance(function, dict) and _MARK in function:
        tool = {**tool, "function": {name: value for name, value in function.items() if name != _MARK}}
    return tool


def _system_texts(body: dict[str, Json]) -> Iterator[Part]:
    for key in ("system", "instructions"):
        yield from _texts(body.get(key), f"/{key}", "system")


def _texts(content: Json, pointer: str, name: str) -> Iterator[Part]:
    """The texts of a system content, each a part."""
    if isinstance(content, str):
        yield _part("system", pointer, name, content)
    elif isinstance(content, list):
        for number, block in enumerate(content):
            text = block.get("text") if isinstance(block, dict) else block
            if isinstance(text, str):
                rest = "/text" if isinstance(block, dict) else ""
                yield _part("system", f"{pointer}/{number}{rest}", name, text)
            else:
                yield _part("system", f"{pointer}/{number}", name, compact(_unmarked_tool(block)))
    elif content is not None:
        yield _part("system", pointer, name, compact(content))


def _messages(body: dict[str, Json]) -> Iterator[Part]:
    """Messages of chat and Anthropic's API, items of Responses, prompts of completions."""
    leading = True
    for key in ("messages", "input"):
        items = body.get(key)
        if isinstance(items, str):
            items, at_list = [{"role": "user", "content": items}], False
        elif isinstance(items, list):
            at_list = True
        else:
            continue
        for number, item in enumerate(items):
            pointer = f"/{key}/{number}" if at_list else f"/{key}"
            role = item.get("role") if isinstance(item, dict) else None
            leading = leading and role in _SYSTEM_ROLES
            if leading and isinstance(item, dict):
                yield from _texts(item.get("content"), f"{pointer}/content", str(role))
            else:
                yield _message(item, pointer, at_list=at_list)
    yield from _prompts(body.get("prompt"))


def _message(item: Json, pointer: str, *, at_list: bool) -> Part:
    head, name, pieces = pieces_of_message(item, compact)
    spans: list[tuple[int, str]] = []
    texts = [head]
    at = len(head)
    for piece in pieces:
        at += 1 + piece.lead  # a line break, and what stands before the value in the piece
        spans.append((at, piece.pointer if at_list else ""))
        texts.append(piece.text)
        at += len(piece.text) - piece.lead
    text = "\n".join(texts)
    return Part("message", pointer, name, text, tuple(spans), utf8_size(text))


def _prompts(prompt: Json) -> Iterator[Part]:
    """A text, several, token ids; or the reference to a stored prompt of the Responses API."""
    if isinstance(prompt, str):
        yield _bare("/prompt", prompt)
    elif isinstance(prompt, list) and all(isinstance(one, str) for one in prompt):
        for number, one in enumerate(prompt):
            yield _bare(f"/prompt/{number}", one)
    elif prompt is not None:
        yield _bare("/prompt", compact(prompt))


def _bare(pointer: str, text: str) -> Part:
    return Part("message", pointer, "prompt", text, ((0, ""),), utf8_size(text))


def _part(kind: Kind, pointer: str, name: str, text: str) -> Part:
    return Part(kind, pointer, name, text, (), utf8_size(text))


def compact(value: Json) -> str:
    """Compact JSON in the order of its keys, whatever is in it."""
    try:
        return orjson.dumps(value).decode()
    except (TypeError, ValueError, RecursionError):  # lone surrogates, large numbers, deep nesting
        pass
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    except (TypeError, ValueError, RecursionError):
        return "<cannot be written>"
