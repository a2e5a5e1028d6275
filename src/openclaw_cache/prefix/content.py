"""What a model reads of a message, in any API's form, value by value."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from blake3 import blake3

from openclaw_cache.types import Json

Write = Callable[[Json], str]
"""A value as compact JSON."""

_MARK: Final = "cache_control"
_MEDIA: Final = (
    "image_url", "image", "input_image", "input_audio", "audio", "file", "input_file", "video_url", "document",
)  # fmt: skip
_MAX_MEDIA_CHARS: Final = 512
"""Longer ones are named by their hash: nobody reads them, and their bytes say nothing of tokens."""

_ITEM_ROLES: Final = {
    "function_call": "assistant", "custom_tool_call": "assistant", "reasoning": "assistant",
    "function_call_output": "tool", "custom_tool_call_output": "tool",
}  # fmt: skip
"""Items of the Responses API that have no role."""

CALL: Final = "<call "
RESULT: Final = "<result "
THINKING: Final = "<thinking>"
MEDIA: Final = "<media "
"""How a piece begins that is not plain text."""


class Piece(NamedTuple):
    """One value of a message."""

    pointer: str
    """The rest of its JSON pointer, after the message's own."""
    text: str
    lead: int = 0
    """Characters of `text` before the value itself."""


def pieces_of_message(item: Json, write: Write) -> tuple[str, str, list[Piece]]:
    """The head line of a message, its role, and its values in order."""
    if not isinstance(item, dict):
        return "", "", [Piece("", item if isinstance(item, str) else write(item))]
    kind = item.get("type")
    role = item.get("role")
    if not isinstance(role, str):
        role = _ITEM_ROLES.get(kind, kind) if isinstance(kind, str) else ""
    head = role
    for key in ("name", "tool_call_id"):
        value = item.get(key)
        if isinstance(value, str) and "role" in item:
            head = f"{head} {value}"
    if "role" in item or "content" in item:
        return head, role, list(_pieces_of_turn(item, write))
    return head, role, list(_pieces_of_item(item, write))


def _pieces_of_turn(message: dict[str, Json], write: Write) -> Iterator[Piece]:
    for key in ("reasoning_content", "reasoning"):
        thinking = message.get(key)
        if isinstance(thinking, str) and thinking:
            yield _led(f"/{key}", THINKING, thinking)
    yield from _pieces_of_content(message.get("content"), write)
    refusal = message.get("refusal")
    if isinstance(refusal, str) and refusal:
        yield Piece("/refusal", refusal)
    calls = message.get("tool_calls")
    for number, call in enumerate(calls if isinstance(calls, list) else ()):
        yield _chat_call(call, f"/tool_calls/{number}", write)
    if isinstance(message.get("function_call"), dict):
        yield _chat_call({"function": message["function_call"]}, "", write)


def _pieces_of_content(content: Json, write: Write) -> Iterator[Piece]:
    if isinstance(content, str):
        if content:
            yield Piece("/content", content)
    elif isinstance(content, list):
        for number, block in enumerate(content):
            yield from _pieces_of_block(block, f"/content/{number}", write)
    elif content is not None:
        yield Piece("/content", write(content))


def _chat_call(call: Json, pointer: str, write: Write) -> Piece:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        return Piece(pointer, f"{CALL}{write(call)}", len(CALL))
    arguments = function.get("arguments")
    text = arguments if isinstance(arguments, str) else write(arguments)
    where = f"{pointer}/function/arguments" if pointer else "/function_call/arguments"
    return _led(where, f"{CALL}{_word(call.get('id'))} {_word(function.get('name'))}>", text)


def _pieces_of_block(block: Json, pointer: str, write: Write) -> Iterator[Piece]:
    if not isinstance(block, dict):
        yield Piece(pointer, block if isinstance(block, str) else write(block))
        return
    kind = block.get("type")
    text = block.get("text")
    if isinstance(text, str):
        yield Piece(f"{pointer}/text", text)
    elif kind in ("tool_use", "server_tool_use"):
        lead = f"{CALL}{_word(block.get('id'))} {_word(block.get('name'))}>"
        yield _led(f"{pointer}/input", lead, write(block.get("input")))
    elif kind == "tool_result":
        yield from _result(block.get("tool_use_id"), block.get("content"), f"{pointer}/content", write)
    elif kind == "thinking" and isinstance(block.get("thinking"), str):
        yield _led(f"{pointer}/thinking", THINKING, block["thinking"])
    elif kind == "redacted_thinking":
        yield _led(f"{pointer}/data", THINKING, _word(block.get("data")))
    elif kind in _MEDIA:
        yield Piece(pointer, _media(block, str(kind), write))
    else:
        yield Piece(pointer, write(_unmarked(block)))


def _result(call_id: Json, content: Json, pointer: str, write: Write) -> Iterator[Piece]:
    """A tool's result: one text, or a list of blocks."""
    lead = f"{RESULT}{_word(call_id)}>"
    if isinstance(content, str):
        yield _led(pointer, lead, content)
    elif isinstance(content, list):
        first = True
        for number, block in enumerate(content):
            for piece in _pieces_of_block(block, f"{pointer}/{number}", write):
                yield _led(piece.pointer, lead, piece.text) if first else piece
                first = False
        if first:
            yield Piece(pointer, lead, len(lead))
    else:
        yield Piece(pointer, lead if content is None else f"{lead}\n{write(content)}", len(lead))


def _pieces_of_item(item: dict[str, Json], write: Write) -> Iterator[Piece]:
    """An item of the Responses API that is no message."""
    kind = item.get("type")
    call_id = item.get("call_id")
    if kind in ("function_call", "custom_tool_call"):
        key = "arguments" if kind == "function_call" else "input"
        arguments = item.get(key)
        text = arguments if isinstance(arguments, str) else write(arguments)
        yield _led(f"/{key}", f"{CALL}{_word(call_id)} {_word(item.get('name'))}>", text)
    elif kind in ("function_call_output", "custom_tool_call_output"):
        yield from _result(call_id, item.get("output"), "/output", write)
    elif kind == "reasoning":
        yield _led("", THINKING, write({name: item.get(name) for name in ("summary", "encrypted_content")}))
    else:
        yield Piece("", write(_unmarked(item)))


def _led(pointer: str, lead: str, text: str) -> Piece:
    return Piece(pointer, f"{lead}\n{text}", len(lead) + 1)


def _word(value: Json) -> str:
    return value if isinstance(value, str) else ""


def _media(block: dict[str, Json], kind: str, write: Write) -> str:
    """A picture or a file: short ones as they are, long ones by their hash."""
    text = write(_unmarked(block))
    source = block.get("source")
    if isinstance(source, dict) and source.get("type") in ("text", "content"):
        return text
    if len(text) > _MAX_MEDIA_CHARS:
        digest = blake3(text.encode("utf-8", "surrogatepass")).hexdigest(length=8)
        return f"{MEDIA}{kind} {digest}>"
    return f"{MEDIA}{kind} {text}>"


def _unmarked(block: dict[str, Json]) -> dict[str, Json]:
    return {name: value for name, value in block.items() if name != _MARK} if _MARK in block else block
