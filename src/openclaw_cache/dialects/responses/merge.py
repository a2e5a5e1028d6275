"""Take the reply out of a Responses stream, and check it against what was streamed.

The last event has the whole response, as the API returns it without a stream, so that nothing needs to be put
together. But it must hold all that a client saw before: every delta, item by item. A stream that tells two different
stories raises MergeError and is not stored. Events of other types are the sender's own, and say nothing that its
final response does not.

An item's parts follow each other, so their deltas are compared as one text: vLLM numbers parts over all items.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import orjson

from openclaw_cache.dialects.openai.progress import DONE
from openclaw_cache.dialects.responses.texts import DELTAS, streamed
from openclaw_cache.errors import MergeError
from openclaw_cache.types import Json

_ENDS: Final = ("response.completed", "response.incomplete")


class _Stream:
    """What a stream has told so far."""

    __slots__ = ("_deltas", "_items", "_number", "response")

    def __init__(self) -> None:
        self.response: dict[str, Json] | None = None
        self._number = -1
        self._deltas: dict[tuple[int, str], list[str]] = {}
        self._items: dict[int, str] = {}

    def add(self, event: dict[str, Json]) -> None:
        kind = event.get("type")
        if event.get("error") or kind in ("error", "response.failed"):
            raise MergeError("an event carries an error")
        number = event.get("sequence_number")
        if number is not None:
            if type(number) is not int or number <= self._number:
                raise MergeError("the sequence numbers do not increase")
            self._number = number
        if kind in DELTAS:
            self._add_delta(kind, event)
        elif kind == "response.output_item.done":
            self._add_item(event)
        elif kind in _ENDS:
            self._end(event.get("response"))

    def _add_delta(self, kind: str, event: dict[str, Json]) -> None:
        index, delta = event.get("output_index"), event.get("delta")
        if type(index) is not int or type(delta) is not str:
            raise MergeError("a delta has no text, or no output_index")
        self._deltas.setdefault((index, kind), []).append(delta)

    def _add_item(self, event: dict[str, Json]) -> None:
        index, item = event.get("output_index"), event.get("item")
        if type(index) is not int or type(item) is not dict or type(item.get("type")) is not str:
            raise MergeError("an output item has no type, or no output_index")
        self._items[index] = item["type"]

    def _end(self, response: Json) -> None:
        if self.response is not None:
            raise MergeError("the stream ends twice")
        if type(response) is not dict or type(response.get("output")) is not list:
            raise MergeError("the last event has no response, or one without its output")
        self.response = response

    def check(self, output: list[Json]) -> None:
        """Hold what was streamed against the final output."""
        told: dict[tuple[int, str], list[str]] = {}
        for index, item in enumerate(output):
            if type(item) is not dict or type(item.get("type")) is not str:
                raise MergeError("an item of the final output has no type")
            if self._items.get(index, item["type"]) != item["type"]:
                raise MergeError("an item of the final output is of another type than it was streamed")
            for kind, text in streamed(item):
                told.setdefault((index, kind), []).append(text)
        if any(index not in range(len(output)) for index in self._items):
            raise MergeError("the final output lacks an item that was streamed")
        for key, deltas in self._deltas.items():
            if "".join(deltas) != "".join(told.get(key, ())):
                raise MergeError("the deltas do not add up to the final output")


def merge(events: Iterable[bytes]) -> dict[str, Json]:
    """Return the response that a stream's payloads add up to. Linear in their bytes, about 1 µs a delta.

    Raises:
        MergeError: a payload is no JSON object or carries an error, the stream has no end or more than one, or its
            deltas do not add up to the final response. It must not be stored.
    """
    stream = _Stream()
    for event in events:
        if event.startswith(DONE):
            continue
        try:
            payload = orjson.loads(event)
        except orjson.JSONDecodeError as error:
            raise MergeError("an event is not valid JSON") from error
        if type(payload) is not dict:
            raise MergeError("an event is not a JSON object")
        stream.add(payload)
    if stream.response is None:
        raise MergeError("the stream has no final response")
    stream.check(stream.response["output"])
    return stream.response
