"""Replay a stored chat completion as the event stream that a streaming client expects.

`merge(split(reply, include_usage=True)) == reply` for every reply whose

* `object` is `chat.completion`, and no top-level field is stream padding (`obfuscation`, `p`) or an error,
* choices have `message.role`, `message.content` (null counts) and a finish_reason,
* tool calls have no `index` of their own (the stream's stands for it),

and that `shape_fault` accepts. A reply outside this list loses no content either: it is replayed whole, or
refused with ValueError. Without `include_usage` the usage, and only that, stays out of the stream.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import orjson

from openclaw_cache.dialects.pieces import pieces
from openclaw_cache.types import Json

_EVERY_CHUNK: Final = ("id", "object", "created", "model", "system_fingerprint", "service_tier")
"""Fields that each chunk repeats; other top-level fields ride on the first chunk only."""

_TEXTS: Final = ("reasoning_content", "reasoning", "content", "refusal")
"""Message fields that are cut into pieces, in the order of a live stream: thinking before the answer."""

_OWN: Final = frozenset({"index", "message", "logprobs", "finish_reason"})


def shape_fault(reply: Json) -> str | None:
    """Return why a reply cannot be replayed as a stream without loss, or None when it can."""
    choices = reply.get("choices") if isinstance(reply, dict) else None
    if not isinstance(choices, list) or not choices:
        return "it has no choices"
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
    message, finish = choice.get("message"), choice.get("finish_reason")
    if not isinstance(message, dict) or "delta" in choice:
        return "a choice has no message, or a delta beside it"
    if not isinstance(finish, str | None) or not isinstance(message.get("content"), str | list | None):
        return "a finish_reason is not a string, or content neither text nor a list"
    calls = message.get("tool_calls")
    if calls is not None and not isinstance(calls, list):
        return "tool_calls is not an array"
    for position, call in enumerate(calls or ()):
        if not isinstance(call, dict) or call.get("index", position) != position:
            return "a tool call is not an object, or out of its place"
    return None


def split(reply: dict[str, Json], *, include_usage: bool, max_piece_chars: int = 256) -> bytes:
    r"""Return the whole event stream of a reply, `data: [DONE]\n\n` included.

    Choices follow each other by index: a role chunk, pieces of reasoning, content and refusal, tool calls
    (id, type and name, then pieces of the arguments), and a finish chunk with the choice's other fields.
    With `include_usage` a last chunk has the usage and `choices: []`, and all others `usage: null`, as
    OpenAI sends it. About 1 µs a chunk.

    Raises:
        ValueError: `shape_fault` names a reason; nothing that was admitted to the cache has one.
    """
    fault = shape_fault(reply)
    if fault is not None:
        raise ValueError(f"the reply cannot be replayed as a stream: {fault}")
    head = {key: reply[key] for key in _EVERY_CHUNK if key in reply}
    head["object"] = "chat.completion.chunk"
    opened = b"data: " + orjson.dumps(head)[:-1] + b',"choices":['
    closed = b'],"usage":null}\n\n' if include_usage and "usage" in reply else b"]}\n\n"
    stream: list[bytes] = []
    for choice in reply["choices"]:
        for chunk in _choice_chunks(choice, max_piece_chars):
            stream += (opened, chunk, closed)
    extra = {
        key: value for key, value in reply.items() if key not in head and key not in ("choices", "usage")
    }
    if extra:
        stream[2] = b"]," + orjson.dumps(extra)[1:-1] + closed[1:]
    usage = reply.get("usage")
    if include_usage and usage is not None:
        stream += (opened, b'],"usage":', orjson.dumps(usage), b"}\n\n")
    stream.append(b"data: [DONE]\n\n")
    return b"".join(stream)


def _choice_chunks(choice: dict[str, Json], max_piece_chars: int) -> Iterator[bytes]:
    """Yield the choice objects of the chunks that replay one choice."""
    message, logprobs = choice["message"], choice.get("logprobs")
    start = b'{"index":%d,"delta":' % choice["index"]
    end = b',"logprobs":null,"finish_reason":null}' if "logprobs" in choice else b',"finish_reason":null}'
    long = [name for name in _TEXTS if isinstance(message.get(name), str) and message[name]]
    calls = message.get("tool_calls")

    opening = {"role": "assistant", **message}
    for name in long:
        del opening[name]
    if "content" in long:
        opening["content"] = ""
    if calls:
        del opening["tool_calls"]
    yield start + orjson.dumps(opening) + end

    for name in long:
        field = start + b'{"' + name.encode() + b'":'
        if name == "content" and logprobs:
            for piece, part in _token_pieces(message[name], logprobs):
                yield b"".join(
                    (
                        field,
                        orjson.dumps(piece),
                        b'},"logprobs":',
                        orjson.dumps(part),
                        b',"finish_reason":null}',
                    )
                )
            logprobs = None
        else:
            for piece in pieces(message[name], max_piece_chars):
                yield field + orjson.dumps(piece) + b"}" + end
    for position, call in enumerate(calls or ()):
        for delta in _call_deltas(position, call, max_piece_chars):
            yield start + delta + end

    finish = {"logprobs": logprobs} if "logprobs" in choice else {}
    finish["finish_reason"] = choice.get("finish_reason")
    finish.update((key, value) for key, value in choice.items() if key not in _OWN)
    yield start + b"{}," + orjson.dumps(finish)[1:]


def _token_pieces(content: str, logprobs: Json) -> list[tuple[str, Json]]:
    """Pair content with its log probabilities: by token where the tokens spell it, else in one piece."""
    tokens = logprobs.get("content") if isinstance(logprobs, dict) else None
    if not isinstance(tokens, list):
        return [(content, logprobs)]
    spelled = [
        token["token"] for token in tokens if isinstance(token, dict) and isinstance(token.get("token"), str)
    ]
    if len(spelled) != len(tokens) or "".join(spelled) != content:
        return [(content, logprobs)]
    later = dict.fromkeys(logprobs)
    return [
        (text, {**(logprobs if number == 0 else later), "content": [token]})
        for number, (text, token) in enumerate(zip(spelled, tokens, strict=True))
    ]


def _call_deltas(position: int, call: dict[str, Json], max_piece_chars: int) -> Iterator[bytes]:
    """Yield the deltas of one tool call: its header, then pieces of its arguments."""
    header, arguments = {"index": position, **call}, ""
    function = call.get("function")
    if isinstance(function, dict) and isinstance(function.get("arguments"), str):
        arguments = function["arguments"]
        header["function"] = {**function, "arguments": ""}
    yield orjson.dumps({"tool_calls": [header]})
    field = b'{"tool_calls":[{"index":%d,"function":{"arguments":' % position
    for piece in pieces(arguments, max_piece_chars):
        yield field + orjson.dumps(piece) + b"}}]}"
