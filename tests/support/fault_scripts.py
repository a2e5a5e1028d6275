"""Every dialect on the wire, and what can go wrong on the way: one test can state a rule for all of them.

Requests and replies are written out as the APIs document them; nothing here is asked of the code under test.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.scripted_upstream import Exchange, Script, event, reply, stream_events
from support.served import Answer, Served, chat, served

Json = Any
Told = tuple[str, dict[str, Json]]

ONLY_IF_CACHED = {"cache-control": "only-if-cached"}
TEXT = "Zu Köln 🏰"
USED = (9, 3)
"""Tokens of every prompt and of every reply here."""


@dataclass(frozen=True, slots=True)
class Wire:
    """One dialect: what its clients send, what its upstreams answer, and how failures look in it."""

    name: str
    path: str
    ask: Callable[[str], dict[str, Json]]
    """A request for a prompt, not streamed."""
    whole: Callable[[str], dict[str, Json]]
    """The whole reply with this text."""
    events: Callable[[str], list[bytes]]
    """The same as a stream: the last event ends it, and without it the stream is cut. Empty: it has no streams."""
    text_of: Callable[[dict[str, Json]], str]
    """The text of a whole reply."""
    vendor: str = "openai"
    cut: Callable[[str], dict[str, Json]] | None = None
    """A whole reply that ended at a length which the client did not set."""

    def body(self, prompt: str = "hi", *, stream: bool = False) -> dict[str, Json]:
        """A request."""
        return {**self.ask(prompt), **({"stream": True} if stream else {})}

    def stream_text(self, answered: Answer) -> str:
        """The text of a stream, piece by piece as a client puts it together."""
        return "".join(map(self._piece, answered.events()))

    def _piece(self, told: Json) -> str:
        if not isinstance(told, dict):
            return ""
        if self.name == "chat":
            return "".join(c["delta"].get("content") or "" for c in told.get("choices", ()))
        if self.name == "completions":
            return "".join(c["text"] for c in told.get("choices", ()))
        if told.get("type") == "response.output_text.delta":
            return str(told["delta"])
        return str(told["delta"].get("text", "")) if told.get("type") == "content_block_delta" else ""

    def error(self, answered: Answer) -> str:
        """The message of an error reply, which has the vendor's form: openai.com and anthropic.com document them."""
        assert answered.headers["content-type"] == "application/json"
        return self._message(answered.json())

    def error_at_end(self, answered: Answer) -> str:
        """The message of the error that a stream ended with, in the form that the official SDKs raise on."""
        events = answered.events()
        if self.name in ("chat", "completions"):
            assert events.pop() == "[DONE]"
            return self._message(events[-1])
        last = answered.body.rstrip(b"\n").rpartition(b"\n\n")[2]
        assert last.startswith(b"event: error\n")
        assert events[-1]["type"] == "error"
        return self._message(events[-1])

    def _message(self, value: Json) -> str:
        told = value["error"]
        if self.vendor == "anthropic":
            assert value["type"] == "error"
            assert set(told) == {"type", "message"}
        else:
            assert set(told) == {"message", "type", "param", "code"}
        return str(told["message"])


def _completion(text: str, finish: str = "stop") -> dict[str, Json]:
    choice = {"text": text, "index": 0, "logprobs": None, "finish_reason": finish}
    usage = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
    return {**_COMPLETION, "choices": [choice], "usage": usage}


_COMPLETION = {"id": "cmpl-1", "object": "text_completion", "created": 1700000000, "model": "pod-model"}


def _completion_events(text: str) -> list[bytes]:
    def chunk(piece: str, finish: str | None = None) -> bytes:
        choice = {"text": piece, "index": 0, "logprobs": None, "finish_reason": finish}
        return event({**_COMPLETION, "choices": [choice]})

    return [chunk(text[:3]), chunk(text[3:]), chunk("", "stop"), event(b"[DONE]")]


def _message(text: str, stop: str = "end_turn") -> dict[str, Json]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "pod-model",
        "content": [{"type": "text", "text": text}],
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {"input_tokens": 9, "output_tokens": 3},
    }


def _message_events(text: str) -> list[bytes]:
    begun = {
        **_message(""),
        "content": [],
        "stop_reason": None,
        "usage": {"input_tokens": 9, "output_tokens": 1},
    }
    ended = {"stop_reason": "end_turn", "stop_sequence": None}
    deltas: list[Told] = [
        ("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": piece}})
        for piece in (text[:3], text[3:])
    ]
    told: list[Told] = [
        ("message_start", {"message": begun}),
        ("content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}}),
        ("ping", {}),
        *deltas,
        ("content_block_stop", {"index": 0}),
        ("message_delta", {"delta": ended, "usage": {"output_tokens": 3}}),
        ("message_stop", {}),
    ]
    return [_typed(kind, fields) for kind, fields in told]


def _response(text: str, **fields: Json) -> dict[str, Json]:
    part = {"type": "output_text", "annotations": [], "logprobs": [], "text": text}
    item = {"id": "m_1", "type": "message", "status": "completed", "content": [part], "role": "assistant"}
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1700000000,
        "status": "completed",
        "background": False,
        "error": None,
        "incomplete_details": None,
        "model": "pod-model",
        "output": [item],
        "usage": {"input_tokens": 9, "output_tokens": 3, "total_tokens": 12},
        **fields,
    }


def _response_events(text: str) -> list[bytes]:
    whole = _response(text)
    item = whole["output"][0]
    part = item["content"][0]
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    place = {"item_id": "m_1", "output_index": 0, "content_index": 0}
    opened = {**item, "status": "in_progress", "content": []}
    deltas: list[Told] = [
        ("output_text.delta", {**place, "delta": piece, "logprobs": []}) for piece in (text[:3], text[3:])
    ]
    told: list[Told] = [
        ("created", {"response": begun}),
        ("in_progress", {"response": begun}),
        ("output_item.added", {"output_index": 0, "item": opened}),
        ("content_part.added", {**place, "part": {**part, "text": ""}}),
        *deltas,
        ("output_text.done", {**place, "text": text, "logprobs": []}),
        ("content_part.done", {**place, "part": part}),
        ("output_item.done", {"output_index": 0, "item": item}),
        ("completed", {"response": whole}),
    ]
    return [
        _typed(f"response.{kind}", {"sequence_number": number, **fields})
        for number, (kind, fields) in enumerate(told)
    ]


def _typed(kind: str, fields: dict[str, Json]) -> bytes:
    return b"event: " + kind.encode() + b"\n" + event({"type": kind, **fields})


def _vectors(text: str) -> dict[str, Json]:
    """The vector says the text, so that a test can tell one reply from another."""
    return {
        "object": "list",
        "data": [{"object": "embedding", "index": 0, "embedding": [float(c) for c in text.encode()]}],
        "model": "pod-model",
        "usage": {"prompt_tokens": 9, "total_tokens": 9},
    }


CHAT = Wire(
    "chat",
    "/v1/chat/completions",
    chat,
    reply,
    lambda text: stream_events(text[:3], text[3:]),
    lambda value: value["choices"][0]["message"]["content"],
    cut=lambda text: reply(text, finish="length"),
)
COMPLETIONS = Wire(
    "completions",
    "/v1/completions",
    lambda prompt: {"model": "pod-model", "prompt": prompt},
    _completion,
    _completion_events,
    lambda value: value["choices"][0]["text"],
    cut=lambda text: _completion(text, "length"),
)
RESPONSES = Wire(
    "responses",
    "/v1/responses",
    lambda prompt: {"model": "pod-model", "input": prompt, "store": False},
    _response,
    _response_events,
    lambda value: value["output"][0]["content"][0]["text"],
    cut=lambda text: _response(text, status="incomplete", incomplete_details={"reason": "max_output_tokens"}),
)
MESSAGES = Wire(
    "messages",
    "/v1/messages",
    lambda prompt: {**chat(prompt), "max_tokens": 4096},
    _message,
    _message_events,
    lambda value: value["content"][0]["text"],
    vendor="anthropic",
    cut=lambda text: _message(text, "max_tokens"),
)
COUNT_TOKENS = Wire(
    "count_tokens",
    "/v1/messages/count_tokens",
    chat,
    lambda text: {"input_tokens": len(text)},
    lambda _: [],
    lambda value: "x" * value["input_tokens"],
    vendor="anthropic",
)
EMBEDDINGS = Wire(
    "embeddings",
    "/v1/embeddings",
    lambda prompt: {"model": "pod-model", "input": prompt},
    _vectors,
    lambda _: [],
    lambda value: bytes(map(int, value["data"][0]["embedding"])).decode(),
)

STREAMING = [CHAT, COMPLETIONS, RESPONSES, MESSAGES]
WIRES = [*STREAMING, COUNT_TOKENS, EMBEDDINGS]


ERRORS = {
    "openai": {"error": {"message": "out of memory", "type": "server_error", "param": None, "code": None}},
    "anthropic": {"type": "error", "error": {"type": "overloaded_error", "message": "out of memory"}},
}
"""An error object as each vendor sends it."""


@contextlib.asynccontextmanager
async def wired(
    data_dir: Path, url: str, *, upstream: Mapping[str, Json] | None = None, **settings: Json
) -> AsyncIterator[Served]:
    """A gateway before one server that speaks both vendors' APIs."""
    both = [
        {"name": vendor, "kind": vendor, "urls": [url], **(upstream or {})}
        for vendor in ("openai", "anthropic")
    ]
    async with served(data_dir, [url], upstreams=both, **settings) as running:
        yield running


async def ask(
    gateway: Served,
    wire: Wire,
    prompt: str = "hi",
    *,
    stream: bool = False,
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """One request in a dialect."""
    return await gateway.ask(wire.body(prompt, stream=stream), path=wire.path, headers=headers)


async def is_stored(gateway: Served, wire: Wire, prompt: str = "hi") -> bool:
    """Whether a stored reply answers a request, streamed or not; 504 (RFC 9111 §5.2.1.7) says that none does."""
    statuses = {
        (await ask(gateway, wire, prompt, stream=stream, headers=ONLY_IF_CACHED)).status
        for stream in ((False, True) if wire in STREAMING else (False,))
    }
    assert statuses in ({200}, {504})
    return statuses == {200}


def text_in(wire: Wire, answered: Answer) -> str:
    """The text of a good reply, whole or streamed."""
    assert answered.status == 200
    if answered.headers["content-type"].startswith("text/event-stream"):
        return wire.stream_text(answered)
    return wire.text_of(answered.json())


# What upstreams do.


def answers(wire: Wire, text: str = TEXT) -> Script:
    """A good reply, streamed where that was asked for."""

    async def script(exchange: Exchange) -> None:
        if exchange.call.json().get("stream"):
            await exchange.stream(wire.events(text))
        else:
            await exchange.json(wire.whole(text))

    return script


def breaks_after(events: Iterable[bytes], how: str) -> Script:
    """Some events of a stream, then its end without the event that ends it: a reset, a close, or framed as whole."""

    async def script(exchange: Exchange) -> None:
        await exchange.start_stream()
        for one in events:
            await exchange.chunk(one)
        if how == "reset":
            await asyncio.sleep(0.05)  # a reset throws away what the peer has not read yet
            exchange.reset()
        elif how == "close":
            exchange.close()
        else:
            await exchange.last_chunk()

    return script


def stalls_after(events: Iterable[bytes]) -> Script:
    """Some events of a stream, then silence."""

    async def script(exchange: Exchange) -> None:
        await exchange.start_stream()
        for one in events:
            await exchange.chunk(one)
        await exchange.until_closed()

    return script


def whole_bytes(body: bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> Script:
    """Always this body."""

    async def script(exchange: Exchange) -> None:
        await exchange.whole(body, status, headers)

    return script


def framed(text: Json, *, status: str = "HTTP/1.1 200 OK", headers: Iterable[str] = ()) -> bytes:
    """A reply as it goes over the wire, by its length."""
    body = json.dumps(text).encode()
    lines = [status, "content-type: application/json", f"content-length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body
