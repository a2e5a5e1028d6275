"""Replay a stored response as the event stream that a streaming client expects.

`merge(split(reply)) == reply` for every reply that `shape_fault` accepts and that did not fail: the last event has
the whole of it. What comes before is what OpenAI's API sends: each item is opened empty, its parts are opened, filled
piece by piece and closed, and the item is closed whole. Items and parts of types that are not streamed in pieces
(see `texts`) are opened and closed as they are.
"""

from __future__ import annotations

from typing import Final

import orjson

from openclaw_cache.dialects.pieces import pieces
from openclaw_cache.dialects.responses.texts import ITEMS, LISTS, PARTS, Text, parts
from openclaw_cache.types import Json

_STATUSES: Final = ("completed", "incomplete", "failed")
"""Each ends a stream by the event of its name."""

_AT_END: Final = ("completed_at", "error", "incomplete_details", "moderation", "tool_usage")
"""Fields of a response that are null, where it has them, until it ends; `usage` is always there."""

_PART_EVENTS: Final = {"content": "response.content_part", "summary": "response.reasoning_summary_part"}
_NUMBERS: Final = {"content": "content_index", "summary": "summary_index"}


def shape_fault(reply: Json) -> str | None:
    """Return why a reply cannot be replayed as a stream without loss, or None when it can."""
    if not isinstance(reply, dict) or not isinstance(reply.get("output"), list):
        return "it has no output"
    if reply.get("status") not in _STATUSES:
        return "it is not at its end"
    if not all(isinstance(item, dict) and isinstance(item.get("type"), str) for item in reply["output"]):
        return "an output item has no type"
    return None


def split(reply: dict[str, Json], *, max_piece_chars: int = 256) -> bytes:
    """Return the whole event stream of a response. About 2 µs an event, and the response is written thrice.

    Raises:
        ValueError: `shape_fault` names a reason; nothing that was admitted to the cache has one.
    """
    fault = shape_fault(reply)
    if fault is not None:
        raise ValueError(f"the reply cannot be replayed as a stream: {fault}")
    stream = _Stream(max_piece_chars)
    begun = orjson.dumps(_begun(reply))
    stream.add_response("response.created", begun)
    stream.add_response("response.in_progress", begun)
    for index, item in enumerate(reply["output"]):
        _add_item(stream, index, item)
    stream.add_response(f"response.{reply['status']}", orjson.dumps(reply))
    return b"".join(stream.written)


def _begun(reply: dict[str, Json]) -> dict[str, Json]:
    """The response as it stood at the beginning."""
    begun = {key: None if key in _AT_END else value for key, value in reply.items() if key != "output_text"}
    return {**begun, "status": "in_progress", "output": [], "usage": None}


class _Stream:
    """Writes events, and numbers them."""

    __slots__ = ("max_piece_chars", "written")

    def __init__(self, max_piece_chars: int) -> None:
        self.max_piece_chars = max_piece_chars
        self.written: list[bytes] = []

    def add(self, kind: str, fields: dict[str, Json]) -> None:
        data = orjson.dumps({"type": kind, "sequence_number": len(self.written), **fields})
        self.written.append(b"event: %s\ndata: %s\n\n" % (kind.encode(), data))

    def add_response(self, kind: str, response: bytes) -> None:
        """Write an event around a response that is JSON already: it may be nested as deep as we can write."""
        frame = b'event: %s\ndata: {"type":"%s","sequence_number":%d,"response":%s}\n\n'
        self.written.append(frame % (kind.encode(), kind.encode(), len(self.written), response))


def _add_item(stream: _Stream, index: int, item: dict[str, Json]) -> None:
    kind, item_id = item["type"], item.get("id")
    place = {"item_id": item_id if isinstance(item_id, str) else "", "output_index": index}
    lists = [(name, found) for name in LISTS.get(kind, ()) if (found := parts(item, name))]
    own = ITEMS.get(kind)
    has_text = own is not None and isinstance(item.get(own.field), str)
    opened = {**item, **{name: [] for name, _ in lists}}
    if "status" in item:
        opened["status"] = "in_progress"
    if own is not None and has_text:
        opened[own.field] = ""
    stream.add("response.output_item.added", {"output_index": index, "item": opened})
    for name, found in lists:
        for number, part in enumerate(found):
            _add_part(stream, {**place, _NUMBERS[name]: number}, (kind, name), part)
    if own is not None and has_text:
        for piece in pieces(item[own.field], stream.max_piece_chars):
            stream.add(f"{own.event}.delta", {**place, "delta": piece})
        stream.add(f"{own.event}.done", {**place, own.field: item[own.field]})
    stream.add("response.output_item.done", {"output_index": index, "item": item})


def _add_part(stream: _Stream, place: dict[str, Json], where: tuple[str, str], part: dict[str, Json]) -> None:
    event = _PART_EVENTS[where[1]]
    text = PARTS.get((*where, part["type"]))
    if text is None or not isinstance(part.get(text.field), str):
        stream.add(f"{event}.added", {**place, "part": part})
    else:
        lists: dict[str, Json] = {
            name: [] for name in ("annotations", "logprobs") if isinstance(part.get(name), list)
        }
        stream.add(f"{event}.added", {**place, "part": {**part, **lists, text.field: ""}})
        _add_text(stream, place, text, part)
    stream.add(f"{event}.done", {**place, "part": part})


def _add_text(stream: _Stream, place: dict[str, Json], text: Text, part: dict[str, Json]) -> None:
    told, logprobs = part[text.field], part.get("logprobs")
    has_logprobs = text.event == "response.output_text"  # there readers expect a list, be it empty
    cut = _token_pieces(told, logprobs) if has_logprobs else []
    for piece, tokens in cut or [(piece, []) for piece in pieces(told, stream.max_piece_chars)]:
        delta = {**place, "delta": piece}
        stream.add(f"{text.event}.delta", {**delta, "logprobs": tokens} if has_logprobs else delta)
    annotations = part.get("annotations")
    if has_logprobs and isinstance(annotations, list):
        for number, annotation in enumerate(annotations):
            stream.add(
                "response.output_text.annotation.added",
                {**place, "annotation_index": number, "annotation": annotation},
            )
    done = {**place, text.field: told}
    stream.add(f"{text.event}.done", {**done, "logprobs": logprobs or []} if has_logprobs else done)


def _token_pieces(told: str, logprobs: Json) -> list[tuple[str, list[Json]]]:
    """Pair the tokens that spell a text with their log probabilities; nothing where they do not spell it."""
    if not isinstance(logprobs, list):
        return []
    cut = [
        (token["token"], [token])
        for token in logprobs
        if isinstance(token, dict) and isinstance(token.get("token"), str)
    ]
    return cut if len(cut) == len(logprobs) and "".join(piece for piece, _ in cut) == told else []
