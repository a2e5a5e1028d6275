"""Merge the events of a streamed message into the message that was streamed.

What the official SDKs' accumulators build, and nothing is guessed: blocks follow each other by index, each is
opened, grown by the deltas of its own type, and closed; `message_delta` then says why the message ended. An event,
delta or field that we do not know could mean anything, so that its stream is not stored.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

import orjson

from openclaw_cache.dialects.anthropic.block import OpenBlock
from openclaw_cache.dialects.anthropic.exact import exact
from openclaw_cache.errors import MergeError
from openclaw_cache.types import Json

_DONE: Final = b"[DONE]"
"""What some compatible servers send after `message_stop`, as OpenAI's dialect ends."""

_FIELDS: Final = {
    "message_start": frozenset({"type", "message"}),
    "content_block_start": frozenset({"type", "index", "content_block"}),
    "content_block_delta": frozenset({"type", "index", "delta"}),
    "content_block_stop": frozenset({"type", "index"}),
    "message_delta": frozenset({"type", "delta", "usage", "context_management", "input_transformations"}),
    "message_stop": frozenset({"type"}),
}
"""The events, and what each of them says."""

_ENDING: Final = ("stop_reason", "stop_sequence", "stop_details", "container")
"""What a message_delta tells of the message."""

_NOT_STARTED, _IN_CONTENT, _HAS_DELTA, _ENDED = range(4)


class ReplyMerge:
    """Merges as the events arrive. `add` costs about 2 µs for a text delta, `reply` is linear."""

    __slots__ = ("_block", "_content", "_message", "_stage")

    def __init__(self) -> None:
        self._stage = _NOT_STARTED
        self._message: dict[str, Json] = {}
        self._content: list[Json] = []
        self._block: OpenBlock | None = None

    def add(self, data: bytes) -> None:
        """Take in one event's payload.

        Raises:
            MergeError: the payload is no event that we know, carries an error, or is out of its place.
        """
        if self._stage == _ENDED and data.startswith(_DONE):
            return
        event = _read(data)
        kind = event["type"]
        if kind == "content_block_delta":
            self._opened(event).add(event.get("delta"))
        elif kind == "content_block_start":
            exact(data)  # what a block has whole travels here
            self._open(event.get("index"), event.get("content_block"))
        elif kind == "content_block_stop":
            self._content.append(self._opened(event).close())
            self._block = None
        elif kind == "message_delta":
            self._change(event)
        elif kind == "message_start":
            self._start(event.get("message"))
        elif kind == "message_stop":
            self._enter(_ENDED, after=(_HAS_DELTA,))

    def reply(self) -> dict[str, Json]:
        """Return the message that the events add up to.

        Raises:
            MergeError: the stream has no end, or its message could not be written again.
        """
        if self._stage != _ENDED:
            raise MergeError("the stream has no message_stop")
        try:
            orjson.dumps(self._message)
        except orjson.JSONEncodeError as error:
            raise MergeError("the message is nested too deeply") from error
        return self._message

    def _enter(self, stage: int, *, after: tuple[int, ...]) -> None:
        """Go on to a stage: from certain others only, and not while a block is open."""
        if self._stage not in after or self._block is not None:
            raise MergeError("an event is out of its place")
        self._stage = stage

    def _start(self, message: Json) -> None:
        self._enter(_IN_CONTENT, after=(_NOT_STARTED,))
        if type(message) is not dict or message.get("content"):
            raise MergeError("message_start has no message, or one with content")
        if message.get("stop_reason") or message.get("error"):
            raise MergeError("message_start has a message that has ended")
        if message.setdefault("type", "message") != "message":  # vLLM leaves both of them out
            raise MergeError("message_start has no message")
        message.setdefault("role", "assistant")
        message["content"] = self._content
        self._message = message

    def _open(self, index: Json, block: Json) -> None:
        self._enter(_IN_CONTENT, after=(_IN_CONTENT,))
        if type(index) is not int or index != len(self._content):
            raise MergeError("a content block is out of its place")
        self._block = OpenBlock(block)
        model = self._block.fallback_model
        if model is not None:  # what follows was written by that model, and the message is named after it
            self._message["model"] = model

    def _opened(self, event: dict[str, Json]) -> OpenBlock:
        if self._block is None or event.get("index") != len(self._content):
            raise MergeError("an event belongs to no open content block")
        return self._block

    def _change(self, event: dict[str, Json]) -> None:
        self._enter(_HAS_DELTA, after=(_IN_CONTENT, _HAS_DELTA))
        message, delta, usage = self._message, event.get("delta"), event.get("usage")
        if type(delta) is not dict or not (usage is None or type(usage) is dict):
            raise MergeError("a message_delta has no delta, or a usage that is none")
        _only(delta, _ENDING)
        for name in _ENDING:
            if name not in delta:
                continue
            if message.get(name) and message[name] != delta[name]:
                raise MergeError(f"events contradict each other in {name!r}")
            message[name] = delta[name]
        for name in ("context_management", "input_transformations"):
            if event.get(name) is not None:
                message[name] = event[name]
        if usage:
            _add_usage(message, usage)


def merge(events: Iterable[bytes]) -> dict[str, Json]:
    """Merge all payloads of a stream into one message. Linear in their bytes.

    Raises:
        MergeError: the stream does not add up with certainty; it must not be stored.
    """
    merged = ReplyMerge()
    for event in events:
        merged.add(event)
    return merged.reply()


def _read(data: bytes) -> dict[str, Json]:
    """Parse a payload and refuse what is no event that we know, with no more fields than we know."""
    try:
        event: dict[str, Json] = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise MergeError("an event is not valid JSON") from error
    kind = event.get("type") if type(event) is dict else None
    if kind == "ping":
        return event
    fields = _FIELDS.get(kind) if type(kind) is str else None
    if fields is None:
        raise MergeError("an event carries an error" if kind == "error" else "an event has an unknown type")
    if not fields.issuperset(event):
        _only(event, fields)
    return event


def _only(found: dict[str, Json], known: Collection[str]) -> None:
    """Refuse fields that we do not know; null ones say nothing."""
    for name, value in found.items():
        if name not in known and value is not None:
            raise MergeError("an event has an unknown field")


def _add_usage(message: dict[str, Json], usage: dict[str, Json]) -> None:
    """Overwrite the counts that `usage` names: they are cumulative. Null ones say nothing."""
    known = message.get("usage")
    if type(known) is not dict:
        known = message["usage"] = {}
    for name, value in usage.items():
        if value is not None or name not in known:
            known[name] = value
