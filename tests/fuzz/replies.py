"""Good replies of every API, whole and as the events of a stream, as its documentation and its servers have them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

Json = Any
Event = tuple[str | None, bytes]
"""An event's type, where its sender names one, and its payload."""

WORDS: Final = (
    *("Zu Köln ", "🏰", "答案", " ", "\n", "\n\n", "data: [DONE]\n\n", "[DONE]", '"error"', '{"error": {}}'),
    *(
        "\r",
        "\\",
        '"',
        "\u2028",
        "event: error",
        '"usage":null}',
        "message_stop",
        "response.completed",
        "é" * 40,
    ),
)
"""Texts that a careless reader takes for something of the protocol."""

STREAMED: Final = ("chat", "completions", "responses", "messages")
PATHS: Final = {
    "chat": "/v1/chat/completions",
    "completions": "/v1/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
    "count_tokens": "/v1/messages/count_tokens",
    "embeddings": "/v1/embeddings",
}


@dataclass(slots=True)
class Said:
    """One reply in both forms; `events` is empty where its API has no streams."""

    whole: Json
    events: list[Event] = field(default_factory=list)


def request(api: str, prompt: str, *, stream: bool, **fields: Json) -> dict[str, Json]:
    """A request that may be answered from the cache."""
    said: dict[str, Json] = {"model": "m"}
    if api in ("chat", "messages", "count_tokens"):
        said["messages"] = [{"role": "user", "content": prompt}]
    elif api == "completions":
        said["prompt"] = prompt
    elif api == "responses":
        said |= {"input": prompt, "store": False}
    else:
        said["input"] = [f"{prompt} {number}" for number in range(3)]
    if api == "messages":
        said["max_tokens"] = 99
    if stream:
        said["stream"] = True
    return said | fields


def said(api: str, rng: random.Random, nonce: str) -> Said:
    """A reply that may be stored; `nonce` is in its text."""
    return _MAKERS[api](rng, nonce)


def _pieces(rng: random.Random, nonce: str) -> list[str]:
    """The pieces of a text, never empty together."""
    found = [nonce, *rng.choices(WORDS, k=rng.randrange(6))]
    rng.shuffle(found)
    return found


def _dumps(value: Json) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _cut(rng: random.Random, text: str) -> list[str]:
    at = rng.randrange(len(text) + 1)
    return [text[:at], text[at:]]


_USAGE: Final = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}


def _chat(rng: random.Random, nonce: str) -> Said:
    pieces = _pieces(rng, nonce)
    message: dict[str, Json] = {"role": "assistant", "content": "".join(pieces), "refusal": None}
    deltas: list[Json] = [{"role": "assistant", "content": "", "refusal": None}]
    finish = "stop"
    if rng.random() < 0.2:
        thought = "".join(rng.choices(WORDS, k=2))
        message["reasoning_content"] = thought
        deltas += [{"reasoning_content": piece} for piece in _cut(rng, thought)]
    deltas += [{"content": piece} for piece in pieces]
    if rng.random() < 0.2:
        arguments, finish = json.dumps({"city": nonce}), "tool_calls"
        head = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": ""}}
        message["tool_calls"] = [{**head, "function": {"name": "weather", "arguments": arguments}}]
        deltas.append({"tool_calls": [{"index": 0, **head}]})
        deltas += [{"tool_calls": [{"index": 0, "function": {"arguments": a}}]} for a in _cut(rng, arguments)]
    top = {"id": f"chatcmpl-{rng.randrange(10**6)}", "created": 1_700_000_000, "model": "m"}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
    whole = {**top, "object": "chat.completion", "choices": [choice], "usage": _USAGE}
    chunk = {**top, "object": "chat.completion.chunk"}
    chunks = [{**chunk, "choices": [{"index": 0, "delta": d, "finish_reason": None}]} for d in deltas]
    chunks.append({**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    return Said(whole, _openai_events(rng, chunks, {**chunk, "choices": [], "usage": _USAGE}))


def _completions(rng: random.Random, nonce: str) -> Said:
    pieces = _pieces(rng, nonce)
    top = {"id": "cmpl-1", "object": "text_completion", "created": 1_700_000_000, "model": "m"}
    choice = {"index": 0, "text": "".join(pieces), "logprobs": None, "finish_reason": "stop"}
    chunks = [
        {**top, "choices": [{"index": 0, "text": piece, "logprobs": None, "finish_reason": None}]}
        for piece in pieces
    ]
    chunks.append({**top, "choices": [{"index": 0, "text": "", "logprobs": None, "finish_reason": "stop"}]})
    return Said(
        {**top, "choices": [choice], "usage": _USAGE},
        _openai_events(rng, chunks, {**top, "choices": [], "usage": _USAGE}),
    )


def _openai_events(rng: random.Random, chunks: list[Json], usage: Json) -> list[Event]:
    has_usage, has_null = rng.random() < 0.9, rng.random() < 0.5
    if has_usage and has_null:
        chunks = [{**chunk, "usage": None} for chunk in chunks]
    return [(None, _dumps(c)) for c in ([*chunks, usage] if has_usage else chunks)] + [(None, b"[DONE]")]


def _responses(rng: random.Random, nonce: str) -> Said:
    pieces = _pieces(rng, nonce)
    text = "".join(pieces)
    part = {"type": "output_text", "annotations": [], "logprobs": [], "text": text}
    item = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
    usage = {"input_tokens": 9, "output_tokens": 3, "total_tokens": 12}
    whole = {
        "id": "resp_1", "object": "response", "created_at": 1_700_000_000, "status": "completed", "error": None,
        "incomplete_details": None, "model": "m", "output": [item], "store": False, "usage": usage,
    }  # fmt: skip
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    opened, place = {**item, "status": "in_progress", "content": []}, {"item_id": "msg_1", "output_index": 0}
    told: list[tuple[str, dict[str, Json]]] = [
        ("response.created", {"response": begun}),
        ("response.output_item.added", {"output_index": 0, "item": opened}),
        ("response.content_part.added", {**place, "content_index": 0, "part": {**part, "text": ""}}),
        *(("response.output_text.delta", {**place, "content_index": 0, "delta": p}) for p in pieces),
        ("response.output_text.done", {**place, "content_index": 0, "text": text}),
        ("response.content_part.done", {**place, "content_index": 0, "part": part}),
        ("response.output_item.done", {"output_index": 0, "item": item}),
        ("response.completed", {"response": whole}),
    ]
    names_types = rng.random() < 0.8  # some servers leave the event lines out
    events = [
        (kind if names_types else None, _dumps({"type": kind, "sequence_number": number, **fields}))
        for number, (kind, fields) in enumerate(told)
    ]
    return Said(whole, events)


def _messages(rng: random.Random, nonce: str) -> Said:
    pieces = _pieces(rng, nonce)
    blocks: list[tuple[Json, Json, list[Json]]] = []  # whole, opened, deltas
    if rng.random() < 0.3:
        signature = "EqQBCgIYAhIM1gbcDa9GJwZA2b3h+/=="
        blocks.append(
            (
                {"type": "thinking", "thinking": "Hm\n", "signature": signature},
                {"type": "thinking", "thinking": "", "signature": ""},
                [
                    {"type": "thinking_delta", "thinking": "Hm\n"},
                    {"type": "signature_delta", "signature": signature},
                ],
            )
        )
    texts = [{"type": "text_delta", "text": piece} for piece in pieces]
    blocks.append(({"type": "text", "text": "".join(pieces)}, {"type": "text", "text": ""}, texts))
    stop = "end_turn"
    if rng.random() < 0.3:
        stop, tool = "tool_use", {"type": "tool_use", "id": "toolu_1", "name": "weather"}
        written = json.dumps({"city": nonce})
        inputs = [{"type": "input_json_delta", "partial_json": p} for p in ("", *_cut(rng, written))]
        blocks.append(({**tool, "input": {"city": nonce}}, {**tool, "input": {}}, inputs))
    usage = {"input_tokens": 9, "output_tokens": 3}
    whole = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [b[0] for b in blocks],
        "stop_reason": stop, "stop_sequence": None, "usage": usage,
    }  # fmt: skip
    start = {**whole, "content": [], "stop_reason": None, "usage": {"input_tokens": 9, "output_tokens": 1}}
    told: list[Json] = [{"type": "message_start", "message": start}, {"type": "ping"}]
    for index, (_, opened, deltas) in enumerate(blocks):
        told.append({"type": "content_block_start", "index": index, "content_block": opened})
        told += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        told.append({"type": "content_block_stop", "index": index})
    end = {"stop_reason": stop, "stop_sequence": None}
    told += [{"type": "message_delta", "delta": end, "usage": {"output_tokens": 3}}, {"type": "message_stop"}]
    return Said(whole, [(event["type"], _dumps(event)) for event in told])


def _count_tokens(rng: random.Random, nonce: str) -> Said:
    return Said({"input_tokens": rng.randrange(10**6)})


def _embeddings(rng: random.Random, nonce: str) -> Said:
    vectors = [[round(rng.uniform(-1, 1), rng.randrange(1, 17)) for _ in range(4)] for _ in range(3)]
    data = [{"object": "embedding", "index": i, "embedding": vector} for i, vector in enumerate(vectors)]
    return Said(
        {"object": "list", "data": data, "model": "m", "usage": {"prompt_tokens": 9, "total_tokens": 9}}
    )


_MAKERS: Final[dict[str, Callable[[random.Random, str], Said]]] = {
    "chat": _chat,
    "completions": _completions,
    "responses": _responses,
    "messages": _messages,
    "count_tokens": _count_tokens,
    "embeddings": _embeddings,
}


def rendered(events: Sequence[Event], rng: random.Random) -> list[bytes]:
    """The events on the wire, each in a way in which the standard lets one write it."""
    end = rng.choice((b"\n", b"\n", b"\n", b"\r\n", b"\r"))
    space = rng.choice((b" ", b" ", b" ", b""))
    found = []
    for kind, data in events:
        lines = [] if kind is None else [b"event:" + space + kind.encode()]
        if rng.random() < 0.05:
            lines.insert(
                rng.randrange(len(lines) + 1), rng.choice((b": ping", b":", b"id: 7", b"retry: 10", b"x"))
            )
        payloads = [data]
        if rng.random() < 0.03 and data.startswith(b"{"):
            payloads = json.dumps(json.loads(data), indent=1).encode().split(b"\n")
        lines += [b"data:" + space + payload for payload in payloads]
        found.append(end.join(lines) + end + end)
    return found
