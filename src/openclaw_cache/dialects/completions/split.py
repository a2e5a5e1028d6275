"""Replay a stored text completion as the event stream that a streaming client expects.

`merge(split(reply, include_usage=True)) == reply` for every reply that `shape_fault` accepts and whose choices have a
finish_reason. Without `include_usage` the usage, and only that, stays out of the stream.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import orjson

from openclaw_cache.dialects.completions.merge import PADDING
from openclaw_cache.dialects.pieces import pieces
from openclaw_cache.types import Json

_EVERY_CHUNK: Final = ("id", "object", "created", "model", "system_fingerprint", "service_tier")
"""Fields that each chunk repeats; other top-level fields ride on the first chunk only."""

_OWN: Final = frozenset({"index", "text", "logprobs", "finish_reason"})


def shape_fault(reply: Json) -> str | None:
    """Return why a reply cannot be replayed as a stream without loss, or None when it can."""
    choices = reply.get("choices") if isinstance(reply, dict) else None
    if not isinstance(choices, list) or not choices:
        return "it has no choices"
    if not PADDING.isdisjoint(reply) or reply.get("error") or reply.get("object") == "error":
        return "it has a field that means something else in a stream"
    last = -1
    for choice in choices:
        fault = _choice_fault(choice)
        if fault is not None:
            return fault
        if choice["index"] <= last:
            return "its choices are not in order"
        last = choice["index"]
    return None


def _choice_fault(choice: Json) -> str | None:
    if not isinstance(choice, dict) or type(choice.get("index")) is not int:
        return "a choice has no index"
    if not isinstance(choice.get("text"), str):
        return "a choice has no text"
    if not isinstance(choice.get("finish_reason"), str | None):
        return "a finish_reason is not a string"
    return None


def split(reply: dict[str, Json], *, include_usage: bool, max_piece_chars: int = 256) -> bytes:
    r"""Return the whole event stream of a reply, `data: [DONE]\n\n` included.

    Choices follow each other by index: pieces of the text, each with its log probabilities where the tokens spell
    the text, and a last chunk with the finish_reason and the choice's other fields. With `include_usage` the usage
    comes after them with `choices: []`, and all other chunks have `usage: null`, as OpenAI sends it.

    Raises:
        ValueError: `shape_fault` names a reason; nothing that was admitted to the cache has one.
    """
    fault = shape_fault(reply)
    if fault is not None:
        raise ValueError(f"the reply cannot be replayed as a stream: {fault}")
    head = {key: reply[key] for key in _EVERY_CHUNK if key in reply}
    opened = orjson.dumps(head)[:-1] + (b"," if head else b"") + b'"choices":['
    closed = b'],"usage":null}' if include_usage and "usage" in reply else b"]}"
    extra = {key: value for key, value in reply.items() if key not in (*head, "choices", "usage")}
    stream: list[bytes] = []
    for choice in reply["choices"]:
        for chunk in _choice_chunks(choice, max_piece_chars):
            end = closed if stream or not extra else b"]," + orjson.dumps(extra)[1:-1] + closed[1:]
            stream.append(b"data: %s%s%s\n\n" % (opened, chunk, end))
    if include_usage and reply.get("usage") is not None:
        stream.append(b'data: %s],"usage":%s}\n\n' % (opened, orjson.dumps(reply["usage"])))
    stream.append(b"data: [DONE]\n\n")
    return b"".join(stream)


def _choice_chunks(choice: dict[str, Json], max_piece_chars: int) -> Iterator[bytes]:
    """Yield the choice objects of the chunks that replay one choice."""
    index, text, logprobs = choice["index"], choice["text"], choice.get("logprobs")
    idle: dict[str, Json] = {"logprobs": None} if "logprobs" in choice else {}
    told = _token_pieces(text, logprobs)
    for piece, given in told or [(piece, idle) for piece in pieces(text, max_piece_chars)]:
        yield orjson.dumps({"text": piece, "index": index, **given, "finish_reason": None})
    last = {"text": "", "index": index, **(idle if told or logprobs is None else {"logprobs": logprobs})}
    last["finish_reason"] = choice.get("finish_reason")
    last.update((key, value) for key, value in choice.items() if key not in _OWN)
    yield orjson.dumps(last)


def _token_pieces(text: str, logprobs: Json) -> list[tuple[str, dict[str, Json]]]:
    """Cut a text by its tokens, each with its place in all lists of `logprobs`; not where they do not spell it."""
    tokens = logprobs.get("tokens") if isinstance(logprobs, dict) else None
    if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
        return []
    if "".join(tokens) != text or not all(
        items is None or (isinstance(items, list) and len(items) == len(tokens))
        for items in logprobs.values()
    ):
        return []
    return [
        (token, {"logprobs": {name: items and [items[number]] for name, items in logprobs.items()}})
        for number, token in enumerate(tokens)
    ]
