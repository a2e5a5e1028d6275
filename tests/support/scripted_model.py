"""A model server whose replies the question itself scripts, for clients that are too large for a real small model.

It speaks streamed chat completions, Responses and Messages. In the last message of a user
`[[say "…"]]` is the reply, `[[words N]]` a reply of N words, `[[tool NAME {…}]]` a call of that tool (and, once its
result is there, `said: ` and the result). Anything else is answered with a short text of the question's own.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

Json = Any

_CHARS = 4
_BLOCK = 16
_CARRIER = "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>"
_SUMMARISER = "You are a context summarization assistant"
_TOOL = re.compile(r"\[\[tool (\w+) (\{.*?\})\]\]", re.DOTALL)
_SAY = re.compile(r"\[\[say (\".*?\")\]\]", re.DOTALL)
_WORDS = re.compile(r"\[\[words (\d+)\]\]")
_SUMMARY = (
    "## Decisions\n- None.\n\n## Open TODOs\n- None.\n\n## Constraints/Rules\n- None.\n\n"
    "## Pending user asks\n- None.\n\n## Exact identifiers\n- None."
)


@dataclass(frozen=True, slots=True)
class Asked:
    """One request."""

    path: str
    headers: dict[str, str]
    body: Json
    prompt: str
    """Tools, system prompt and messages as one text, in the order in which a model reads them."""
    cached_chars: int
    """How much of it an earlier prompt began with."""
    answers: Mapping[str, str]
    """What stands for a question in the script, by a part of it."""

    @property
    def num_tokens(self) -> int:
        """Its length, four characters a token."""
        return len(self.prompt) // _CHARS

    @property
    def num_cached(self) -> int:
        """What of it was known, in whole blocks, as servers with a prefix cache count it."""
        return self.cached_chars // _CHARS // _BLOCK * _BLOCK

    @property
    def num_written(self) -> int:
        """What of it the cache takes: the further whole blocks."""
        return self.num_tokens // _BLOCK * _BLOCK - self.num_cached

    @property
    def messages(self) -> list[Json]:
        """The messages, without system prompts."""
        found = self.body.get("messages", self.body.get("input"))
        return [message for message in found if message.get("role") not in ("system", "developer")]

    @property
    def texts(self) -> list[str]:
        """Role and text of each message that has a role, without OpenClaw's last one, which is new in every request."""
        said = [f"{m['role']}: {text_of(m.get('content'))}" for m in self.messages if m.get("role")]
        return [text for text in said if _CARRIER not in text]

    @property
    def system(self) -> str:
        """The system prompt."""
        found = self.body.get("messages", self.body.get("input"))
        own = [text_of(m.get("content")) for m in found if m.get("role") in ("system", "developer")]
        return "\n".join([text_of(self.body.get("system", "")), *own])

    @property
    def is_summary(self) -> bool:
        """Whether it asks for a compaction's summary."""
        return self.system.lstrip().startswith(_SUMMARISER)


@dataclass(frozen=True, slots=True)
class _Reply:
    text: str = ""
    tools: tuple[tuple[str, str], ...] = ()


class ScriptedModel:
    """The server; use as a context manager. `url` is without `/v1`.

    `answers` scripts questions that do not do it themselves: a part of a question, and what is answered instead of it.
    """

    def __init__(self, answers: Mapping[str, str] | None = None) -> None:
        self.asked: list[Asked] = []
        self._answers = answers or {}
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def note(self, path: str, headers: dict[str, str], body: Json) -> Asked:
        """Remember a request, and compare it with all before it."""
        prompt = _rendered(body)
        with self._lock:
            cached = max((_shared(prompt, earlier.prompt) for earlier in self.asked), default=0)
            asked = Asked(path, headers, body, prompt, cached, self._answers)
            self.asked.append(asked)
        return asked

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def text_of(content: Json) -> str:
    """The text of a message's content."""
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text") or "" for part in content or () if isinstance(part, dict))


def _rendered(body: Json) -> str:
    found = body.get("messages", body.get("input")) or []
    parts = [body.get("tools"), body.get("system"), *({**m, "content": _plain(m)} for m in found)]
    return "\n".join(json.dumps(part, ensure_ascii=False) for part in parts)


def _plain(message: Json) -> Json:
    """A single text part and a string are the same to a model, whatever marks stand on the part."""
    content = message.get("content")
    only_text = isinstance(content, list) and all(
        part.get("type") in ("text", "input_text") for part in content
    )
    return text_of(content) if only_text else content


def _shared(one: str, other: str) -> int:
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[:middle] == other[:middle] else (low, middle - 1)
    return low


def _reply(asked: Asked) -> _Reply:
    if asked.is_summary:
        return _Reply(_SUMMARY)
    results: list[str] = []
    question = ""
    for message in reversed(asked.messages):
        text = text_of(message.get("content"))
        result = _result(message)
        if result is not None:
            results.append(result)
        elif message.get("role") == "user" and _CARRIER not in text:
            question = text
            break
    if results:
        return _Reply(f"said: {results[0]}")
    asks = {question.rfind(part): answer for part, answer in asked.answers.items() if part in question}
    question = asks[max(asks)] if asks else question  # what is recalled stands before what is asked
    if tools := _TOOL.findall(question):
        return _Reply(tools=tuple(tools))
    if said := _SAY.search(question):
        return _Reply(json.loads(said[1]))
    if words := _WORDS.search(question):
        return _Reply(" ".join(f"word{number}" for number in range(int(words[1]))))
    return _Reply(f"answer to {question[-40:]!r}")


def _result(message: Json) -> str | None:
    """A tool's result, in the form of any of the three APIs."""
    if message.get("role") == "tool":
        return text_of(message.get("content"))
    if message.get("type") == "function_call_output":
        output: str = message["output"]
        return output
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    found = [text_of(part.get("content")) for part in parts if part.get("type") == "tool_result"]
    return found[0] if found else None


def _chat(asked: Asked, number: int) -> Iterator[Json]:
    reply = _reply(asked)
    frame = {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": asked.body["model"],
    }
    deltas: list[Json] = [{"role": "assistant", "content": ""}]
    if reply.text:
        deltas.append({"content": reply.text})
    for index, (name, arguments) in enumerate(reply.tools):
        call = {"index": index, "id": f"call{number}x{index}", "type": "function"}
        deltas.append({"tool_calls": [call | {"function": {"name": name, "arguments": arguments}}]})
    for delta in deltas:
        yield None, frame | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    why = "tool_calls" if reply.tools else "stop"
    yield None, frame | {"choices": [{"index": 0, "delta": {}, "finish_reason": why}]}
    tokens = asked.num_tokens
    usage = {"prompt_tokens": tokens, "completion_tokens": 9, "total_tokens": tokens + 9}
    details = {"cached_tokens": asked.num_cached, "cache_write_tokens": asked.num_written}
    yield None, frame | {"choices": [], "usage": usage | {"prompt_tokens_details": details}}
    yield None, "[DONE]"


def _responses(asked: Asked, number: int) -> Iterator[Json]:
    reply = _reply(asked)
    items: list[Json] = [
        {"id": f"fc_{number}_{i}", "type": "function_call", "call_id": f"call{number}x{i}", "name": name}
        | {"arguments": arguments, "status": "completed"}
        for i, (name, arguments) in enumerate(reply.tools)
    ]
    if reply.text:
        content = [{"type": "output_text", "text": reply.text, "annotations": []}]
        items.append({"id": f"msg_{number}", "type": "message", "role": "assistant", "status": "completed"})
        items[-1]["content"] = content
    tokens = asked.num_tokens
    details = {"cached_tokens": asked.num_cached, "cache_write_tokens": asked.num_written}
    usage: Json = {"input_tokens": tokens, "output_tokens": 9, "total_tokens": tokens + 9}
    usage |= {
        "input_tokens_details": details,
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    whole: Json = {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 1,
        "model": asked.body["model"],
    }
    events: list[Json] = [
        {"type": "response.created", "response": whole | {"status": "in_progress", "output": []}}
    ]
    for index, item in enumerate(items):
        at = {"item_id": item["id"], "output_index": index}
        begun = item | ({"content": []} if "content" in item else {"arguments": ""})
        events.append({"type": "response.output_item.added", "output_index": index, "item": begun})
        if "content" in item:
            part = {"type": "output_text", "text": "", "annotations": []}
            events.append({"type": "response.content_part.added", "content_index": 0, "part": part} | at)
            events.append(
                {"type": "response.output_text.delta", "content_index": 0, "delta": reply.text} | at
            )
            events.append({"type": "response.output_text.done", "content_index": 0, "text": reply.text} | at)
        else:
            arguments = item["arguments"]
            events.append({"type": "response.function_call_arguments.delta", "delta": arguments} | at)
            events.append({"type": "response.function_call_arguments.done", "arguments": arguments} | at)
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    done = whole | {"status": "completed", "output": items, "usage": usage}
    events.append({"type": "response.completed", "response": done})
    for order, event in enumerate(events):
        yield event["type"], event | {"sequence_number": order}


def _messages(asked: Asked, number: int) -> Iterator[Json]:
    reply = _reply(asked)
    cached, written = asked.num_cached, asked.num_written
    usage = {
        "input_tokens": asked.num_tokens - cached - written,
        "cache_read_input_tokens": cached,
        "cache_creation_input_tokens": written,
    }
    message: Json = {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": asked.body["model"],
    }
    message |= {
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage | {"output_tokens": 1},
    }
    yield "message_start", {"type": "message_start", "message": message}
    blocks: list[tuple[Json, Json]] = [
        (
            {"type": "tool_use", "id": f"toolu{number}x{i}", "name": name, "input": {}},
            {"type": "input_json_delta", "partial_json": arguments},
        )
        for i, (name, arguments) in enumerate(reply.tools)
    ]
    if reply.text:
        blocks.append(({"type": "text", "text": ""}, {"type": "text_delta", "text": reply.text}))
    for index, (begun, delta) in enumerate(blocks):
        at = {"index": index}
        yield "content_block_start", {"type": "content_block_start", "content_block": begun} | at
        yield "content_block_delta", {"type": "content_block_delta", "delta": delta} | at
        yield "content_block_stop", {"type": "content_block_stop"} | at
    why = "tool_use" if reply.tools else "end_turn"
    delta = {"stop_reason": why, "stop_sequence": None}
    yield "message_delta", {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 9}}
    yield "message_stop", {"type": "message_stop"}


_APIS = {"/v1/chat/completions": _chat, "/v1/responses": _responses, "/v1/messages": _messages}


def _handler(model: ScriptedModel) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

        def do_GET(self) -> None:
            self._send("application/json", json.dumps({"object": "list", "data": []}).encode())

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            path = self.path.partition("?")[0]
            asked = model.note(path, dict(self.headers.items()), body)
            written = []
            for kind, event in _APIS[path](asked, len(model.asked)):
                data = event if isinstance(event, str) else json.dumps(event)
                written.append((f"event: {kind}\n" if kind else "") + f"data: {data}\n\n")
            self._send("text/event-stream", "".join(written).encode())

        def _send(self, kind: str, data: bytes) -> None:
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    return Handler
