"""What a reply says, read by the protocols' own rules and nothing else: the judge of what may be stored and shown.

Shares no code with the gateway. Where it reads a reply as whole and good, the gateway may store it; where not, it must
not. What was stored must say the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

Json = Any
OPENAI: Final = {"chat", "completions", "responses", "embeddings"}
Event = tuple[str, bytes]
"""An event's type, `message` where its sender names none, and its payload."""


@dataclass(frozen=True, slots=True)
class View:
    """What a reply says, in a form in which two of them can be compared, and whether it may be given again."""

    says: Json
    is_storable: bool


def sse_events(raw: bytes, *, is_whole: bool = True) -> list[Event]:
    """The events of a stream (WHATWG HTML §9.2.6), of which a last one without its blank line counts where the
    stream was not cut: servers that leave the line out mean it.
    """
    lines = raw.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    found: list[Event] = []
    kind, data = b"", list[bytes]()
    last = lines.pop()
    for line in [*lines, *([last, b""] if is_whole else [])]:
        if not line:
            if data:
                found.append((kind.decode("latin-1") or "message", b"\n".join(data)))
            kind, data = b"", []
            continue
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"event":
            kind = value
        elif name == b"data":
            data.append(value)
    return found


def loads(data: bytes) -> Json:
    """JSON (RFC 8259). Raises ValueError."""

    def refuse(word: str) -> Json:
        raise ValueError(word)

    return json.loads(data.decode(), parse_constant=refuse)


def an_object(data: bytes) -> dict[str, Json] | None:
    """A JSON object; None where it is none."""
    try:
        value = loads(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


# Where a stream ends.

_RESPONSE_ENDS: Final = ("response.completed", "response.incomplete", "response.failed")


def is_end(api: str, event: Event) -> bool:
    """Whether an event ends its stream."""
    kind, data = event
    if api in ("chat", "completions"):
        return data.startswith(b"[DONE]") and kind != "error"
    told = (an_object(data) or {}).get("type")
    if api == "messages":
        return told == "message_stop" and kind != "error"
    named = kind if kind.startswith(("response.", "error")) else told
    return named in _RESPONSE_ENDS


def is_error(event: Event) -> bool:
    """Whether an event tells of a failure."""
    kind, data = event
    told = an_object(data) or {}
    names = (told.get("type"), told.get("object"))
    return kind == "error" or bool(told.get("error")) or "error" in names or "response.failed" in names


# What a stream says.


def of_stream(api: str, events: Sequence[Event]) -> View | None:
    """What the events up to the one that ends the stream add up to; None where they do not, or one is an error."""
    end = next((i for i, event in enumerate(events) if is_end(api, event)), None)
    if end is None or any(is_error(event) for event in events[: end + 1]):
        return None
    payloads = [an_object(data) for _, data in events[: end + 1] if not data.startswith(b"[DONE]")]
    if any(payload is None for payload in payloads):
        return None
    try:
        return _OF_STREAM[api]([payload for payload in payloads if payload is not None])
    except (KeyError, TypeError, AttributeError, ValueError, IndexError):
        return None


def _chat_stream(chunks: list[dict[str, Json]]) -> View | None:
    choices: dict[int, dict[str, Json]] = {}
    for chunk in chunks:
        for choice in chunk.get("choices") or []:
            index = choice.get("index", 0)
            own = choices.setdefault(index, {"index": index, "message": {}, "finish_reason": None})
            if choice.get("finish_reason"):
                own["finish_reason"] = choice["finish_reason"]
            delta, message = choice.get("delta") or {}, own["message"]
            for name in ("content", "reasoning_content", "refusal"):
                if isinstance(delta.get(name), str):
                    message[name] = message.get(name, "") + delta[name]
                elif delta.get(name) is not None:
                    message[name] = delta[name]
            for call in delta.get("tool_calls") or []:
                calls = message.setdefault("tool_calls", {})
                known = calls.setdefault(call["index"], {"id": "", "function": {"name": "", "arguments": ""}})
                known["id"] = call.get("id") or known["id"]
                told = call.get("function") or {}
                known["function"]["name"] = told.get("name") or known["function"]["name"]
                known["function"]["arguments"] += told.get("arguments") or ""
    for choice in choices.values():
        calls = choice["message"].get("tool_calls")
        if calls:
            choice["message"]["tool_calls"] = [calls[i] for i in sorted(calls)]
    return _chat_view([choices[i] for i in sorted(choices)])


def _chat_view(choices: list[dict[str, Json]]) -> View | None:
    said = []
    for choice in choices:
        message = choice["message"]
        texts = [message.get(name) or "" for name in ("content", "reasoning_content", "refusal")]
        if not isinstance(texts[0], str | list):
            return None
        calls = [
            (call.get("id") or "", *_function(call["function"])) for call in message.get("tool_calls") or []
        ]
        said.append((choice["index"], *texts, calls, choice.get("finish_reason")))
    is_good = bool(said) and all(
        finish in ("stop", "tool_calls")
        and not refusal
        and (text or calls)
        and all(map(_is_whole_call, calls))
        for _, text, _, refusal, calls, finish in said
    )
    return View(said, is_good)


def _function(told: dict[str, Json]) -> tuple[Json, Json]:
    """What a call says of its function; nothing is the same as no text."""
    return told.get("name") or "", told.get("arguments") or ""


def _is_whole_call(call: tuple[str, str, str]) -> bool:
    """Whether a tool call has a name, and its arguments are JSON."""
    _, name, arguments = call
    try:
        return bool(name) and (
            not isinstance(arguments, str) or bool(str(loads(arguments.encode() or b"{}")))
        )
    except (ValueError, RecursionError):
        return False


def _completions_stream(chunks: list[dict[str, Json]]) -> View | None:
    choices: dict[int, list[Json]] = {}
    for chunk in chunks:
        for choice in chunk.get("choices") or []:
            own = choices.setdefault(choice.get("index", 0), ["", None])
            own[0] += choice.get("text") or ""
            own[1] = choice.get("finish_reason") or own[1]
    return _completions_view(
        [{"index": i, "text": t, "finish_reason": f} for i, (t, f) in sorted(choices.items())]
    )


def _completions_view(choices: list[dict[str, Json]]) -> View:
    said = [(choice["index"], choice["text"], choice.get("finish_reason")) for choice in choices]
    return View(said, bool(said) and all(finish == "stop" and text for _, text, finish in said))


def _responses_stream(events: list[dict[str, Json]]) -> View | None:
    response = events[-1]["response"]
    view = _responses_view(response)
    deltas: dict[int, str] = {}
    for event in events:
        if event.get("type") == "response.output_text.delta":
            deltas[event["output_index"]] = deltas.get(event["output_index"], "") + event["delta"]
    for index, text in deltas.items():
        if "".join(part["text"] for part in response["output"][index]["content"]) != text:
            return None
    numbers = [event["sequence_number"] for event in events if event.get("sequence_number") is not None]
    return view if numbers == sorted(set(numbers)) else None


def _responses_view(reply: dict[str, Json]) -> View:
    output, status = reply["output"], reply["status"]
    is_whole = status == "completed" and all(item.get("status") in (None, "completed") for item in output)
    texts = [part["text"] for item in output if item["type"] == "message" for part in item["content"]]
    has_call = any(item["type"] not in ("message", "reasoning") for item in output)
    return View((output, status), is_whole and (has_call or any(texts)) and not reply.get("error"))


def _messages_stream(events: list[dict[str, Json]]) -> View | None:
    told = [event for event in events if event["type"] != "ping"]
    ends = [
        event for event in told if event["type"] == "message_delta"
    ]  # one or more, the documentation says
    kinds = [event["type"] for event in told]
    if kinds[0] != "message_start" or kinds[-1 - len(ends) :] != ["message_delta"] * len(ends) + [
        "message_stop"
    ]:
        return None
    content: list[dict[str, Json]] = []
    open_block: dict[str, Json] | None = None
    written = ""
    for event in told[1 : -1 - len(ends)]:
        match event["type"]:
            case "content_block_start" if open_block is None and event["index"] == len(content):
                open_block, written = dict(event["content_block"]), ""
                content.append(open_block)
            case "content_block_delta" if open_block is not None and event["index"] == len(content) - 1:
                delta = event["delta"]
                match delta["type"], open_block["type"]:
                    case "text_delta", "text":
                        open_block["text"] += delta["text"]
                    case "thinking_delta", "thinking":
                        open_block["thinking"] += delta["thinking"]
                    case "signature_delta", "thinking" if not open_block.get("signature"):
                        open_block["signature"] = delta["signature"]
                    case "input_json_delta", "tool_use":
                        written += delta["partial_json"]
                    case _:
                        return None
            case "content_block_stop" if open_block is not None and event["index"] == len(content) - 1:
                if written:
                    open_block["input"] = loads(written.encode())
                open_block = None
            case _:
                return None
    message = {**told[0]["message"], **ends[-1]["delta"], "content": content}
    message["usage"] = {**(message.get("usage") or {}), **(ends[-1].get("usage") or {})}
    return None if open_block is not None else _messages_view(message)


def _messages_view(reply: dict[str, Json]) -> View:
    content, stop = reply["content"], reply["stop_reason"]
    asides = ("text", "thinking", "redacted_thinking")
    has_answer = any(block["type"] not in asides or block.get("text") for block in content)
    has_usage = isinstance(reply["usage"]["output_tokens"], int)
    is_message = reply.get("type", "message") == "message" and reply.get("role", "assistant") == "assistant"
    is_good = stop in ("end_turn", "stop_sequence", "tool_use") and has_answer and has_usage and is_message
    return View((content, stop), is_good)


_OF_STREAM: Final[dict[str, Callable[[list[dict[str, Json]]], View | None]]] = {
    "chat": _chat_stream,
    "completions": _completions_stream,
    "responses": _responses_stream,
    "messages": _messages_stream,
}


# What a whole reply says.


def of_whole(api: str, body: bytes) -> View | None:
    """What a body says; None where it is no reply."""
    reply = an_object(body)
    if reply is None or reply.get("error"):
        return None
    if reply.get("type") == "error" or (api in OPENAI and reply.get("object") == "error"):
        return None
    try:
        match api:
            case "chat":
                return _chat_view(reply["choices"])
            case "completions":
                return _completions_view(reply["choices"])
            case "responses":
                return _responses_view(reply)
            case "messages":
                return _messages_view(reply)
            case "count_tokens":
                count = reply["input_tokens"]
                return View(count, type(count) is int and count >= 0)
            case _:
                return _embeddings_view(body)
    except (KeyError, TypeError, AttributeError, ValueError, IndexError):
        return None


def _embeddings_view(body: bytes) -> View | None:
    """Numbers are compared by their digits."""
    reply = json.loads(body, parse_float=lambda digits: ("n", digits), parse_int=lambda digits: ("n", digits))
    vectors = []
    for number, item in enumerate(reply["data"]):
        vector = item["embedding"]
        if item["index"] != ("n", str(number)) or not isinstance(vector, list) or not vector:
            return None
        if not all(isinstance(value, tuple) for value in vector):
            return None
        vectors.append(vector)
    return View(vectors, bool(vectors) and len({len(vector) for vector in vectors}) == 1)


def is_error_object(api: str, body: bytes) -> bool:
    """Whether a body is the API's own error object, as its SDKs read it."""
    told = an_object(body)
    error = (told or {}).get("error")
    if told is None or not isinstance(error, dict) or not isinstance(error.get("message"), str):
        return False
    return api in OPENAI or told.get("type") == "error"
