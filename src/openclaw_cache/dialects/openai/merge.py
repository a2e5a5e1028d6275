"""Merge the chunks of a streamed chat completion into the reply that was streamed.

Two rules, and nothing is guessed: *deltas add up, everything else must agree*. Inside `delta` strings
concatenate, lists join (items with an `index` by it), objects recurse and other values must not change:
what the official SDKs' accumulators build. Outside `delta` a field states a fact, so that a later chunk
may add to it but not contradict it. A stream that breaks a rule raises MergeError and is not stored.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import orjson

from openclaw_cache.dialects.openai.progress import DONE
from openclaw_cache.errors import MergeError
from openclaw_cache.types import Json

_ONCE: Final = frozenset({"role", "id", "type", "name", "index", "format", "model", "object"})
"""Strings of a delta that name something: senders repeat them, or send them empty, in later deltas."""

_FIRST: Final = frozenset({"id", "object", "created", "model", "system_fingerprint", "service_tier"})
"""Top-level fields of which the first filled value counts: some senders stamp every chunk anew, and
Azure opens with a chunk whose id, model and created are empty."""

_PADDING: Final = frozenset({"obfuscation", "p"})
"""Random filler of single chunks against length side channels (OpenAI, Azure; Mistral, Cloudflare)."""


_DEEP_BYTES: Final = 500
"""What is shorter cannot be nested deeper than orjson writes again (254)."""


class _Pieces(list[str]):
    """A string that still grows. Joined once, so that a merge stays linear in the stream."""

    __slots__ = ()


class _Choice:
    """One choice while its chunks come in."""

    __slots__ = ("fields", "finish_reason", "idle", "message")

    def __init__(self) -> None:
        self.idle: Json = None  # what stands beside the delta in a chunk that says nothing there
        self.message: dict[str, Json] = {}
        self.fields: dict[str, Json] = {}
        self.finish_reason: str | None = None

    def finish(self, reason: str | None) -> None:
        """Set the finish_reason; null and empty ones say that the choice goes on."""
        if reason:
            if self.finish_reason not in (None, reason):
                raise MergeError("a choice finishes for two different reasons")
            self.finish_reason = reason


class ReplyMerge:
    """Merges as the chunks arrive. `add` costs about 2 µs for a content chunk, `reply` is linear."""

    __slots__ = ("_choices", "_last", "_top")

    def __init__(self) -> None:
        self._top: dict[str, Json] = {}
        self._last: dict[str, Json] = {}
        self._choices: dict[int, _Choice] = {}

    def add(self, event: bytes) -> None:
        """Take in one event's payload; `[DONE]` says nothing.

        Raises:
            MergeError: the payload is no JSON object, carries an error, or contradicts the chunks before.
        """
        if event.startswith(DONE):
            return
        try:
            chunk = orjson.loads(event)
        except orjson.JSONDecodeError as error:
            raise MergeError("a chunk is not valid JSON") from error
        if type(chunk) is not dict:
            raise MergeError("a chunk is not a JSON object")
        if len(event) > _DEEP_BYTES:
            _check_depth(chunk)
        choices = chunk.pop("choices", None)
        if choices:
            self._add_choices(choices)
        if chunk != self._last:  # nearly every chunk repeats the head of the one before
            self._last = chunk
            for key, value in chunk.items():
                self._add_field(key, value)

    def _add_field(self, key: str, value: Json) -> None:
        top = self._top
        if key in _PADDING:
            return
        if (key == "error" and value) or (key in ("object", "type") and value == "error"):
            raise MergeError("a chunk carries an error")
        if key in _FIRST:
            if key not in top or (value and not top[key]):
                top[key] = value
        elif key == "usage":  # counts grow where a sender reports them in every chunk
            if value is not None or key not in top:
                top[key] = value
        else:
            _agree(top, key, value)

    def _add_choices(self, choices: Json) -> None:
        if type(choices) is not list:
            raise MergeError("choices is not an array")
        for choice in choices:
            if type(choice) is not dict:
                raise MergeError("a choice is not an object")
            index = choice.get("index")
            if index is None and len(choices) == 1:
                index = 0
            if type(index) is not int:
                raise MergeError("a choice has no index")
            merged = self._choices.get(index)
            if merged is None:
                merged = self._choices[index] = _Choice()
            _add_choice(merged, choice)

    def reply(self) -> dict[str, Json]:
        """Return the `chat.completion` that the chunks add up to; each finish_reason may still be None.

        Raises:
            MergeError: there was no chunk, or a tool call cannot be placed.
        """
        if not self._top and not self._choices:
            raise MergeError("the stream has no chunk")
        reply = {**self._top, "object": "chat.completion"}
        usage = reply.pop("usage", self)  # to the end, where readers expect it
        reply["choices"] = [_finished(index, self._choices[index]) for index in sorted(self._choices)]
        if usage is not self:
            reply["usage"] = usage
        return reply


def merge(events: Iterable[bytes]) -> dict[str, Json]:
    """Merge all payloads of a stream into one reply. Linear in their bytes.

    `message.content` is null where no chunk had content (as in the non-streaming API for a reply of tool
    calls), `""` where only empty content came. `role` is `assistant` where no chunk names one.

    Raises:
        MergeError: the stream does not add up with certainty; it must not be stored.
    """
    merged = ReplyMerge()
    for event in events:
        merged.add(event)
    return merged.reply()


def _check_depth(chunk: Json) -> None:
    """Refuse what could be merged but not written again, before we recurse into it."""
    try:
        orjson.dumps(chunk)
    except orjson.JSONEncodeError as error:
        raise MergeError("a chunk is nested too deeply") from error


def _add_choice(merged: _Choice, choice: dict[str, Json]) -> None:
    delta = choice.pop("delta", None)
    if delta:
        _add(merged.message, delta)
    if choice == merged.idle:
        return
    for key, value in choice.items():
        if key == "finish_reason":
            merged.finish(value)
        elif value is None:
            merged.fields.setdefault(key, None)
        elif key == "message":
            raise MergeError("a chunk carries a whole message")
        elif key != "index":
            _add_choice_field(merged.fields, key, value)
    if all(value is None or key == "index" for key, value in choice.items()):
        merged.idle = choice


def _add_choice_field(fields: dict[str, Json], key: str, value: Json) -> None:
    """Add to what grows with the tokens (`logprobs`, vLLM's `token_ids`); the rest must agree."""
    old = fields.get(key)
    if old is None:
        fields[key] = value
    elif key == "logprobs" and type(old) is dict and type(value) is dict:
        for part, items in value.items():
            if type(old.get(part)) is list and type(items) is list:
                old[part].extend(items)
            else:
                _agree(old, part, items)
    elif key == "token_ids" and type(old) is list and type(value) is list:
        old.extend(value)
    else:
        _agree(fields, key, value)


def _agree(into: dict[str, Json], key: str, value: Json) -> None:
    """Set a field that states a fact: null is no statement, objects may gain fields, else equal or error."""
    old = into.get(key)
    if value is None:
        into.setdefault(key, None)
    elif old is None:
        into[key] = value
    elif type(old) is dict and type(value) is dict:
        for name, item in value.items():
            _agree(old, name, item)
    elif old != value:
        raise MergeError(f"chunks contradict each other in {key!r}")


def _add(into: dict[str, Json], delta: Json) -> None:
    """Add a delta to what its predecessors built."""
    if type(delta) is not dict:
        raise MergeError("a delta is not an object")
    for key, value in delta.items():
        old, kind = into.get(key), type(value)
        if kind is str:
            if type(old) is _Pieces:
                old.append(value)
            else:
                into[key] = _text(key, old, value)
        elif kind is list:
            _add_list(into, key, value)
        elif kind is dict:
            if old is None:
                old = into[key] = {}
            _add_object(old, key, value)
        elif old is None:
            into[key] = value
        elif value is not None and old != value:
            raise MergeError(f"deltas contradict each other in {key!r}")


def _text(key: str, old: Json, value: str) -> Json:
    """Begin a string, or repeat one that only names something."""
    if key in _ONCE:
        if old is None or old == "":
            return value
        if value and value != old:
            raise MergeError(f"deltas contradict each other in {key!r}")
        return old
    if old is not None:
        raise MergeError(f"{key!r} changes its type")
    return _Pieces((value,))


def _add_object(old: Json, key: str, value: Json) -> None:
    if type(old) is not dict:
        raise MergeError(f"{key!r} changes its type")
    _add(old, value)


def _add_list(into: dict[str, Json], key: str, items: list[Json]) -> None:
    """Join a list: items with an `index` grow the item that an earlier delta opened under it."""
    old = into.get(key)
    if old is None:
        old = into[key] = []
    elif type(old) is not list:
        raise MergeError(f"{key!r} changes its type")
    earlier = tuple(old)  # two items of one delta are two items, whatever their index
    for item in items:
        if type(item) is not dict:
            old.append(item)
            continue
        index = item.get("index")
        known = [one for one in earlier if type(one) is dict and one.get("index") == index]
        if index is None or not known:
            opened: dict[str, Json] = {}
            _add(opened, item)
            old.append(opened)
        elif len(known) == 1:
            _add(known[0], item)
        else:
            raise MergeError(f"two items of {key!r} share one index")


def _settled(value: Json) -> Json:
    """Return a copy of a merged delta with its growing strings joined."""
    if type(value) is _Pieces:
        return "".join(value)
    if type(value) is dict:
        return {key: _settled(item) for key, item in value.items()}
    if type(value) is list:
        return [_settled(item) for item in value]
    return value


def _finished(index: int, merged: _Choice) -> dict[str, Json]:
    message = {"role": "assistant", "content": None, **_settled(merged.message)}
    message["role"] = message["role"] or "assistant"
    calls = message.get("tool_calls")
    if calls:
        message["tool_calls"] = _placed(calls)
    return {"index": index, "message": message, **merged.fields, "finish_reason": merged.finish_reason}


def _placed(calls: Json) -> list[Json]:
    """Order tool calls by the stream's `index`, which the whole reply does not have."""
    if type(calls) is not list or any(
        type(call) is not dict or type(call.get("index")) is not int for call in calls
    ):
        raise MergeError("a tool call has no index")
    calls.sort(key=lambda call: call["index"])
    return [{key: value for key, value in call.items() if key != "index"} for call in calls]
