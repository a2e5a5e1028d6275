"""Replay a stored message as the event stream that a streaming client expects.

`merge(split(reply)) == reply` for every reply that `shape_fault` accepts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import orjson

from openclaw_cache.dialects.anthropic.block import TOOL_USES
from openclaw_cache.dialects.pieces import pieces
from openclaw_cache.dialects.usage import count
from openclaw_cache.types import Json

_ENDING: Final = ("stop_reason", "stop_sequence", "stop_details", "container")
"""Fields that are null until the message_delta, in its `delta`."""

_TOTALS: Final = (
    *("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens"),
    *("output_tokens_details", "server_tool_use", "iterations", "fallback_credit"),
)
"""Fields of `usage` that the message_delta tells, as totals."""

_AT_END: Final = frozenset(_TOTALS[3:])
"""Those of them that nothing can be said of when the message starts."""


def shape_fault(reply: Json) -> str | None:
    """Return why a reply cannot be replayed as a stream without loss, or None when it can."""
    if not isinstance(reply, dict) or reply.get("type") != "message" or reply.get("role") != "assistant":
        return "it is no message of the assistant"
    content, usage = reply.get("content"), reply.get("usage")
    if not isinstance(content, list) or not isinstance(reply.get("stop_reason"), str | None):
        return "its content is not an array, or its stop_reason not a string"
    if not isinstance(usage, dict) or count(usage.get("output_tokens")) is None:
        return "its usage does not tell the output tokens"  # the SDKs cannot read a stream without
    return next(filter(None, map(_block_fault, content)), None)


def _block_fault(block: Json) -> str | None:
    kind = block.get("type") if isinstance(block, dict) else None
    if not isinstance(kind, str):
        return "a content block has no type"
    if kind in ("text", "thinking") and not isinstance(block.get(kind), str):
        return f"a {kind} block has no {kind}"
    if kind == "text" and not isinstance(block.get("citations"), list | None):
        return "citations is not an array"
    return None


def split(reply: dict[str, Json], *, max_piece_chars: int = 256) -> bytes:
    """Return the whole event stream of a message, `message_stop` included. About 1 µs an event.

    As Anthropic sends it: message_start with the input side of the usage, each block opened, filled and
    closed, then the stop_reason and the total usage. Signatures and citations travel in one piece each; blocks
    that have no deltas stand whole in their content_block_start.

    Raises:
        ValueError: `shape_fault` names a reason; nothing that was admitted to the cache has one.
    """
    fault = shape_fault(reply)
    if fault is not None:
        raise ValueError(f"the reply cannot be replayed as a stream: {fault}")
    stream = [_event("message_start", {"message": _start(reply)})]
    for index, block in enumerate(reply["content"]):
        opened, deltas = _parts(block, max_piece_chars)
        stream.append(_event("content_block_start", {"index": index, "content_block": opened}))
        head = (
            b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":{"type":'
            % index
        )
        for delta in deltas:
            stream += (head, delta, b"}}\n\n")
        stream.append(_event("content_block_stop", {"index": index}))
    stream += (_event("message_delta", _end(reply)), _event("message_stop", {}))
    return b"".join(stream)


def _event(kind: str, fields: dict[str, Json]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), orjson.dumps({"type": kind, **fields}))


def _start(reply: dict[str, Json]) -> dict[str, Json]:
    """The message before it has content: what is known at its end only is null."""
    usage = {name: value for name, value in reply["usage"].items() if name not in _AT_END or value is None}
    message = {**reply, "content": [], "usage": {**usage, "output_tokens": 0}}
    message.update((name, None) for name in (*_ENDING, "context_management") if name in reply)
    return message


def _end(reply: dict[str, Json]) -> dict[str, Json]:
    """What the message_delta says."""
    usage = reply["usage"]
    end: dict[str, Json] = {
        "delta": {name: reply[name] for name in _ENDING if name in reply},
        "usage": {name: usage[name] for name in _TOTALS if usage.get(name) is not None},
    }
    if reply.get("context_management") is not None:
        end["context_management"] = reply["context_management"]
    return end


def _parts(block: dict[str, Json], max_piece_chars: int) -> tuple[dict[str, Json], Iterator[bytes]]:
    """A block as it opens, and the deltas that fill it, each without its opening brace and type's name."""
    kind = block["type"]
    if kind == "text":
        opened = {**block, "text": ""}
        if block.get("citations"):
            opened["citations"] = []
        return opened, _text_deltas(block, max_piece_chars)
    if kind == "thinking":
        opened = {**block, "thinking": ""}
        if isinstance(block.get("signature"), str):
            opened["signature"] = ""
        return opened, _thinking_deltas(block, max_piece_chars)
    if kind in TOOL_USES and isinstance(block.get("input"), dict):
        return {**block, "input": {}}, _input_deltas(block["input"], max_piece_chars)
    if kind == "compaction" and isinstance(block.get("content"), str):
        told = {name: block[name] for name in ("content", "encrypted_content") if name in block}
        return {**block, **dict.fromkeys(told)}, iter((b'"compaction_delta",' + orjson.dumps(told)[1:-1],))
    return block, iter(())


def _text_deltas(block: dict[str, Json], max_piece_chars: int) -> Iterator[bytes]:
    for piece in pieces(block["text"], max_piece_chars):
        yield b'"text_delta","text":' + orjson.dumps(piece)
    for citation in block.get("citations") or ():
        yield b'"citations_delta","citation":' + orjson.dumps(citation)


def _thinking_deltas(block: dict[str, Json], max_piece_chars: int) -> Iterator[bytes]:
    for piece in pieces(block["thinking"], max_piece_chars):
        yield b'"thinking_delta","thinking":' + orjson.dumps(piece)
    signature = block.get("signature")
    if isinstance(signature, str) and signature:
        yield b'"signature_delta","signature":' + orjson.dumps(signature)


def _input_deltas(value: dict[str, Json], max_piece_chars: int) -> Iterator[bytes]:
    """An empty piece first, as Anthropic has it, then the JSON: `{}` too, for clients that parse what they join."""
    for piece in ("", *pieces(orjson.dumps(value).decode(), max_piece_chars)):
        yield b'"input_json_delta","partial_json":' + orjson.dumps(piece)
