"""Merge the chunks of a streamed text completion into the reply that was streamed.

The rules are those of chat completions (`dialects.openai.merge`): *texts and what goes by token add up, everything
else must agree*. A stream that breaks them raises MergeError and is not stored.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import orjson

from openclaw_cache.dialects.openai.progress import DONE
from openclaw_cache.errors import MergeError
from openclaw_cache.types import Json

_FIRST: Final = frozenset({"id", "object", "created", "model", "system_fingerprint", "service_tier"})
"""Top-level fields of which the first filled value counts: some senders stamp every chunk anew."""

PADDING: Final = frozenset({"obfuscation", "p"})
"""Random filler of single chunks against length side channels: no part of the reply."""

_DEEP_BYTES: Final = 500
"""What is shorter cannot be nested deeper than orjson writes again (254)."""


class _Choice:
    """One choice while its chunks come in."""

    __slots__ = ("fields", "finish_reason", "texts")

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.fields: dict[str, Json] = {}
        self.finish_reason: str | None = None

    def add(self, choice: dict[str, Json]) -> None:
        for key, value in choice.items():
            if key == "text":
                self._add_text(value)
            elif key == "finish_reason":
                self._finish(value)
            elif key == "logprobs" and type(self.fields.get(key)) is dict and type(value) is dict:
                _join_logprobs(self.fields[key], value)
            elif key == "token_ids" and type(self.fields.get(key)) is list and type(value) is list:
                self.fields[key].extend(value)
            elif key != "index":
                _agree(self.fields, key, value)

    def _add_text(self, text: Json) -> None:
        if text is not None and type(text) is not str:
            raise MergeError("a text is not a string")
        self.texts.append(text or "")

    def _finish(self, reason: Json) -> None:
        """Set the finish_reason; null and empty ones say that the choice goes on."""
        if reason:
            if self.finish_reason not in (None, reason):
                raise MergeError("a choice finishes for two different reasons")
            self.finish_reason = reason

    def merged(self, index: int) -> dict[str, Json]:
        text = "".join(self.texts)
        return {"text": text, "index": index, **self.fields, "finish_reason": self.finish_reason}


def merge(events: Iterable[bytes]) -> dict[str, Json]:
    """Merge all payloads of a stream into one reply. Linear in their bytes, about 3 µs a chunk.

    Raises:
        MergeError: the stream does not add up with certainty; it must not be stored.
    """
    top: dict[str, Json] = {}
    choices: dict[int, _Choice] = {}
    for event in events:
        if event.startswith(DONE):
            continue
        chunk = _parsed(event)
        for choice in _choices(chunk.pop("choices", None)):
            choices.setdefault(choice["index"], _Choice()).add(choice)
        for key, value in chunk.items():
            _add_field(top, key, value)
    if not top and not choices:
        raise MergeError("the stream has no chunk")
    usage = {"usage": top.pop("usage")} if "usage" in top else {}  # to the end, where readers expect it
    return {**top, "choices": [choices[index].merged(index) for index in sorted(choices)], **usage}


def _parsed(event: bytes) -> dict[str, Json]:
    try:
        chunk = orjson.loads(event)
        if len(event) > _DEEP_BYTES:
            orjson.dumps(chunk)  # what cannot be written again is refused before we recurse into it
    except orjson.JSONDecodeError as error:
        raise MergeError("a chunk is not valid JSON") from error
    except orjson.JSONEncodeError as error:
        raise MergeError("a chunk is nested too deeply") from error
    if type(chunk) is not dict:
        raise MergeError("a chunk is not a JSON object")
    return chunk


def _choices(choices: Json) -> list[dict[str, Json]]:
    """Check a chunk's choices. One that stands alone may leave out its index."""
    if choices is None:
        return []
    if type(choices) is not list or any(type(choice) is not dict for choice in choices):
        raise MergeError("choices is not an array of objects")
    if len(choices) == 1 and choices[0].get("index") is None:
        choices[0]["index"] = 0
    if any(type(choice.get("index")) is not int for choice in choices):
        raise MergeError("a choice has no index")
    return choices


def _add_field(top: dict[str, Json], key: str, value: Json) -> None:
    if key in PADDING:
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


def _join_logprobs(old: dict[str, Json], new: dict[str, Json]) -> None:
    """Add to the lists, which have an item for each token, all of them or none."""
    if old.keys() != new.keys():
        raise MergeError("the logprobs of a choice change their form")
    for name, value in new.items():
        if type(old[name]) is list and type(value) is list:
            old[name].extend(value)
        elif old[name] != value:
            raise MergeError(f"chunks contradict each other in {name!r}")


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
